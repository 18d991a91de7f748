"""Shared pieces of the vector mathematics: constants, polynomials, error-free transformations.

Every emitter has the form fn(w, ty, *operands) -> value, for ty = float, double or a vector of
them. The error-free products use one fused multiply-add where the target has it, else Dekker's
splitting, so double-length arithmetic stays exact on every target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from xla_backend.llvm.types import bits_of, const, int_of, mask_of, with_element
from xla_backend.llvm.writer import FunctionWriter

Emitter = Callable[..., str]
INF = float("inf")
NAN = float("nan")


class FloatFormat:
    """Constants of the two formats that are computed in.

    mantissa: explicit mantissa bits; bias: exponent bias; magic: 1.5 * 2^mantissa, whose addition
    rounds a small number to an integer; magic_bits: its bit pattern; min_normal: smallest normal;
    infinity_bits: the bit pattern of infinity.
    """

    __slots__ = ("bias", "infinity_bits", "magic", "magic_bits", "mantissa", "min_normal")

    def __init__(self, mantissa: int, bias: int) -> None:
        self.mantissa = mantissa
        self.bias = bias
        self.magic = 1.5 * 2.0**mantissa
        self.magic_bits = ((bias + mantissa) << mantissa) | (1 << (mantissa - 1))
        self.min_normal = 2.0 ** (1 - bias)
        self.infinity_bits = (2 * bias + 1) << mantissa


_F32 = FloatFormat(23, 127)
_F64 = FloatFormat(52, 1023)


@cache
def fmt(ty: str) -> FloatFormat:
    return _F32 if bits_of(ty) == 32 else _F64


def horner(w: FunctionWriter, ty: str, x: str, coefficients: Sequence[float]) -> str:
    """c[0] + c[1] x + c[2] x^2 + ..."""
    result = const(ty, coefficients[-1])
    for c in coefficients[-2::-1]:
        result = w.fma(ty, result, x, const(ty, c))
    return result


def estrin(w: FunctionWriter, ty: str, x: str, coefficients: Sequence[float]) -> str:
    """The same by halves, which wait for each other less: for long chains of operations."""
    terms, power = [const(ty, c) for c in coefficients], x
    while len(terms) > 1:
        pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
        terms = [
            w.fma(ty, pair[1], power, pair[0]) if len(pair) == 2 else pair[0] for pair in pairs
        ]
        if len(terms) > 1:
            power = w.op("fmul", ty, power, power)
    return terms[0]


def fabs(w: FunctionWriter, ty: str, x: str) -> str:
    return w.intrinsic("fabs", ty, x)


def copysign(w: FunctionWriter, ty: str, magnitude: str, sign: str) -> str:
    return w.intrinsic("copysign", ty, magnitude, sign)


def bits(w: FunctionWriter, ty: str, x: str) -> str:
    return w.cast("bitcast", ty, x, int_of(ty))


def from_bits(w: FunctionWriter, ty: str, x: str) -> str:
    return w.cast("bitcast", int_of(ty), x, ty)


def iop(w: FunctionWriter, ty: str, opcode: str, a: str, b: int | str) -> str:
    """An operation on the integers as wide as ty; b may be a Python int."""
    int_ty = int_of(ty)
    return w.op(opcode, int_ty, a, const(int_ty, b) if isinstance(b, int) else b)


def pick(w: FunctionWriter, ty: str, mask: str, a: str | float, b: str | float) -> str:
    """select with Python floats allowed."""
    a = a if isinstance(a, str) else const(ty, a)
    b = b if isinstance(b, str) else const(ty, b)
    return w.select(mask, ty, a, b)


def fcmp(w: FunctionWriter, ty: str, predicate: str, a: str, b: str | float) -> str:
    return w.cmp(predicate, ty, a, b if isinstance(b, str) else const(ty, b))


def clamp_keep_nan(w: FunctionWriter, ty: str, x: str, low: float, high: float) -> str:
    """x within [low, high]; NaN stays NaN (both comparisons are false)."""
    x = pick(w, ty, fcmp(w, ty, "ogt", x, high), high, x)
    return pick(w, ty, fcmp(w, ty, "olt", x, low), low, x)


def power_of_two(w: FunctionWriter, ty: str, exponent: str) -> str:
    """2^exponent for an integer exponent within the normal range."""
    f = fmt(ty)
    return from_bits(w, ty, iop(w, ty, "shl", iop(w, ty, "add", exponent, f.bias), f.mantissa))


def round_to_int(
    w: FunctionWriter, ty: str, x: str, factor: float | None = None
) -> tuple[str, str]:
    """n = nearest integer to x * factor as a float and as an integer; |n| < 2^(mantissa - 1)."""
    f = fmt(ty)
    magic = const(ty, f.magic)
    if factor is None:
        shifted = w.op("fadd", ty, x, magic)
    else:
        shifted = w.fma(ty, x, const(ty, factor), magic)
    n = w.op("fsub", ty, shifted, magic)
    return n, iop(w, ty, "sub", bits(w, ty, shifted), f.magic_bits)


def two_sum(w: FunctionWriter, ty: str, a: str, b: str) -> tuple[str, str]:
    """s + e = a + b exactly, s the rounded sum (Knuth)."""
    s = w.op("fadd", ty, a, b)
    bb = w.op("fsub", ty, s, a)
    e = w.op("fadd", ty, w.op("fsub", ty, a, w.op("fsub", ty, s, bb)), w.op("fsub", ty, b, bb))
    return s, e


def quick_two_sum(w: FunctionWriter, ty: str, a: str, b: str) -> tuple[str, str]:
    """The same where |a| >= |b| (Dekker)."""
    s = w.op("fadd", ty, a, b)
    return s, w.op("fsub", ty, b, w.op("fsub", ty, s, a))


def _split(w: FunctionWriter, ty: str, a: str) -> tuple[str, str]:
    factor = const(ty, 2.0**27 + 1 if bits_of(ty) == 64 else 2.0**12 + 1)
    t = w.op("fmul", ty, a, factor)
    high = w.op("fsub", ty, t, w.op("fsub", ty, t, a))
    return high, w.op("fsub", ty, a, high)


def two_product(w: FunctionWriter, ty: str, a: str, b: str) -> tuple[str, str]:
    """p + e = a * b exactly (barring overflow and underflow), p the rounded product."""
    p = w.op("fmul", ty, a, b)
    if w.target.has_fma:
        return p, w.fma(ty, a, b, w.fneg(ty, p))
    ah, al = _split(w, ty, a)
    bh, bl = _split(w, ty, b)
    e = w.op("fsub", ty, w.op("fmul", ty, ah, bh), p)
    e = w.op("fadd", ty, e, w.op("fmul", ty, ah, bl))
    e = w.op("fadd", ty, e, w.op("fmul", ty, al, bh))
    return p, w.op("fadd", ty, e, w.op("fmul", ty, al, bl))


def remainder_of_quotient(w: FunctionWriter, ty: str, a: str, q: str, b: str) -> str:
    """a - q*b, exact for q = a/b rounded."""
    if w.target.has_fma:
        return w.fma(ty, w.fneg(ty, q), b, a)
    p, e = two_product(w, ty, q, b)
    return w.op("fsub", ty, w.op("fsub", ty, a, p), e)


def split_exponent(w: FunctionWriter, ty: str, x: str) -> tuple[str, str]:
    """x = m * 2^e for positive normal or subnormal x, m in [sqrt(1/2), sqrt(2)); e an integer."""
    f = fmt(ty)
    boost = 2.0 ** (f.mantissa + 2)
    tiny = fcmp(w, ty, "olt", x, f.min_normal)
    x = w.select(tiny, ty, w.op("fmul", ty, x, const(ty, boost)), x)
    int_ty = int_of(ty)
    extra = w.select(tiny, int_ty, const(int_ty, -(f.mantissa + 2)), const(int_ty, 0))
    sqrt_half = 0x3F3504F3 if f.mantissa == 23 else 0x3FE6A09E667F3BCD
    b = bits(w, ty, x)
    e = iop(w, ty, "ashr", iop(w, ty, "sub", b, sqrt_half), f.mantissa)
    m = from_bits(w, ty, iop(w, ty, "sub", b, iop(w, ty, "shl", e, f.mantissa)))
    return m, iop(w, ty, "add", e, extra)


def any_lane(w: FunctionWriter, ty: str, mask: str) -> str:
    return w.reduce("or", mask_of(ty), mask)


def through_double(emit: Emitter) -> Emitter:
    """An f32 emitter that computes in f64 and rounds once; f64 uses the emitter itself."""

    def emitter(w: FunctionWriter, ty: str, *operands: str) -> str:
        if bits_of(ty) == 64:
            return emit(w, ty, *operands)
        wide = with_element(ty, "double")
        result = emit(w, wide, *[w.cast("fpext", ty, x, wide) for x in operands])
        return w.cast("fptrunc", wide, result, ty)

    return emitter
