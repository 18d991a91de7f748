"""The part of SciPy that compiles. Submodules load on first use."""

from typing import Any as _Any

from xla_backend.process.on_first_use import import_now as _import_now

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
        return _import_now(f"pyjax.scipy.{name}")
    raise AttributeError(f"module 'pyjax.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
