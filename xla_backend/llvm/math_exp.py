"""exp, expm1, logistic, tanh, sinh, cosh for f32 and f64 lanes.

exp(x) = 2^n e^r with n = round(x / ln 2), |r| <= ln(2)/2, and e^r = 1 + r + r^2 P(r). Polynomials
are minimax fits made for this file. The scaling by 2^n is done in two factors, so subnormal results
are rounded once and the largest arguments do not overflow early.
"""

from __future__ import annotations

import numpy as np

from xla_backend.llvm.math_basics import (
    bits,
    clamp_keep_nan,
    copysign,
    fabs,
    fcmp,
    fmt,
    from_bits,
    horner,
    iop,
    pick,
    power_of_two,
    quick_two_sum,
    round_to_int,
)
from xla_backend.llvm.registers import lookup, scale
from xla_backend.llvm.types import bits_of, const
from xla_backend.llvm.writer import FunctionWriter

_LOG2E = 1.4426950408889634
# ln 2 in two parts: the first is short, so that n * part is exact.
_LN2_F32 = (0.693145751953125, 1.428606765330187e-06)
_LN2_F64 = (0.6931471805598903, 5.497923018708371e-14)
_EXP_F32 = (
    0.5,
    0.1666666716337204,
    0.041666269302368164,
    0.008333273231983185,
    0.0013946177205070853,
    0.0001991374301724136,
)
EXP_F64 = (
    0.5,
    0.16666666666666685,
    0.04166666666666673,
    0.008333333333316822,
    0.001388888888885652,
    0.00019841269896801037,
    2.480158737689941e-05,
    2.7557234522715402e-06,
    2.755723101127472e-07,
    2.511213499295667e-08,
    2.092759128226098e-09,
)
# 2^f = E(f) for |f| <= 1/32
_EXP2_F32 = (1.0, 0.6931471824645996, 0.24023427069187164, 0.05550340563058853)
# Added to bits of a number of sixteenths j at the place of the exponent: those of 2^(j / 16).
_SIXTEENTHS_SHIFT = 19
# Three of them are not the nearest numbers, but the next ones, which make tanh more accurate.
_SIXTEENTHS = [
    float((power.view(np.int32) - (j << _SIXTEENTHS_SHIFT) + (3 <= j <= 5)).view(np.float32))
    for j, power in enumerate(np.float32(2.0 ** (j / 16)) for j in range(16))
]
# tanh(x) = x + x^3 T(x^2) for |x| < 0.726 as f32, < 0.55 as f64
_TANH_F32 = (
    -0.33333319425582886,
    0.13332819938659668,
    -0.05390452593564987,
    0.021499810740351677,
    -0.007744274102151394,
    0.001795460470020771,
)
_TANH_F64 = (
    -0.3333333333333333,
    0.13333333333333322,
    -0.05396825396824477,
    0.021869488535727576,
    -0.008863235518169522,
    0.0035921278294431306,
    -0.0014558319114815871,
    0.0005900068138276563,
    -0.0002390076236284817,
    9.640938115208286e-05,
    -3.780866844222339e-05,
    1.3036291012133755e-05,
    -2.850069626542198e-06,
)


def _reduce(w: FunctionWriter, ty: str, x: str) -> tuple[str, str, str, str, str]:
    """(n, n as an integer, r, P(r), r^2) with e^x = 2^n (1 + r + r^2 P(r))."""
    single = bits_of(ty) == 32
    high, low = _LN2_F32 if single else _LN2_F64
    n, n_int = round_to_int(w, ty, x, _LOG2E)
    r = w.fma(ty, n, const(ty, -high), x)
    r = w.fma(ty, n, const(ty, -low), r)
    p = horner(w, ty, r, _EXP_F32 if single else EXP_F64)
    return n, n_int, r, p, w.op("fmul", ty, r, r)


def _exp(w: FunctionWriter, ty: str, x: str, shift: int = 0) -> str:
    """e^x * 2^shift without intermediate overflow; x >= 0 where it is shifted."""
    # What is below the low end is multiplied by 0: each of the two factors of 2^n is one there, as
    # the exponent of one is just below all normal ones. A product that underflows takes the
    # processor as long as the rest of the exponential, and masks of scores are such arguments.
    low, high = (-176.1, 90.0) if bits_of(ty) == 32 else (-1418.2, 712.0)
    n, n_int, r, p, square = _reduce(w, ty, clamp_keep_nan(w, ty, x, low, high))
    p = w.op("fadd", ty, w.fma(ty, p, square, r), const(ty, 1.0))
    if shift:
        n = w.op("fadd", ty, n, const(ty, shift))
        n_int = iop(w, ty, "add", n_int, shift)
    return scale(w, ty, p, n, n_int)


def exp(w: FunctionWriter, ty: str, x: str) -> str:
    return _exp(w, ty, x)


def _expm1_core(w: FunctionWriter, ty: str, x: str) -> str:
    """e^x - 1 for x in the range where 2^(n-1) is normal; tiny x are the caller's business."""
    _, n, r, p, square = _reduce(w, ty, x)
    half = power_of_two(w, ty, iop(w, ty, "sub", n, 1))
    rest = w.op("fsub", ty, half, const(ty, 0.5))
    if bits_of(ty) == 64:
        # r + r^2 P loses up to half a unit where it cancels against `rest`: keep what was lost.
        q, lost = quick_two_sum(w, ty, r, w.op("fmul", ty, p, square))
        rest = w.fma(ty, lost, half, rest)
    else:
        q = w.fma(ty, p, square, r)
    result = w.fma(ty, q, half, rest)
    return w.op("fadd", ty, result, result)


def expm1(w: FunctionWriter, ty: str, x: str) -> str:
    single = bits_of(ty) == 32
    low, high = (-20.0, 89.0) if single else (-45.0, 710.0)  # n stays within the bias
    result = _expm1_core(w, ty, clamp_keep_nan(w, ty, x, low, high))
    small = fcmp(w, ty, "olt", fabs(w, ty, x), 2.0**-26 if single else 2.0**-55)
    return w.select(small, ty, x, result)


def logistic(w: FunctionWriter, ty: str, x: str) -> str:
    """1 / (1 + e^-x), from e^-|x| so that the small side keeps its relative accuracy."""
    e = _exp(w, ty, w.fneg(ty, fabs(w, ty, x)))
    one = const(ty, 1.0)
    numerator = pick(w, ty, fcmp(w, ty, "olt", x, 0.0), e, one)
    total, lost = quick_two_sum(w, ty, one, e)
    inverse = w.op("fdiv", ty, one, total)
    q = w.op("fmul", ty, numerator, inverse)
    # One correction by the remainder numerator - q (1 + e): nearly a correctly rounded quotient.
    left = w.fma(ty, w.fneg(ty, q), total, numerator)
    left = w.fma(ty, w.fneg(ty, q), lost, left)
    return w.fma(ty, left, inverse, q)


def tanh(w: FunctionWriter, ty: str, x: str) -> str:
    """A polynomial where |x| is small, and 1 - 2 / (e^(2|x|) + 1), which cancels there, beyond."""
    single = bits_of(ty) == 32
    a = fabs(w, ty, x)
    result, limit = _tanh_beyond_f32(w, ty, a) if single else _tanh_beyond_f64(w, ty, a)
    z = w.op("fmul", ty, x, x)
    p = w.op("fmul", ty, horner(w, ty, z, _TANH_F32 if single else _TANH_F64), z)
    small = w.fma(ty, p, a, a)
    result = w.select(fcmp(w, ty, "olt", a, limit), ty, small, result)
    return copysign(w, ty, result, x)


def _tanh_beyond_f32(w: FunctionWriter, ty: str, a: str) -> tuple[str, float]:
    """tanh of a, which is not below the number that is returned, too: what rounds e^2a by one part
    in 2^24 is at most three eighths of that of the result. So that a single product does for the
    exponent, a multiple of a sixteenth. The last bits of the magic sum count sixteenths; one shift
    and one sum make them a power of two."""
    magic = const(ty, fmt(ty).magic / 16)
    exponent = const(ty, 2 * _LOG2E)
    a = pick(w, ty, fcmp(w, ty, "ogt", a, 9.02), 9.02, a)
    shifted = w.fma(ty, a, exponent, magic)
    sixteenths = bits(w, ty, shifted)
    fraction = bits(w, ty, lookup(w, ty, _SIXTEENTHS, sixteenths))
    whole = iop(w, ty, "shl", sixteenths, _SIXTEENTHS_SHIFT)
    power = from_bits(w, ty, iop(w, ty, "add", whole, fraction))
    f = w.fma(ty, a, exponent, w.op("fsub", ty, magic, shifted))
    total = w.fma(ty, horner(w, ty, f, _EXP2_F32), power, const(ty, 1.0))
    q = w.op("fdiv", ty, const(ty, 2.0), total)
    return w.op("fsub", ty, const(ty, 1.0), q), 0.726


def _tanh_beyond_f64(w: FunctionWriter, ty: str, a: str) -> tuple[str, float]:
    """The same with t = expm1(2a): t / (t + 2) below 1, 1 - 2 / (t + 2) from there on."""
    two = const(ty, 2.0)
    clipped = pick(w, ty, fcmp(w, ty, "ogt", a, 20.0), 20.0, a)
    t = _expm1_core(w, ty, w.op("fadd", ty, clipped, clipped))
    below_one = fcmp(w, ty, "olt", a, 1.0)
    q = w.op("fdiv", ty, w.select(below_one, ty, t, two), w.op("fadd", ty, t, two))
    return w.select(below_one, ty, q, w.op("fsub", ty, const(ty, 1.0), q)), 0.55


def sinh(w: FunctionWriter, ty: str, x: str) -> str:
    """(t + t / (t + 1)) / 2 with t = expm1(|x|); from e^|x| / 2 where t would overflow."""
    a = fabs(w, ty, x)
    t = expm1(w, ty, pick(w, ty, fcmp(w, ty, "ogt", a, 40.0), 40.0, a))
    q = w.op("fdiv", ty, t, w.op("fadd", ty, t, const(ty, 1.0)))
    result = w.op("fmul", ty, w.op("fadd", ty, t, q), const(ty, 0.5))
    large = fcmp(w, ty, "ogt", a, 39.0)
    result = w.select(large, ty, _exp(w, ty, a, -1), result)
    return copysign(w, ty, result, x)


def cosh(w: FunctionWriter, ty: str, x: str) -> str:
    """h + 1/(4h) with h = e^|x| / 2."""
    h = _exp(w, ty, fabs(w, ty, x), -1)
    return w.op("fadd", ty, h, w.op("fdiv", ty, const(ty, 0.25), h))
