"""The option array_garbage_collection_guard; its effect is in tests/config."""

from __future__ import annotations

import subprocess
import sys


def test_collections_call_nothing_until_the_option_is_used() -> None:
    """An interrupt that comes while they call Python is lost."""
    code = """if True:
        import gc, pyjax
        assert not gc.callbacks
        with pyjax.array_garbage_collection_guard("allow"):
            assert not gc.callbacks
        with pyjax.array_garbage_collection_guard("log"):
            assert len(gc.callbacks) == 1
        pyjax.config.update("jax_array_garbage_collection_guard", "log")
        assert len(gc.callbacks) == 1
        """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
