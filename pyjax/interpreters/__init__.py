"""What transformations do with primitives; `ad`, `batching`, `mlir`, `partial_eval`, `pxla` and
`xla` have the names that libraries use. Modules load on first use."""

from typing import Any as _Any

from xla_backend.process.on_first_use import import_now as _import_now

_PUBLIC = frozenset({"ad", "batching", "mlir", "partial_eval", "pxla", "xla"})


def __getattr__(name: str) -> _Any:
    if name in _PUBLIC:
        return _import_now(f"pyjax.interpreters.{name}")
    raise AttributeError(f"module 'pyjax.interpreters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
