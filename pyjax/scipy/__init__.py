"""The part of SciPy that compiles. Submodules load on first use."""

from importlib import import_module as _import_module
from typing import Any as _Any

_SUBMODULES = frozenset(
    {
        "cluster",
        "fft",
        "integrate",
        "interpolate",
        "linalg",
        "ndimage",
        "optimize",
        "signal",
        "spatial",
        "sparse",
        "special",
        "stats",
    }
)


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _import_module(f"pyjax.scipy.{name}")
    raise AttributeError(f"module 'pyjax.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
