"""NumPy meaning of every elementwise opcode.

Each function takes the instruction and operand arrays and works for any array shape: it reads
element types and attributes from the instruction but never its dimensions, so that scalar
computations (reducers, comparators, combiners) can be evaluated on whole arrays of scalars at once.
bf16, f16 and f8 compute in f32 and round once; transcendental functions compute in f64 (c128) and
round to their type.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator.conversions import (
    convert_array,
    reduce_precision,
    total_order_key,
    type_of,
    unsigned_view,
    wrap_small,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.process.on_first_use import on_first_use

# SciPy takes longer to load than most programs to compile, which seldom need it.
_erf = on_first_use("scipy.special", "erf")
_expit = on_first_use("scipy.special", "expit")

P = PrimitiveType
Elementwise = Callable[..., np.ndarray]
_NATIVE = frozenset("?bhilqBHILQfdFD")  # dtype chars NumPy computes with as they are


# -- how a NumPy function is applied to element types NumPy lacks ----------------------------------


def arithmetic(function: Callable[..., np.ndarray]) -> Elementwise:
    """`function` for all types: small floats through f32, sub-byte integers through i8 with
    wrapping."""

    def apply(node: Instruction, *operands: np.ndarray) -> np.ndarray:
        dtype = operands[0].dtype
        if dtype.char in _NATIVE:
            return function(*operands)
        kind = type_of(operands[0])
        if kind.is_floating:
            return function(*[x.astype(np.float32) for x in operands]).astype(dtype)
        return wrap_small(function(*[x.astype(np.int8) for x in operands]), kind)

    return apply


def transcendental(
    real: Callable[..., np.ndarray], complex_: Callable[..., np.ndarray] | None = None
) -> Elementwise:
    """`real` in f64, `complex_` (the same function if None) in c128, rounded to the operand
    type."""

    def apply(node: Instruction, *operands: np.ndarray) -> np.ndarray:
        dtype = operands[0].dtype
        if dtype.char == "d":
            return real(*operands)
        if dtype.char in "FD":
            return (complex_ or real)(*[x.astype(np.complex128) for x in operands]).astype(dtype)
        result = real(*[x.astype(np.float64) for x in operands])
        # Round through f32 as XLA does for small floats: it computes them in f32.
        return result.astype(np.float32).astype(dtype)

    return apply


def _complex_logistic(x: np.ndarray) -> np.ndarray:
    left = x.real < 0  # where exp(-x) overflows
    e = np.exp(np.where(left, x, -x))
    return np.where(left, e, 1.0) / (1.0 + e)


def _no_complex(*operands: np.ndarray) -> np.ndarray:
    raise UnimplementedError("this opcode has no complex form; write it with exp and log")


# -- integers --------------------------------------------------------------------------------------


def _integer_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Truncating; x / 0 is all ones, INT_MIN / -1 is INT_MIN."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(zero, np.iinfo(a.dtype).max, a // safe).astype(a.dtype)
    quotient = a // safe
    inexact = quotient * safe != a
    quotient = quotient + (inexact & ((a < 0) != (safe < 0)))
    quotient = np.where(safe == -1, -a, quotient)  # NumPy reports overflow for INT_MIN // -1
    return np.where(zero, -1, quotient).astype(a.dtype)


def _integer_remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sign of the dividend; x % 0 is x, INT_MIN % -1 is 0."""
    trivial = b == 0 if a.dtype.kind == "u" else (b == 0) | (b == -1)
    safe = np.where(trivial, b.dtype.type(1), b)
    return np.where(b == 0, a, np.fmod(a, safe)).astype(a.dtype)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        return _integer_divide(a, b)
    if a.dtype.kind == "c":
        return _complex_divide(a, b)
    return np.divide(a, b)


def _complex_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dividend and divisor are scaled to about 1 first: neither a tiny nor a huge divisor makes a
    part nan that is a number, or infinite."""
    a, size_a = _scaled(a)
    b, size_b = _scaled(b)
    quotient = np.divide(a, b)
    result = np.empty_like(quotient)
    result.real = np.ldexp(quotient.real, size_a - size_b)
    result.imag = np.ldexp(quotient.imag, size_a - size_b)
    return result


def _scaled(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x = scaled * 2**size, the larger part of a finite one between 1/2 and 1."""
    _, size = np.frexp(np.maximum(np.abs(x.real), np.abs(x.imag)))
    scaled = np.empty_like(x)
    scaled.real, scaled.imag = np.ldexp(x.real, -size), np.ldexp(x.imag, -size)
    return scaled, size


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        return _integer_remainder(a, b)
    return np.fmod(a, b)


def _integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Wrapping; a negative exponent gives 0 unless the base is 1 or -1."""
    base, exponent = np.broadcast_arrays(a, b)
    negative = exponent < 0
    n = np.where(negative, 0, exponent)
    result = np.ones_like(base)
    factor = base.copy()
    while np.any(n):
        result = np.where(n & 1, result * factor, result)
        factor = factor * factor
        n = n >> 1
    if a.dtype.kind == "i":
        odd = (exponent & 1) == 1
        of_negative = np.where(base == 1, 1, np.where(base == -1, np.where(odd, -1, 1), 0))
        result = np.where(negative, of_negative, result)
    return result.astype(a.dtype)


_float_power = transcendental(np.power, lambda a, b: _complex_power(a, b))


def _complex_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """exp(b log a); 0**0 is 1 and 0**b is 0 for positive real part."""
    result = np.power(a, b)
    return np.where((a == 0) & (b == 0), 1.0 + 0j, result)


_small_integer_power = arithmetic(_integer_power)


def _power(node: Instruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    kind = type_of(a)
    if kind.is_integral:
        return _small_integer_power(node, a, b)
    return _float_power(node, a, b)


def _mulhi(node: Instruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = type_of(a).bits
    if bits < 64:
        wide = a.astype(np.int64) * b.astype(np.int64) if bits < 32 or a.dtype.kind == "i" else None
        if wide is None:
            return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(a.dtype)
        return convert_array(wide >> bits, type_of(a))
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    low = (x0 * y0) >> half
    mid = x1 * y0 + low
    mid2 = x0 * y1 + (mid & mask)
    high = x1 * y1 + (mid >> half) + (mid2 >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.astype(a.dtype)


def _shift(node: Instruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Amounts are unsigned; at the width or beyond, the result is 0 (or the sign, arithmetic
    right)."""
    kind = type_of(a)
    bits = kind.bits
    if bits < 8:
        a, b = a.astype(np.int8), b.astype(np.int8)
    unsigned = unsigned_view(b)
    if bits < 8:
        unsigned = unsigned & np.uint8((1 << bits) - 1)
    too_far = unsigned >= bits
    amount = np.where(too_far, unsigned.dtype.type(0), unsigned)
    if node.opcode is Opcode.SHIFT_LEFT:
        result = np.where(too_far, a.dtype.type(0), a << amount.astype(a.dtype))
    elif node.opcode is Opcode.SHIFT_RIGHT_ARITHMETIC:
        signed = a.view(f"i{a.dtype.itemsize}") if a.dtype.kind == "u" else a
        if bits < 8:  # the top bit of the width is the sign, also of unsigned types
            signed = (signed << (8 - bits)) >> (8 - bits)
        last = signed.dtype.type(bits - 1)
        shift = np.where(too_far, last, amount.astype(signed.dtype))
        result = (signed >> shift).astype(a.dtype)
    else:
        raw = unsigned_view(a)
        if bits < 8:
            raw = raw & np.uint8((1 << bits) - 1)
        result = np.where(too_far, raw.dtype.type(0), raw >> amount).astype(a.dtype)
    return wrap_small(result.astype(np.int64), kind) if bits < 8 else result


def _popcnt(node: Instruction, x: np.ndarray) -> np.ndarray:
    bits = type_of(x).bits
    raw = unsigned_view(x)
    if bits < 8:
        raw = raw & np.uint8((1 << bits) - 1)
    return convert_array(np.bitwise_count(raw), type_of(x))


def _count_leading_zeros(node: Instruction, x: np.ndarray) -> np.ndarray:
    kind = type_of(x)
    raw = unsigned_view(x)
    if kind.bits < 8:
        raw = raw & np.uint8((1 << kind.bits) - 1)
    raw = raw.astype(np.uint64)
    length = np.zeros(raw.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        above = raw >= np.uint64(1 << step)
        length = np.where(above, length + step, length)
        raw = np.where(above, raw >> np.uint64(step), raw)
    length = length + (raw > 0)
    return convert_array(kind.bits - length, kind)


# -- floats ----------------------------------------------------------------------------------------


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = np.maximum(a, b)
    if a.dtype.kind == "f":  # max(-0, 0) = 0 whatever the order
        result = np.where((a == 0) & (b == 0), a + b, result)
    return result


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = np.minimum(a, b)
    if a.dtype.kind == "f":
        result = np.where((a == 0) & (b == 0), -((-a) + (-b)), result)
    return result


maximum = arithmetic(_maximum)
minimum = arithmetic(_minimum)


def _round_afz(x: np.ndarray) -> np.ndarray:
    """Half away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


def _sign(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return np.where(x == 0, x, np.sign(x))  # keeps -0
    if x.dtype.kind == "c":
        size = np.where(x == 0, 1, np.abs(x))
        result = np.empty_like(x)  # part by part: a complex quotient of infinities is nan in both
        result.real, result.imag = x.real / size, x.imag / size
        return np.where(x == 0, x.dtype.type(0), result)
    return np.sign(x)


def _complex_log1p(x: np.ndarray) -> np.ndarray:
    """log(1 + x) without cancellation in the real part for small x."""
    real, imag = x.real, x.imag
    square = real * (2.0 + real) + imag * imag  # |1 + x|**2 - 1
    near = np.abs(square) < 0.5
    part = np.where(near, 0.5 * np.log1p(np.where(near, square, 0.0)), np.log(np.abs(1.0 + x)))
    return part + 1j * np.arctan2(imag, 1.0 + real)


def _complex_expm1(x: np.ndarray) -> np.ndarray:
    real, imag = x.real, x.imag
    half = np.sin(0.5 * imag)
    growth = np.expm1(real)
    result = np.empty(x.shape, np.complex128)
    result.real = growth * np.cos(imag) - 2.0 * half * half
    result.imag = np.where(imag == 0, imag, np.exp(real) * np.sin(imag))
    return result


def _complex_cbrt(x: np.ndarray) -> np.ndarray:
    return np.power(x, 1.0 / 3.0)


def _complex_atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def _abs(node: Instruction, x: np.ndarray) -> np.ndarray:
    if x.dtype.char in _NATIVE:
        return np.abs(x)
    return _SMALL_ABS(node, x)


_SMALL_ABS = arithmetic(np.abs)


def _is_finite(node: Instruction, x: np.ndarray) -> np.ndarray:
    return np.isfinite(x if x.dtype.char in "fd" else x.astype(np.float32))


def _not(node: Instruction, x: np.ndarray) -> np.ndarray:
    return _INVERT(node, x)


_INVERT = arithmetic(np.invert)


def _imag(node: Instruction, x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return x.imag
    return np.zeros(x.shape, x.dtype)


def _complex(node: Instruction, real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    dtype = np.complex64 if real.dtype.char == "f" else np.complex128
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), dtype)
    result.real = real
    result.imag = imag
    return result


# -- comparison, selection, conversion -------------------------------------------------------------

_COMPARE = {
    ComparisonDirection.EQ: np.equal,
    ComparisonDirection.NE: np.not_equal,
    ComparisonDirection.GE: np.greater_equal,
    ComparisonDirection.GT: np.greater,
    ComparisonDirection.LE: np.less_equal,
    ComparisonDirection.LT: np.less,
}


def _compare(node: Instruction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    attributes = node.attributes
    assert isinstance(attributes, CompareAttributes)
    if attributes.total_order:
        a, b = total_order_key(a), total_order_key(b)
    elif a.dtype.char not in _NATIVE:
        carrier = np.float32 if type_of(a).is_floating else np.int8
        a, b = a.astype(carrier), b.astype(carrier)
    return _COMPARE[attributes.direction](a, b)


def _select(node: Instruction, pred: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(pred, a, b)


def _clamp(node: Instruction, low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return minimum(node, maximum(node, low, x), high)


def _convert(node: Instruction, x: np.ndarray) -> np.ndarray:
    return convert_array(x, node.shape.element_type)


def _stochastic_convert(node: Instruction, x: np.ndarray, random: np.ndarray) -> np.ndarray:
    """To signed integers: the magnitude is rounded up with the probability of its fraction."""
    to = node.shape.element_type
    if not to.is_signed_integral:
        raise UnimplementedError(
            f"stochastic-convert to {to}; only signed integers have a defined result"
        )
    magnitude = np.abs(x.astype(np.float64))
    whole = np.trunc(magnitude)
    threshold = np.floor((magnitude - whole) * 2.0 ** type_of(random).bits)
    rounded = np.where(random.astype(np.float64) < threshold, whole + 1.0, whole)
    return convert_array(np.where(np.signbit(x.astype(np.float64)), -rounded, rounded), to)


def _identity(node: Instruction, x: np.ndarray) -> np.ndarray:
    return x


def _rsqrt(x: np.ndarray) -> np.ndarray:
    return 1.0 / np.sqrt(x)


ELEMENTWISE: dict[Opcode, Elementwise] = {
    Opcode.ABS: _abs,
    Opcode.CEIL: arithmetic(np.ceil),
    Opcode.FLOOR: arithmetic(np.floor),
    Opcode.ROUND_NEAREST_AFZ: arithmetic(_round_afz),
    Opcode.ROUND_NEAREST_EVEN: arithmetic(np.rint),
    Opcode.NEGATE: arithmetic(np.negative),
    Opcode.SIGN: arithmetic(_sign),
    Opcode.NOT: _not,
    Opcode.POPCNT: _popcnt,
    Opcode.COUNT_LEADING_ZEROS: _count_leading_zeros,
    Opcode.COSINE: transcendental(np.cos),
    Opcode.SINE: transcendental(np.sin),
    Opcode.TAN: transcendental(np.tan),
    Opcode.SINH: transcendental(np.sinh),
    Opcode.COSH: transcendental(np.cosh),
    Opcode.ASIN: transcendental(np.arcsin),
    Opcode.ACOS: transcendental(np.arccos),
    Opcode.ASINH: transcendental(np.arcsinh),
    Opcode.ACOSH: transcendental(np.arccosh),
    Opcode.ATANH: transcendental(np.arctanh),
    Opcode.EXPONENTIAL: transcendental(np.exp),
    Opcode.EXPONENTIAL_MINUS_ONE: transcendental(np.expm1, _complex_expm1),
    Opcode.LOG: transcendental(np.log),
    Opcode.LOG_PLUS_ONE: transcendental(np.log1p, _complex_log1p),
    Opcode.LOGISTIC: transcendental(_expit, _complex_logistic),
    Opcode.RSQRT: transcendental(_rsqrt),
    Opcode.SQRT: transcendental(np.sqrt),
    Opcode.CBRT: transcendental(np.cbrt, _complex_cbrt),
    Opcode.TANH: transcendental(np.tanh),
    Opcode.ERF: transcendental(_erf, _no_complex),
    Opcode.ATAN2: transcendental(np.arctan2, _complex_atan2),
    Opcode.REAL: lambda node, x: x.real if x.dtype.kind == "c" else x,
    Opcode.IMAG: _imag,
    Opcode.COMPLEX: _complex,
    Opcode.IS_FINITE: _is_finite,
    Opcode.CONVERT: _convert,
    Opcode.STOCHASTIC_CONVERT: _stochastic_convert,
    Opcode.REDUCE_PRECISION: reduce_precision,
    Opcode.COPY: _identity,
    Opcode.ADD: arithmetic(np.add),
    Opcode.SUBTRACT: arithmetic(np.subtract),
    Opcode.MULTIPLY: arithmetic(np.multiply),
    Opcode.MULHI: _mulhi,
    Opcode.DIVIDE: arithmetic(_divide),
    Opcode.REMAINDER: arithmetic(_remainder),
    Opcode.POWER: _power,
    Opcode.MAXIMUM: maximum,
    Opcode.MINIMUM: minimum,
    Opcode.AND: arithmetic(np.bitwise_and),
    Opcode.OR: arithmetic(np.bitwise_or),
    Opcode.XOR: arithmetic(np.bitwise_xor),
    Opcode.SHIFT_LEFT: _shift,
    Opcode.SHIFT_RIGHT_ARITHMETIC: _shift,
    Opcode.SHIFT_RIGHT_LOGICAL: _shift,
    Opcode.COMPARE: _compare,
    Opcode.SELECT: _select,
    Opcode.CLAMP: _clamp,
}
