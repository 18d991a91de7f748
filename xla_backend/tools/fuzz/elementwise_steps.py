"""Random steps: elementwise operations, conversions and comparisons."""

from __future__ import annotations

from xla_backend.hlo.attributes import ComparisonDirection, ReducePrecisionAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.scope import (
    ARRAYS,
    BITS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    MATH_FLOATS,
    NUMBERS,
    ORDERED,
    WIDE_FLOATS,
    Scope,
)

# opcodes, types they accept
_UNARY = [
    ((O.ABS, O.NEGATE, O.SIGN), FLOATS | INTEGERS | COMPLEX),
    ((O.FLOOR, O.CEIL, O.ROUND_NEAREST_AFZ, O.ROUND_NEAREST_EVEN, O.IS_FINITE), FLOATS),
    ((O.COSINE, O.SINE, O.TANH, O.LOGISTIC, O.SQRT, O.CBRT, O.LOG, O.LOG_PLUS_ONE), FLOATS),
    ((O.ASIN, O.ACOS, O.ASINH, O.ACOSH, O.ATANH, O.RSQRT, O.ERF, O.TAN), MATH_FLOATS),
    ((O.COSINE, O.SINE, O.TANH, O.SQRT, O.LOG, O.REAL, O.IMAG, O.LOGISTIC), COMPLEX),
    ((O.NOT,), BITS),
    ((O.POPCNT, O.COUNT_LEADING_ZEROS), INTEGERS),
]
_GROWING = (O.EXPONENTIAL, O.EXPONENTIAL_MINUS_ONE, O.SINH, O.COSH)
# Only defined, or only interesting, for positive values.
_POSITIVE = frozenset({O.SQRT, O.LOG, O.RSQRT, O.LOG_PLUS_ONE})
_BINARY = [
    ((O.ADD, O.SUBTRACT, O.MULTIPLY), NUMBERS),
    ((O.ADD, O.SUBTRACT, O.MULTIPLY), FLOATS),
    ((O.MAXIMUM, O.MINIMUM), ORDERED),
    ((O.DIVIDE,), NUMBERS),
    ((O.REMAINDER,), INTEGERS | FLOATS),
    ((O.POWER,), INTEGERS | MATH_FLOATS),
    ((O.ATAN2,), MATH_FLOATS),
    ((O.AND, O.OR, O.XOR), BITS),
    ((O.SHIFT_LEFT, O.SHIFT_RIGHT_ARITHMETIC, O.SHIFT_RIGHT_LOGICAL, O.MULHI), INTEGERS),
    ((O.ADD, O.MULTIPLY), frozenset({P.PRED})),
]
_DIRECTIONS = tuple(ComparisonDirection)


def unary(s: Scope) -> None:
    opcodes, accepts = s.one_of(_UNARY)
    opcode, x = s.one_of(opcodes), s.find(accepts)
    if opcode in _POSITIVE and x.shape.element_type in FLOATS and s.chance(0.8):
        x = s.add(O.ABS, (x,))
    s.keep(s.add(opcode, (x,)))


def growing(s: Scope) -> None:
    """Exponentials of bounded values."""
    x = s.find(MATH_FLOATS)
    s.keep(s.add(s.one_of(_GROWING), (s.bounded(x) if s.chance(0.85) else x,)))


def binary(s: Scope) -> None:
    opcodes, accepts = s.one_of(_BINARY)
    opcode, x = s.one_of(opcodes), s.find(accepts)
    y = x if s.chance(0.06) else s.like(x.shape)
    if opcode is O.POWER and x.shape.element_type in FLOATS:
        x, y = s.add(O.ABS, (x,)), s.bounded(y, 3.0)
    if opcode in (O.DIVIDE, O.REMAINDER) and s.chance(0.5):
        y = s.full(s.one_of((1.0, 2.0, 3.0)), x.shape)
    pair = (x, y) if s.chance(0.7) else (y, x)
    s.keep(s.add(opcode, pair))


def identity(s: Scope) -> None:
    """What a simplifier removes: arithmetic with neutral and absorbing constants."""
    x = s.find(NUMBERS)
    opcode, value = s.one_of(
        (
            (O.ADD, 0.0),
            (O.SUBTRACT, 0.0),
            (O.MULTIPLY, 1.0),
            (O.MULTIPLY, 0.0),
            (O.DIVIDE, 1.0),
        )
    )
    pair = (x, s.full(value, x.shape))
    s.keep(s.add(opcode, pair if s.chance(0.7) else pair[::-1]))


def compare(s: Scope) -> None:
    x = s.find(ARRAYS)
    complex_ = x.shape.element_type in COMPLEX
    total = x.shape.element_type in FLOATS and s.chance(0.2)
    y = s.like(x.shape)
    if total:
        x, y = s.ordinary(x), s.ordinary(y)
    direction = s.one_of(_DIRECTIONS[:2] if complex_ else _DIRECTIONS)
    s.keep(s.builder.compare(x, y, direction, total_order=total))


def select(s: Scope) -> None:
    x = s.find(ARRAYS)
    scalar = s.chance(0.15)
    predicate = s.like(Shape.array(P.PRED, () if scalar else x.shape.dimensions))
    s.keep(s.add(O.SELECT, (predicate, x, s.like(x.shape))))


def clamp(s: Scope) -> None:
    x = s.find(ORDERED - {P.PRED})
    scalar = Shape(x.shape.element_type)
    low, high = (s.like(scalar if s.chance(0.6) else x.shape) for _ in range(2))
    s.keep(s.add(O.CLAMP, (low, x, high)))


def convert(s: Scope) -> None:
    x = s.find(ARRAYS)
    accepts = ARRAYS if s.chance(0.4) else frozenset(s.types)
    s.keep(s.builder.convert(x, s.element_type(accepts)))


def complex_parts(s: Scope) -> None:
    real = s.find(WIDE_FLOATS)
    s.keep(s.add(O.COMPLEX, (real, s.like(real.shape))))


def reduce_precision(s: Scope) -> None:
    x = s.find(MATH_FLOATS)
    attributes = ReducePrecisionAttributes(s.between(2, 8), s.between(0, 10))
    s.keep(s.add(O.REDUCE_PRECISION, (x,), attributes))


def bitcast_convert(s: Scope) -> None:
    """Between types of equal width, or to and from a vector of narrower ones."""
    x = s.ordinary(s.find(ORDERED - {P.PRED}, most=4))
    have = x.shape.element_type
    targets = [t for t in ORDERED - {P.PRED} if t.bits >= 8 and have.bits >= 8] or [have]
    want = s.one_of(sorted(targets, key=lambda t: t.value))
    dims = x.shape.dimensions
    if want.bits < have.bits:
        dims = (*dims, have.bits // want.bits)
    elif want.bits > have.bits:
        if not dims or dims[-1] != want.bits // have.bits:
            return
        dims = dims[:-1]
    s.keep(s.add(O.BITCAST_CONVERT, (x,), shape=Shape.array(want, dims)))


def stochastic_convert(s: Scope) -> None:
    x = s.find(frozenset({P.F32, P.BF16, P.F16}))
    bits = P.U32 if x.shape.element_type is P.F32 else P.U16
    random = s.fresh(x.shape.with_type(bits))
    to = s.one_of((P.S8, P.S16, P.S32))
    s.keep(s.add(O.STOCHASTIC_CONVERT, (x, random), shape=x.shape.with_type(to)))


def chain(s: Scope) -> None:
    """A few operations in a row on one array, as a fused chain."""
    x: Instruction = s.find(MATH_FLOATS)
    for _ in range(s.between(2, 6)):
        if s.chance(0.5):
            x = s.add(s.one_of((O.TANH, O.NEGATE, O.ABS, O.SINE, O.FLOOR)), (x,))
        else:
            x = s.add(s.one_of((O.ADD, O.MULTIPLY, O.MAXIMUM, O.SUBTRACT)), (x, s.like(x.shape)))
    s.keep(x)


STEPS = [
    (10, binary),
    (8, unary),
    (2, growing),
    (2, identity),
    (4, compare),
    (4, select),
    (2, clamp),
    (5, convert),
    (0.7, complex_parts),
    (0.7, reduce_precision),
    (1, bitcast_convert),
    (0.3, stochastic_convert),
    (3, chain),
]
