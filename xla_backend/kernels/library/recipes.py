"""How the terms of a product are multiplied and added: in which types, of how many parts each
factor, and in tiles of which shape.

A recipe follows from the types of the operands and the result, and from what the program says
about precision. Where tensor cores take fewer bits than a factor has, the rounding is part of the
recipe, so that results do not depend on what a machine drops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xla_backend.hlo.attributes import Precision, ReducePrecisionAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.ir import Value
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType
Shape = tuple[int, int, int]

_TILE_16: Shape = (16, 8, 16)
_TILE_32: Shape = (16, 8, 8)
_TILE_8: Shape = (16, 8, 32)
_TF32 = ReducePrecisionAttributes(8, 10)
_BF16 = ReducePrecisionAttributes(8, 7)


@dataclass(frozen=True)
class Recipe:
    """Fields:
    factor: the type in which factors lie in shared memory; other: that of the right ones, if it is
      another one, of the same size.
    sums: the type of products and sums.
    tile: the shape of the tiles that 32 threads multiply together; None: each thread on its own.
    rounding: what a factor, or each part of one, is rounded to before it is multiplied.
    part: the type of the parts that are multiplied.
    terms: (part of lhs, part of rhs) of the products that are added, the small ones first. Part 0
      is the rounded factor, part n + 1 what parts 0 to n leave of it. A factor that is not finite
      is in part -1 only, the rounded factor again: in other terms it would meet zeros.
    """

    factor: P
    sums: P
    tile: Shape | None = None
    rounding: ReducePrecisionAttributes | None = None
    part: P | None = None
    terms: tuple[tuple[int, int], ...] = ((0, 0),)
    other: P | None = None

    def of_side(self, side: int) -> Recipe:
        """The recipe for factors of one side, 0 or 1."""
        return replace(self, factor=self.other, other=None) if side and self.other else self

    @property
    def parts(self) -> int:
        """How many parts a factor has."""
        return 1 + max(max(pair) for pair in self.terms)

    @property
    def rounds_factors(self) -> bool:
        """Whether factors are rounded before they lie in shared memory."""
        return self.parts == 1 and self.rounding is not None

    def factor_of(self, b: LoopBuilder, element: Value) -> Value:
        """An element of an operand as it lies in shared memory."""
        value = convert(b, element, self.factor)
        if self.parts == 1 and self.rounding is not None:
            return _rounded(b, value, self.rounding)
        return value

    def parts_of(self, b: LoopBuilder, factor: Value) -> list[Value]:
        """What is multiplied of a factor."""
        if self.parts == 1:
            return [factor]
        assert self.rounding is not None
        whole = _rounded(b, factor, self.rounding)
        finite = b.compute(Opcode.IS_FINITE, P.PRED, (whole,))
        zero = b.constant(self.factor, 0)
        part = b.compute(Opcode.SELECT, self.factor, (finite, whole, zero))
        rest = b.compute(Opcode.SELECT, self.factor, (finite, factor, zero))
        found = [part]
        while len(found) < self.parts:
            rest = b.compute(Opcode.SUBTRACT, self.factor, (rest, part))
            part = _rounded(b, rest, self.rounding)
            found.append(part)
        return [convert(b, part, self.part or self.factor) for part in (*found, whole)]


def _rounded(b: LoopBuilder, value: Value, bits: ReducePrecisionAttributes) -> Value:
    return b.compute(Opcode.REDUCE_PRECISION, value.type, (value,), bits)


def convert(b: LoopBuilder, value: Value, type: P) -> Value:
    """A value in another type."""
    return value if value.type is type else b.compute(Opcode.CONVERT, type, (value,))


_THREE = ((1, 0), (0, 1), (-1, -1))
_SIX = ((2, 0), (1, 1), (0, 2), *_THREE)
_NINE = ((2, 2), (2, 1), (1, 2), *_SIX)


def _split_bf16(terms: tuple[tuple[int, int], ...]) -> Recipe:
    return Recipe(P.F32, P.F32, _TILE_16, _BF16, P.BF16, terms)


_PLAIN_F32 = Recipe(P.F32, P.F32)
_HALF = {t: Recipe(t, P.F32, _TILE_16) for t in (P.F16, P.BF16)}
_TF32_ONCE = Recipe(P.F32, P.F32, _TILE_32, _TF32)
_TF32_THREE = Recipe(P.F32, P.F32, _TILE_32, _TF32, P.F32, _THREE)
_BYTES = frozenset({P.S8, P.U8})
_FLOAT_BYTES = frozenset({P.F8E4M3FN, P.F8E5M2})


def _of_bytes(lhs: P, rhs: P, sums: P) -> Recipe:
    return Recipe(lhs, sums, _TILE_8, other=None if rhs is lhs else rhs)


# By the names that HLO has for the algorithms of dots. Sums of f16 and bf16 are formed in f32.
_ALGORITHMS = {
    "dot_any_f8_any_f8_f32": _HALF[P.F16],
    "dot_any_f8_any_f8_f32_fast_accum": _HALF[P.F16],
    "dot_any_f8_any_f8_any": _HALF[P.F16],
    "dot_any_f8_any_f8_any_fast_accum": _HALF[P.F16],
    "dot_f16_f16_f16": _HALF[P.F16],
    "dot_f16_f16_f32": _HALF[P.F16],
    "dot_bf16_bf16_bf16": _HALF[P.BF16],
    "dot_bf16_bf16_f32": _HALF[P.BF16],
    "dot_bf16_bf16_f32_x3": _split_bf16(_THREE),
    "dot_bf16_bf16_f32_x6": _split_bf16(_SIX),
    "dot_bf16_bf16_f32_x9": _split_bf16(_NINE),
    "dot_tf32_tf32_f32": _TF32_ONCE,
    "dot_tf32_tf32_f32_x3": _TF32_THREE,
    "dot_f32_f32_f32": _PLAIN_F32,
    "dot_f64_f64_f64": Recipe(P.F64, P.F64),
}
# Those of floats of 8 bits that leave it open how sums are formed.
_ROUGH = frozenset(
    {
        "dot_any_f8_any_f8_f32_fast_accum",
        "dot_any_f8_any_f8_any",
        "dot_any_f8_any_f8_any_fast_accum",
    }
)
# f32 factors by the precision that is asked for.
_PRECISIONS = {
    Precision.DEFAULT: _TF32_ONCE,
    Precision.HIGH: _TF32_THREE,
    Precision.HIGHEST: _PLAIN_F32,
}
# Small floats all of whose values an f16 has; the others go into a bf16 or f32.
_IN_F16 = frozenset(
    {
        P.F8E5M2, P.F8E4M3, P.F8E4M3FN, P.F8E4M3B11FNUZ, P.F8E3M4, P.F8E5M2FNUZ, P.F8E4M3FNUZ,
        P.F6E2M3FN, P.F6E3M2FN, P.F4E2M1FN, P.F16,
    }
)  # fmt: skip
_IN_BF16 = frozenset({P.F8E8M0FNU, P.BF16, *_IN_F16}) - {P.F16}


def recipe_for(
    lhs: P,
    rhs: P,
    result: P,
    precision: Sequence[Precision] = (),
    algorithm: str | None = None,
    *,
    few: bool = False,
    small: bool = False,
    float_bytes: bool = False,
) -> Recipe | None:
    """The recipe of a product; None for complex numbers. `few`: rows or columns are too few for
    tiles. `small`: so few terms that f32 is not worth rounding. `float_bytes`: there are tiles of
    floats of 8 bits, which add up with fewer bits than f32 has.

    Raises:
      UnimplementedError: the algorithm has no recipe.
    """
    types = {lhs, rhs, result}
    # The higher one of two precisions, as they are listed.
    order = list(Precision)
    asked = max(precision, key=order.index, default=Precision.DEFAULT)
    if any(t.is_complex for t in types):
        return None
    if algorithm is not None:
        known = _ALGORITHMS.get(algorithm)
        if known is None:
            raise UnimplementedError(
                f"the algorithm {algorithm} of a dot has no code for GPUs; known ones are "
                f"{', '.join(sorted(_ALGORITHMS))}"
            )
        tiles = float_bytes and algorithm in _ROUGH and {lhs, rhs} <= _FLOAT_BYTES
        return _of_bytes(lhs, rhs, P.F32) if tiles else known
    if not result.is_floating:
        return _of_integers(lhs, rhs, result, few)
    if P.F64 in types:
        return Recipe(P.F64, P.F64)
    if few:
        return _PLAIN_F32
    if float_bytes and {lhs, rhs} <= _FLOAT_BYTES and asked is Precision.DEFAULT:
        return _of_bytes(lhs, rhs, P.F32)
    if lhs in _IN_F16 and rhs in _IN_F16:
        return _HALF[P.F16]
    if lhs in _IN_BF16 and rhs in _IN_BF16:
        return _HALF[P.BF16]
    if small:
        return _PLAIN_F32
    return _PRECISIONS[asked]


def _of_integers(lhs: P, rhs: P, result: P, few: bool) -> Recipe:
    if {lhs, rhs} <= _BYTES and result.bits <= 32 and not few:
        return _of_bytes(lhs, rhs, P.S32)
    wide = result if result.is_integral and result.bits >= 32 else P.S32
    return Recipe(wide, wide)
