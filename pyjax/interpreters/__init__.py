"""What transformations do with primitives; `ad`, `batching`, `mlir`, `partial_eval`, `pxla` and
`xla` have the names that libraries use. Modules load on first use."""

from importlib import import_module as _import_module
from typing import Any as _Any

_PUBLIC = frozenset({"ad", "batching", "mlir", "partial_eval", "pxla", "xla"})


def __getattr__(name: str) -> _Any:
    if name in _PUBLIC:
        return _import_module(f"pyjax.interpreters.{name}")
    raise AttributeError(f"module 'pyjax.interpreters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
