"""CuPy, on first use: the only place that imports it."""

from __future__ import annotations

from typing import Any

from xla_backend.process.bounded_cache import once


@once
def load_cupy() -> Any:
    """The library.

    Raises:
      ImportError: it is not installed, or something that it needs is not.
    """
    import cupy

    return cupy
