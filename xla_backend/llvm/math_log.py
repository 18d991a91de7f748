"""log, log1p, asinh, acosh, atanh for f32 and f64 lanes.

x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1. f32: log(1+f) = f - f^2/2 + f^3 P(f).
f64: with s = f / (2+f), log(1+f) = f - (f^2/2 - s (f^2/2 + R)), R = s^2 L(s^2).
Polynomials are minimax fits.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    copysign,
    fabs,
    fcmp,
    horner,
    pick,
    power_of_two,
    split_exponent,
    two_sum,
)
from xla_backend.llvm.types import bits_of, const, int_of
from xla_backend.llvm.writer import FunctionWriter

_LN2_F32 = (0.693145751953125, 1.428606765330187e-06)
_LN2_F64 = (0.6931471805598903, 5.497923018708371e-14)
LN2 = 0.6931471805599453
_LOG_F32 = (
    0.3333331048488617,
    -0.24999986588954926,
    0.20002223551273346,
    -0.16669277846813202,
    0.1421879231929779,
    -0.12383699417114258,
    0.11870915442705154,
    -0.11793554574251175,
    0.06925583630800247,
)
LOG_F64 = (
    0.6666666666666734,
    0.3999999999941585,
    0.28571428742154276,
    0.22222198594637008,
    0.18183563325571764,
    0.1531407355428185,
    0.14795742825996028,
)


def _log_of_parts(w: FunctionWriter, ty: str, f: str, e: str) -> str:
    """log((1 + f) 2^e), e an integer."""
    e = w.cast("sitofp", int_of(ty), e, ty)
    z = w.op("fmul", ty, f, f)
    if bits_of(ty) == 32:
        high, low = _LN2_F32
        y = w.op("fmul", ty, w.op("fmul", ty, f, z), horner(w, ty, f, _LOG_F32))
        y = w.fma(ty, e, const(ty, low), y)
        y = w.fma(ty, z, const(ty, -0.5), y)
        return w.fma(ty, e, const(ty, high), w.op("fadd", ty, f, y))
    high, low = _LN2_F64
    half_square = w.op("fmul", ty, z, const(ty, 0.5))
    s = w.op("fdiv", ty, f, w.op("fadd", ty, f, const(ty, 2.0)))
    s2 = w.op("fmul", ty, s, s)
    r = w.op("fmul", ty, s2, horner(w, ty, s2, LOG_F64))
    inner = w.fma(ty, s, w.op("fadd", ty, half_square, r), w.op("fmul", ty, e, const(ty, low)))
    rest = w.op("fsub", ty, w.op("fsub", ty, half_square, inner), f)
    return w.fma(ty, e, const(ty, high), w.fneg(ty, rest))


def log(w: FunctionWriter, ty: str, x: str) -> str:
    m, e = split_exponent(w, ty, x)
    result = _log_of_parts(w, ty, w.op("fsub", ty, m, const(ty, 1.0)), e)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, INF), x, result)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, 0.0), -INF, result)
    return pick(w, ty, fcmp(w, ty, "ult", x, 0.0), NAN, result)


def log1p(w: FunctionWriter, ty: str, x: str) -> str:
    """log of the unrounded 1 + x: what the addition lost is put back into f."""
    one = const(ty, 1.0)
    u, lost = two_sum(w, ty, one, x)
    m, e = split_exponent(w, ty, u)
    f = w.op("fsub", ty, m, one)
    # Beyond 2^60 the loss does not matter, and 2^-e must stay normal.
    shift = w.intrinsic("smin", int_of(ty), e, const(int_of(ty), 60))
    minus = w.op("sub", int_of(ty), const(int_of(ty), 0), shift)
    f = w.fma(ty, lost, power_of_two(w, ty, minus), f)
    result = _log_of_parts(w, ty, f, e)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, INF), x, result)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, -1.0), -INF, result)
    result = pick(w, ty, fcmp(w, ty, "ult", x, -1.0), NAN, result)
    return pick(w, ty, fcmp(w, ty, "oeq", x, 0.0), x, result)


_BIG = 2.0**28  # above this sqrt(x^2 +- 1) is |x| and asinh, acosh are log(2|x|)


def asinh(w: FunctionWriter, ty: str, x: str) -> str:
    one = const(ty, 1.0)
    a = fabs(w, ty, x)
    big = fcmp(w, ty, "ogt", a, _BIG)
    c = w.select(big, ty, one, a)
    square = w.op("fmul", ty, c, c)
    root = w.intrinsic("sqrt", ty, w.op("fadd", ty, square, one))
    q = w.op("fdiv", ty, square, w.op("fadd", ty, root, one))
    argument = w.select(big, ty, w.op("fsub", ty, a, one), w.op("fadd", ty, c, q))
    result = log1p(w, ty, argument)
    result = w.op("fadd", ty, result, pick(w, ty, big, LN2, 0.0))
    return copysign(w, ty, result, x)


def acosh(w: FunctionWriter, ty: str, x: str) -> str:
    big = fcmp(w, ty, "ogt", x, _BIG)
    t = w.op("fsub", ty, x, const(ty, 1.0))
    c = pick(w, ty, big, 1.0, t)
    root = w.intrinsic("sqrt", ty, w.fma(ty, c, c, w.op("fadd", ty, c, c)))
    argument = w.select(big, ty, t, w.op("fadd", ty, c, root))
    result = w.op("fadd", ty, log1p(w, ty, argument), pick(w, ty, big, LN2, 0.0))
    return pick(w, ty, fcmp(w, ty, "ult", x, 1.0), NAN, result)


def atanh(w: FunctionWriter, ty: str, x: str) -> str:
    a = fabs(w, ty, x)
    q = w.op("fdiv", ty, w.op("fadd", ty, a, a), w.op("fsub", ty, const(ty, 1.0), a))
    result = w.op("fmul", ty, log1p(w, ty, q), const(ty, 0.5))
    # Halving a subnormal 2x would round twice.
    result = pick(w, ty, fcmp(w, ty, "olt", a, 2.0**-40), a, result)
    return copysign(w, ty, result, x)
