"""Types of the textual dialect: values equal by content, each with its own text."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.types import PrimitiveType
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType

# Element types both notations know. MLIR writes signed integers without a sign: i32.
ELEMENT_TYPES: dict[str, PrimitiveType] = {
    "i1": P.PRED,
    "i2": P.S2,
    "i4": P.S4,
    "i8": P.S8,
    "i16": P.S16,
    "i32": P.S32,
    "i64": P.S64,
    "ui2": P.U2,
    "ui4": P.U4,
    "ui8": P.U8,
    "ui16": P.U16,
    "ui32": P.U32,
    "ui64": P.U64,
    "f8E5M2": P.F8E5M2,
    "f8E4M3": P.F8E4M3,
    "f8E4M3FN": P.F8E4M3FN,
    "f8E4M3B11FNUZ": P.F8E4M3B11FNUZ,
    "f8E3M4": P.F8E3M4,
    "f8E5M2FNUZ": P.F8E5M2FNUZ,
    "f8E4M3FNUZ": P.F8E4M3FNUZ,
    "f8E8M0FNU": P.F8E8M0FNU,
    "f4E2M1FN": P.F4E2M1FN,
    "f16": P.F16,
    "bf16": P.BF16,
    "f32": P.F32,
    "f64": P.F64,
}
NAME_OF_ELEMENT: dict[PrimitiveType, str] = {v: k for k, v in ELEMENT_TYPES.items()}


class Type:
    """Base of all types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ScalarType(Type):
    """`f32`, `i1`, `ui8`, `index`, `none`, ..."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def is_integer(self) -> bool:
        return self.name.startswith(("i", "ui", "si")) and self.name != "index"

    @property
    def is_float(self) -> bool:
        return self.name.startswith(("f", "bf"))


@dataclass(frozen=True, slots=True)
class ComplexType(Type):
    element: ScalarType

    def __str__(self) -> str:
        return f"complex<{self.element}>"


@dataclass(frozen=True, slots=True)
class QuantizedType(Type):
    """`!quant.uniform<i8:f32, 0.5:3>`: integers that stand for (stored - zero_point) * scale.

    One scale for the whole tensor (`axis` None), or one per index along `axis`.
    """

    storage: ScalarType
    expressed: ScalarType
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    storage_min: int
    storage_max: int
    text: str  # as written

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """`tensor<2x?xf32, #stablehlo.bounds<?, 4>>`. `dimensions` None: unranked; a dimension None:
    unknown size. `bounds` has an upper bound or None per dimension."""

    dimensions: tuple[int | None, ...] | None
    element: Type
    bounds: tuple[int | None, ...] = ()
    encoding: str = ""  # text of an encoding that is not bounds

    def __str__(self) -> str:
        if self.dimensions is None:
            return f"tensor<*x{self.element}>"
        sizes = "".join("?x" if d is None else f"{d}x" for d in self.dimensions)
        suffix = ""
        if self.bounds:
            texts = ["?" if b is None else str(b) for b in self.bounds]
            suffix = f", #stablehlo.bounds<{', '.join(texts)}>"
        elif self.encoding:
            suffix = f", {self.encoding}"
        return f"tensor<{sizes}{self.element}{suffix}>"

    @property
    def is_static(self) -> bool:
        return self.dimensions is not None and None not in self.dimensions


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    members: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.members))}>"


@dataclass(frozen=True, slots=True)
class TokenType(Type):
    def __str__(self) -> str:
        return "!stablehlo.token"


@dataclass(frozen=True, slots=True)
class FutureType(Type):
    """What `async_start` gives and `async_done` takes."""

    members: tuple[Type, ...]

    def __str__(self) -> str:
        return f"!stablehlo.future<{', '.join(map(str, self.members))}>"


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> {results_text(self.results)}"


@dataclass(frozen=True, slots=True)
class OpaqueType(Type):
    """A type of another dialect, kept as text: `!foo.bar<...>`."""

    text: str

    def __str__(self) -> str:
        return self.text


TOKEN = TokenType()


def results_text(types: Sequence[Type]) -> str:
    """Results of a function type: parentheses unless there is exactly one that is no function."""
    if len(types) == 1 and not isinstance(types[0], FunctionType):
        return str(types[0])
    return f"({', '.join(map(str, types))})"
