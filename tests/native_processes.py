"""Programs in processes whose calls are native."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_with_native_calls(program: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """A cache of its own: tidying up a full one waits for the busy threads at each of its files."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        env=os.environ | {"PYJAX_CACHE_DIR": str(cache), "PYJAX_NATIVE_DISPATCH": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
