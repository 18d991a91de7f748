"""A cache on disk that is a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyjax._config import config
from pyjax._config.registry import Source, all_options

from pyjax.experimental.compilation_cache import compilation_cache
from xla_backend.persistent import settings, store


@contextmanager
def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In a folder, as long as the block; options of caches that were set in it are taken back.
    Calls wait for what is kept, also where all other tests stay on first code."""
    before, first_code = settings.cache_settings(), config.jax_first_code
    config.update("jax_first_code", False)
    monkeypatch.setattr(store, "_warned", set())
    compilation_cache.set_cache_dir(folder / "cache")
    yield folder / "cache"
    config.update("jax_first_code", first_code)
    for name, option in all_options().items():
        if "cache" in name:
            option.clear(Source.UPDATE)
    assert settings.cache_settings() == before
