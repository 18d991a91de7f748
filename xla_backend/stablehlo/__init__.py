"""StableHLO: the textual dialect, both ways, and its conversion to and from HLO.

The names load with their first use: attributes and types, which tracing writes, need no conversion.
"""

from typing import Any as _Any

from xla_backend.process.on_first_use import import_now as _import_now

_PUBLIC = {
    "NAME_OF_ELEMENT": ("xla_backend.stablehlo.types", "NAME_OF_ELEMENT"),
    "dense_body": ("xla_backend.stablehlo.dense_text", "dense_body"),
    "hlo_to_stablehlo": ("xla_backend.stablehlo.from_hlo", "module_from_hlo"),
    "module_to_stablehlo": ("xla_backend.stablehlo.library", "module_to_stablehlo"),
    "parse_stablehlo": ("xla_backend.stablehlo.library", "parse_stablehlo"),
    "tensor_type": ("xla_backend.stablehlo.from_hlo_context", "tensor_type"),
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> _Any:
    if name in _PUBLIC:
        module, there = _PUBLIC[name]
        return getattr(_import_now(module), there)
    raise AttributeError(f"module 'xla_backend.stablehlo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
