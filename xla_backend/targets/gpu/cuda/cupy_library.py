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


@once
def load_solvers() -> Any:
    """CuPy's module of the functions that SciPy has in `scipy.linalg`."""
    import cupyx.scipy.linalg

    return cupyx.scipy.linalg
