"""Elementwise operations on complex numbers, written with real operations on (real, imaginary)
pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder, real_type
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.ir import Value

Pair = tuple[Value, Value]
P = PrimitiveType


class Reals:
    """Short names for real operations of one type on a builder."""

    def __init__(self, builder: LoopBuilder, type: P) -> None:
        self.b = builder
        self.type = type

    def const(self, value: float) -> Value:
        return self.b.constant(self.type, value)

    def op(self, opcode: Opcode, *operands: Value) -> Value:
        return self.b.compute(opcode, self.type, operands)

    def add(self, x: Value, y: Value) -> Value:
        return self.op(Opcode.ADD, x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.op(Opcode.SUBTRACT, x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.op(Opcode.MULTIPLY, x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.op(Opcode.DIVIDE, x, y)

    def neg(self, x: Value) -> Value:
        return self.op(Opcode.NEGATE, x)

    def abs(self, x: Value) -> Value:
        return self.op(Opcode.ABS, x)

    def compare(self, x: Value, y: Value, direction: str) -> Value:
        attributes = CompareAttributes(ComparisonDirection(direction))
        return self.b.compute(Opcode.COMPARE, P.PRED, (x, y), attributes)

    def is_nan(self, x: Value) -> Value:
        return self.compare(x, x, "NE")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return self.op(Opcode.SELECT, condition, x, y)

    def both(self, p: Value, q: Value) -> Value:
        return self.b.compute(Opcode.AND, P.PRED, (p, q))

    def either(self, p: Value, q: Value) -> Value:
        return self.b.compute(Opcode.OR, P.PRED, (p, q))

    def select2(self, condition: Value, x: Pair, y: Pair) -> Pair:
        return self.select(condition, x[0], y[0]), self.select(condition, x[1], y[1])


def hypot(r: Reals, z: Pair) -> Value:
    """sqrt(x*x + y*y) without overflow; inf if either part is, whatever the other."""
    x, y = r.abs(z[0]), r.abs(z[1])
    big, small = r.op(Opcode.MAXIMUM, x, y), r.op(Opcode.MINIMUM, x, y)
    ratio = r.div(small, big)
    root = r.mul(big, r.op(Opcode.SQRT, r.add(r.const(1), r.mul(ratio, ratio))))
    plain = r.either(r.compare(small, r.const(0), "EQ"), r.compare(small, big, "EQ"))
    same = r.mul(big, r.const(float(np.sqrt(2.0))))
    root = r.select(plain, r.select(r.compare(small, r.const(0), "EQ"), big, same), root)
    infinity = r.const(float("inf"))
    is_inf = r.either(r.compare(x, infinity, "EQ"), r.compare(y, infinity, "EQ"))
    return r.select(is_inf, infinity, root)


def multiply(r: Reals, z: Pair, w: Pair) -> Pair:
    return (
        r.sub(r.mul(z[0], w[0]), r.mul(z[1], w[1])),
        r.add(r.mul(z[0], w[1]), r.mul(z[1], w[0])),
    )


def divide(r: Reals, z: Pair, w: Pair) -> Pair:
    """Smith's method: no overflow in the intermediate |w|^2."""
    a, b = z
    c, d = w
    wide = r.compare(r.abs(c), r.abs(d), "GE")
    p, q = r.select(wide, c, d), r.select(wide, d, c)
    ratio = r.div(q, p)
    denominator = r.add(p, r.mul(q, ratio))
    x, y = r.select(wide, a, b), r.select(wide, b, a)
    real = r.div(r.add(x, r.mul(y, ratio)), denominator)
    turned = r.div(r.sub(y, r.mul(x, ratio)), denominator)
    imag = r.select(wide, turned, r.neg(turned))
    zero = r.const(0)
    by_zero = r.both(r.compare(c, zero, "EQ"), r.compare(d, zero, "EQ"))
    return r.select2(by_zero, (r.div(a, zero), r.div(b, zero)), (real, imag))


def exp(r: Reals, z: Pair) -> Pair:
    scale = r.op(Opcode.EXPONENTIAL, z[0])
    real = r.mul(scale, r.op(Opcode.COSINE, z[1]))
    imag = r.mul(scale, r.op(Opcode.SINE, z[1]))
    zero = r.const(0)
    # A zero imaginary part stays zero even if the scale is infinite; a zero scale beats an infinite
    # angle. (The signs of a finite angle's cosine and sine stay.)
    imag = r.select(r.compare(z[1], zero, "EQ"), z[1], imag)
    gone = r.compare(z[0], r.const(float("-inf")), "EQ")
    gone = r.both(gone, r.is_nan(real))
    return r.select2(gone, (zero, zero), (real, imag))


def log(r: Reals, z: Pair) -> Pair:
    """log|z| and the angle; log|z| keeps its digits near |z| = 1 through log1p((|x|-1)(|x|+1) +
    y*y), elsewhere through log(big) + log1p((small/big)^2) / 2, because |z| itself may overflow or
    be subnormal."""
    x, y = r.abs(z[0]), r.abs(z[1])
    big, small = r.op(Opcode.MAXIMUM, x, y), r.op(Opcode.MINIMUM, x, y)
    zero, one, infinity = r.const(0), r.const(1), r.const(float("inf"))
    square = r.add(r.mul(r.sub(big, one), r.add(big, one)), r.mul(small, small))
    ratio = r.select(r.compare(small, zero, "EQ"), zero, r.div(small, big))
    near = r.both(r.compare(big, r.const(0.5), "GT"), r.compare(big, r.const(2.0), "LT"))
    tail = r.op(Opcode.LOG_PLUS_ONE, r.select(near, square, r.mul(ratio, ratio)))
    head = r.select(near, zero, r.op(Opcode.LOG, big))
    size = r.add(head, r.mul(r.const(0.5), tail))
    is_inf = r.either(r.compare(x, infinity, "EQ"), r.compare(y, infinity, "EQ"))
    return r.select(is_inf, infinity, size), r.op(Opcode.ATAN2, z[1], z[0])


def sqrt(r: Reals, z: Pair) -> Pair:
    # Halves of the smallest numbers are zero, and |z| of the largest overflows: both are scaled, by
    # a power of four.
    digits = 24 if r.type is P.F32 else 54
    limits = np.finfo(r.type.numpy_dtype)
    largest = r.op(Opcode.MAXIMUM, r.abs(z[0]), r.abs(z[1]))
    is_small = r.compare(largest, r.const(float(limits.smallest_normal) * 16.0), "LT")
    is_large = r.compare(largest, r.const(float(limits.max) / 4.0), "GT")
    one = r.const(1)
    up = r.select(is_small, r.const(4.0**digits), r.select(is_large, r.const(0.0625), one))
    down = r.select(is_small, r.const(2.0**-digits), r.select(is_large, r.const(4), one))
    x, y = r.mul(z[0], up), r.mul(z[1], up)
    size = hypot(r, (x, y))
    half = r.const(0.5)
    # sqrt((|z| + |x|) / 2), halved before adding so that it does not overflow
    t = r.op(Opcode.SQRT, r.add(r.mul(size, half), r.mul(r.abs(x), half)))
    other = r.div(r.mul(r.abs(y), half), t)
    right = r.compare(x, r.const(0), "GE")
    real, imag = r.select(right, t, other), r.select(right, other, t)
    zero = r.const(0)
    nothing = r.both(r.compare(x, zero, "EQ"), r.compare(y, zero, "EQ"))
    real = r.select(nothing, zero, real)
    imag = r.select(nothing, zero, imag)
    infinite = r.compare(r.abs(y), r.const(float("inf")), "EQ")
    real = r.select(infinite, r.abs(y), real)
    imag = r.select(infinite, r.abs(y), imag)
    return r.mul(real, down), _copysign(r, r.mul(imag, down), y)


def _copysign(r: Reals, size: Value, sign: Value) -> Value:
    """|size| with the sign bit of `sign` (atan2(+-0, -1) tells the zeros apart)."""
    unsigned = P.U32 if r.type is P.F32 else P.U64
    bits = r.b.compute(Opcode.BITCAST_CONVERT, unsigned, (sign,))
    mask = r.b.constant(unsigned, 1 << (unsigned.bits - 1))
    sign_bit = r.b.compute(Opcode.AND, unsigned, (bits, mask))
    own = r.b.compute(Opcode.BITCAST_CONVERT, unsigned, (r.abs(size),))
    joined = r.b.compute(Opcode.OR, unsigned, (own, sign_bit))
    return r.b.compute(Opcode.BITCAST_CONVERT, r.type, (joined,))


def rsqrt(r: Reals, z: Pair) -> Pair:
    return divide(r, (r.const(1), r.const(0)), sqrt(r, z))


def power(r: Reals, z: Pair, w: Pair) -> Pair:
    zero, one = r.const(0), r.const(1)
    result = exp(r, multiply(r, w, log(r, z)))
    z_zero = r.both(r.compare(z[0], zero, "EQ"), r.compare(z[1], zero, "EQ"))
    w_zero = r.both(r.compare(w[0], zero, "EQ"), r.compare(w[1], zero, "EQ"))
    growing = r.compare(w[0], zero, "GT")
    result = r.select2(r.both(z_zero, growing), (zero, zero), result)
    return r.select2(w_zero, (one, zero), result)


def sinh_cosh(r: Reals, x: Value) -> Pair:
    return r.op(Opcode.SINH, x), r.op(Opcode.COSH, x)


def sin(r: Reals, z: Pair) -> Pair:
    sinh, cosh = sinh_cosh(r, z[1])
    s, c = r.op(Opcode.SINE, z[0]), r.op(Opcode.COSINE, z[0])
    zero = r.const(0)
    imag = r.select(r.compare(z[1], zero, "EQ"), r.mul(c, z[1]), r.mul(c, sinh))
    real = r.select(r.compare(z[0], zero, "EQ"), z[0], r.mul(s, cosh))
    return real, imag


def cos(r: Reals, z: Pair) -> Pair:
    sinh, cosh = sinh_cosh(r, z[1])
    s, c = r.op(Opcode.SINE, z[0]), r.op(Opcode.COSINE, z[0])
    zero = r.const(0)
    flat = r.either(r.compare(z[0], zero, "EQ"), r.compare(z[1], zero, "EQ"))
    # Zero times infinity, or nan, is zero here; its sign is that of finite factors.
    signs = r.mul(_copysign(r, zero, z[0]), _copysign(r, r.const(1), z[1]))
    return r.mul(c, cosh), r.neg(r.select(flat, signs, r.mul(s, sinh)))


def tanh(r: Reals, z: Pair) -> Pair:
    """With t = tanh x, u = tan y: (t + iu) / (1 + itu); beyond |x| = 20 the value is +-1 to
    rounding."""
    x, y = z
    one = r.const(1)
    t, u = r.op(Opcode.TANH, x), r.op(Opcode.TAN, y)
    middle = divide(r, (t, u), (one, r.mul(t, u)))
    large = r.compare(r.abs(x), r.const(20), "GT")
    found = r.select2(large, (_copysign(r, one, x), r.mul(r.const(0), u)), middle)
    # An infinite angle has no tangent, but beside an infinite x; nor does it meet a zero.
    zero = r.const(0)
    wild = r.is_nan(u)
    ends = r.both(wild, r.compare(r.abs(x), r.const(float("inf")), "EQ"))
    found = r.select2(ends, (found[0], zero), r.select2(wild, (u, u), found))
    return r.select2(r.compare(y, zero, "EQ"), (t, y), found)


def tan(r: Reals, z: Pair) -> Pair:
    real, imag = tanh(r, (r.neg(z[1]), z[0]))  # tan z = -i tanh(iz)
    return imag, r.neg(real)


def sinh(r: Reals, z: Pair) -> Pair:
    real, imag = sin(r, (r.neg(z[1]), z[0]))  # sinh z = -i sin(iz)
    return imag, r.neg(real)


def cosh(r: Reals, z: Pair) -> Pair:
    return cos(r, (r.neg(z[1]), z[0]))


def log1p(r: Reals, z: Pair) -> Pair:
    x, y = z
    one = r.const(1)
    # |1 + z|^2 - 1 = x(2 + x) + y^2
    square = r.add(r.mul(x, r.add(r.const(2), x)), r.mul(y, y))
    close = r.mul(r.const(0.5), r.op(Opcode.LOG_PLUS_ONE, square))
    shifted = (r.add(one, x), y)
    far = log(r, shifted)
    near = r.compare(hypot(r, z), r.const(0.5), "LT")
    return r.select(near, close, far[0]), far[1]


def expm1(r: Reals, z: Pair) -> Pair:
    x, y = z
    e = r.op(Opcode.EXPONENTIAL_MINUS_ONE, x)
    half = r.op(Opcode.SINE, r.mul(y, r.const(0.5)))
    # e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y/2)
    real = r.sub(r.mul(e, r.op(Opcode.COSINE, y)), r.mul(r.const(2), r.mul(half, half)))
    imag = r.mul(r.add(e, r.const(1)), r.op(Opcode.SINE, y))
    zero = r.const(0)
    imag = r.select(r.compare(y, zero, "EQ"), y, imag)
    return r.select(r.compare(y, zero, "EQ"), e, real), imag


def logistic(r: Reals, z: Pair) -> Pair:
    """1 / (1 + e^-z), or e^z / (1 + e^z) on the left, where e^-z overflows."""
    one, zero = r.const(1), r.const(0)
    left = r.compare(z[0], zero, "LT")
    e = exp(r, r.select2(left, z, (r.neg(z[0]), r.neg(z[1]))))
    return divide(r, r.select2(left, e, (one, zero)), (r.add(one, e[0]), e[1]))


def cbrt(r: Reals, z: Pair) -> Pair:
    return power(r, z, (r.const(1.0 / 3.0), r.const(0)))


def sign(r: Reals, z: Pair) -> Pair:
    size = hypot(r, z)
    nothing = r.compare(size, r.const(0), "EQ")
    return r.select2(nothing, z, (r.div(z[0], size), r.div(z[1], size)))


_UNARY: dict[Opcode, Callable[[Reals, Pair], Pair]] = {
    Opcode.NEGATE: lambda r, z: (r.neg(z[0]), r.neg(z[1])),
    Opcode.EXPONENTIAL: exp,
    Opcode.EXPONENTIAL_MINUS_ONE: expm1,
    Opcode.LOG: log,
    Opcode.LOG_PLUS_ONE: log1p,
    Opcode.SQRT: sqrt,
    Opcode.RSQRT: rsqrt,
    Opcode.CBRT: cbrt,
    Opcode.SINE: sin,
    Opcode.COSINE: cos,
    Opcode.TAN: tan,
    Opcode.TANH: tanh,
    Opcode.SINH: sinh,
    Opcode.COSH: cosh,
    Opcode.LOGISTIC: logistic,
    Opcode.SIGN: sign,
}
_BINARY: dict[Opcode, Callable[[Reals, Pair, Pair], Pair]] = {
    Opcode.ADD: lambda r, z, w: (r.add(z[0], w[0]), r.add(z[1], w[1])),
    Opcode.SUBTRACT: lambda r, z, w: (r.sub(z[0], w[0]), r.sub(z[1], w[1])),
    Opcode.MULTIPLY: multiply,
    Opcode.DIVIDE: divide,
    Opcode.POWER: power,
}


def emit(b: LoopBuilder, node: Instruction, operands: Sequence[Any]) -> Any:
    """An elementwise instruction with complex operands or a complex result."""
    opcode = node.opcode
    type = node.shape.element_type
    if opcode is Opcode.COMPLEX:
        return operands[0], operands[1]
    if opcode is Opcode.SELECT:
        r = Reals(b, real_type(type))
        return r.select2(operands[0], operands[1], operands[2])
    if opcode is Opcode.CONVERT:
        return _convert(b, type, operands[0])
    source = node.operands[0].shape.element_type
    r = Reals(b, real_type(source))
    z = operands[0]
    if opcode is Opcode.REAL:
        return z[0]
    if opcode is Opcode.IMAG:
        return z[1]
    if opcode is Opcode.ABS:
        return hypot(r, z)
    if opcode is Opcode.IS_FINITE:
        finite = [b.compute(Opcode.IS_FINITE, P.PRED, (part,)) for part in z]
        return r.both(*finite)
    if opcode is Opcode.COMPARE:
        direction = attrs(node).direction.value
        w = operands[1]
        same = [r.compare(x, y, direction) for x, y in zip(z, w)]
        if direction == "EQ":
            return r.both(*same)
        if direction == "NE":
            return r.either(*same)
    if opcode in _UNARY:
        return _UNARY[opcode](r, z)
    if opcode in _BINARY:
        return _BINARY[opcode](r, z, operands[1])
    raise UnimplementedError(
        f"{opcode} is not defined for complex operands of {node!r}; split them with real() "
        f"and imag()"
    )


def _convert(b: LoopBuilder, type: P, operand: Any) -> Any:
    def to(t: P, v: Value) -> Value:
        return v if v.type is t else b.compute(Opcode.CONVERT, t, (v,))

    if type is P.PRED:  # nonzero, as of every number; other types drop the imaginary part
        return b.compute(Opcode.OR, type, [to(type, part) for part in operand])
    if not type.is_complex:
        return to(type, operand[0])
    part = real_type(type)
    if isinstance(operand, tuple):
        return to(part, operand[0]), to(part, operand[1])
    return to(part, operand), b.constant(part, 0)
