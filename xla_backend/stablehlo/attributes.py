"""Attribute values of the textual dialect.

Those Python has are plain values: `bool`, `str` (string), `tuple` (array), `dict`, a `Type` (type
attribute). The rest are the classes here. `attribute_text` in printer_attributes.py writes them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.stablehlo.types import ScalarType, TensorType, Type

_I64: Final = ScalarType("i64")
Attribute = Any  # bool | str | tuple | dict | Type | one of the classes below


@dataclass(frozen=True, slots=True)
class UnitAttribute:
    """Present or absent: `{use_global_device_ids}`."""


UNIT: Final = UnitAttribute()


@dataclass(frozen=True, slots=True)
class IntegerAttribute:
    """`1 : i64`."""

    value: int
    type: Type = _I64


@dataclass(frozen=True, slots=True)
class FloatAttribute:
    """`1.000000e-03 : f32`; the value is a NumPy scalar of the type, so that bits are kept."""

    value: Any
    type: ScalarType


@dataclass(frozen=True, slots=True)
class SymbolAttribute:
    """`@main`, nested `@a::@b`."""

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class ArrayAttribute:
    """`array<i64: 1, 2>`."""

    element: ScalarType
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DenseAttribute:
    """`dense<...> : tensor<...>`. `array` has the tensor's shape (quantized tensors: of their
    storage type); a `text` other than "" is a form kept as written (sparse, dense_resource)."""

    array: np.ndarray
    type: TensorType
    text: str = ""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DenseAttribute)
            and self.type == other.type
            and self.text == other.text
            and self.array.tobytes() == other.array.tobytes()
        )

    def __hash__(self) -> int:
        return hash((self.type, self.text, self.array.tobytes()))


@dataclass(frozen=True, slots=True)
class EnumAttribute:
    """`#stablehlo<precision HIGH>`."""

    dialect: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class DialectAttribute:
    """`#stablehlo.gather<offset_dims = [1], ...>` and attributes of other dialects: the text
    between the angle brackets is kept; `None` means that there are no brackets."""

    name: str  # "stablehlo.gather"
    body: str | None


@dataclass(frozen=True, slots=True)
class OpaqueAttribute:
    """Anything else in brackets, kept as text: affine maps, `opaque<...>`."""

    text: str


# -- locations -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Location:
    """Where an operation comes from: a name, a place in a file, a call, or several of these.

    `name` of `loc("jit(f)/add"(...))`; `file`, `line`, `column` (and ends) of
    `loc("a.py":3:7 to :12)`; `child` under the name; `caller` of `callsite(callee at caller)`;
    `fused` members. All empty: unknown. Locations share parts, so that a hash is computed once.
    """

    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    child: Location | None = None
    caller: Location | None = None
    fused: tuple[Location, ...] = ()
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = (self.name, self.file, self.line, self.column, self.end_line, self.end_column)
        found = hash((own, self.child, self.caller, self.fused))
        object.__setattr__(self, "_hash", found)

    def __hash__(self) -> int:
        return self._hash

    def parts(self) -> tuple[Location, ...]:
        """The locations that this one is made of."""
        return tuple([x for x in (self.child, self.caller) if x is not None]) + self.fused


UNKNOWN_LOCATION: Final = Location()
