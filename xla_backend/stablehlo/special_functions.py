"""Special functions as HLO arithmetic: erfc, erf_inv, lgamma, digamma, zeta, polygamma, bessel_i1e.

The formulas of gamma's relatives lose digits, so they run in float64 and are rounded once; erfc and
erf_inv have polynomials for float32 as well.
"""

from __future__ import annotations

import math

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.special_function_tables import (
    BESSEL_I1_SERIES,
    BESSEL_I1E_LARGE,
    ERF_INV_CENTRAL_F32,
    ERF_INV_CENTRAL_F64,
    ERF_INV_MIDDLE_F64,
    ERF_INV_TAIL_F32,
    ERF_INV_TAIL_F64,
    ERF_SMALL_F32,
    ERF_SMALL_F64,
    ERFC_F32,
    ERFC_F64,
    LANCZOS,
    LANCZOS_FIRST,
    LANCZOS_G,
)
from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo.expressions import Expression, horner

P = PrimitiveType


# -- the error function ----------------------------------------------------------------------------


def _times_exp_of_minus_square(times: Expression, x: Expression) -> Expression:
    """times exp(-x**2) without the rounding error of x**2 being magnified: x = high + rest, where
    the square of `high` is exact."""
    wide = x.kind is P.F64
    integer = P.S64 if wide else P.S32
    high = (x.bits(integer) & (-(2**27) if wide else -(2**12))).bits(x.kind)
    rest = -((x - high) * (x + high))
    near = times + times * (rest * horner(rest, (1 / 24, 1 / 6, 0.5, 1.0)))
    return near * (-(high * high)).exp()


def erfc(x: Expression) -> Expression:
    """1 - erf(x); far from 0, exp(-x**2) times a polynomial in a reciprocal, after Shepherd and
    Laframboise (1981)."""
    y = x.abs()
    y = y.compare("LT", 30.0).select(y, 30.0)
    wide = x.kind is P.F64
    s = 1.0 / (y + 2.5)
    scaled = horner(s * 5.0 - 1.0, ERFC_F64) if wide else horner(s, ERFC_F32)
    upper = _times_exp_of_minus_square(scaled / (y + y + 1.0), y)
    result = x.compare("LT", 0.0).select(2.0 - upper, upper)
    near = 1.0 - x * horner(x * x, ERF_SMALL_F64 if wide else ERF_SMALL_F32)
    result = y.compare("LT", 0.5).select(near, result)
    return x.compare("EQ", x).select(result, x)


def erf_inv(x: Expression) -> Expression:
    """x times a polynomial in w = -log(1 - x**2), or in sqrt(w) in the tails, after Giles (2010);
    f32, f64."""
    w = -((1.0 - x) * (x + 1.0)).log()
    s = w.sqrt()
    if x.kind is P.F64:
        ratio = horner((w - 3.125) * (1 / 3.125), ERF_INV_CENTRAL_F64)
        middle = horner((s - 3.25) * (1 / 0.75), ERF_INV_MIDDLE_F64)
        tail = horner((s - 5.1) * (1 / 1.1), ERF_INV_TAIL_F64)
        ratio = w.compare("LT", 6.25).select(ratio, middle)
        ratio = w.compare("LT", 16.0).select(ratio, tail)
    else:
        ratio = horner((w - 2.5) * (1 / 2.5), ERF_INV_CENTRAL_F32)
        ratio = w.compare("LT", 5.0).select(ratio, horner(s - 3.2, ERF_INV_TAIL_F32))
    magnitude = x.abs()
    result = magnitude.compare("EQ", 1.0).select(x * np.inf, x * ratio)
    return magnitude.compare("GT", 1.0).select(x.full(np.nan), result)


# -- gamma and its derivatives, in float64 ---------------------------------------------------------


def _is_pole(x: Expression) -> Expression:
    return x.compare("LE", 0.0) & x.compare("EQ", x.floor())


def _past_integer(x: Expression) -> Expression:
    """x less the nearest integer, exactly also for tiny negative x."""
    return x - (x + 0.5).floor()


def lgamma(x: Expression) -> Expression:
    """log |gamma(x)| by Lanczos' series, reflected below 1/2."""
    reflects = x.compare("LT", 0.5)
    z = reflects.select(1.0 - x, x) - 1.0
    total = z.full(LANCZOS_FIRST)
    for i, c in enumerate(LANCZOS):
        total = total + z.full(c) / (z + (i + 1.0))
    t = z + (LANCZOS_G + 0.5)
    log_t = t.log()
    # (z + 1/2) log t - t in an order that does not overflow early.
    value = (z + 0.5 - t / log_t) * log_t + 0.5 * math.log(2 * math.pi) + total.log()
    sine = (_past_integer(x) * math.pi).sin().abs()
    result = reflects.select((math.log(math.pi) - sine.log()) - value, value)
    zero = x.compare("EQ", 1.0) | x.compare("EQ", 2.0)
    result = zero.select(x.full(0.0), result)
    result = _is_pole(x).select(x.full(np.inf), result)
    result = x.is_finite().select(result, np.inf)
    return x.compare("EQ", x).select(result, x)


# Bernoulli numbers B2 .. B16 over 2 k: the asymptotic series of digamma (Abramowitz and Stegun
# 6.3.18).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_DIGAMMA_TERMS = tuple(b / (2 * (k + 1)) for k, b in enumerate(_BERNOULLI))
_SHIFT = 10


def digamma(x: Expression) -> Expression:
    """The logarithmic derivative of gamma: recurrence up to 10, then the asymptotic series."""
    reflects = x.compare("LT", 0.5)
    y = reflects.select(1.0 - x, x)
    small = y.compare("LT", float(_SHIFT))
    recurrence = 1.0 / y
    for i in range(1, _SHIFT):
        recurrence = recurrence + 1.0 / (y + float(i))
    z = small.select(y + float(_SHIFT), y)
    inverse_square = 1.0 / (z * z)
    tail = inverse_square * horner(inverse_square, _DIGAMMA_TERMS[::-1])
    value = z.log() - z.full(0.5) / z - tail
    value = small.select(value - recurrence, value)
    # digamma(1 - x) - digamma(x) = pi cot(pi x), which has period 1.
    angle = _past_integer(x) * math.pi
    result = reflects.select(value - angle.cos() / angle.sin() * math.pi, value)
    result = _is_pole(x).select(x.full(np.nan), result)
    return x.compare("EQ", np.inf).select(x, result)


# Bernoulli numbers B2 .. B24 over (2 k)!, for the Euler-Maclaurin sum.
_ZETA_BERNOULLI = (*_BERNOULLI, 43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730)
_ZETA_TERMS = tuple(b / math.factorial(2 * (k + 1)) for k, b in enumerate(_ZETA_BERNOULLI))
_ZETA_DIRECT = 10


def _zeta_sum(x: Expression, q: Expression) -> Expression:
    """The sum of (q + k)**-x over k >= 0, q > -1: ten terms, then Euler-Maclaurin."""
    minus_x = -x
    first = q**minus_x
    total = first
    for k in range(1, _ZETA_DIRECT):
        total = total + (q + float(k)) ** minus_x
    a = q + float(_ZETA_DIRECT)
    power = a**minus_x
    total = total + power * a / (x - 1.0) + power * 0.5
    factor = x * (power / a)
    inverse_square = 1.0 / (a * a)
    for k, c in enumerate(_ZETA_TERMS):
        total = total + factor * c
        factor = factor * ((x + (2.0 * k + 1)) * (x + (2.0 * k + 2))) * inverse_square
    # Large x: the first term is all, and the series' factors overflow.
    return total.is_finite().select(total, first)


def zeta(x: Expression, q: Expression) -> Expression:
    """The sum of (q + k)**-x over k >= 0; nan for x < 1."""
    below = q.compare("LT", -1.0)
    fraction = q - q.floor()
    total = _zeta_sum(x, below.select(fraction, q))
    # The terms from q on that are negative, for whole x: those from 1 - f on less those from 1 - q.
    others = _zeta_sum(x, below.select(1.0 - fraction, 1.0)) - _zeta_sum(
        x, below.select(1.0 - q, 1.0)
    )
    odd = x.apply(Opcode.REMAINDER, 2.0).compare("NE", 0.0)
    total = below.select(total + odd.select(-others, others), total)
    total = _is_pole(q).select(q.full(np.inf), total)
    undefined = q.compare("LE", 0.0) & q.compare("NE", q.floor()) & x.compare("NE", x.floor())
    undefined = undefined | x.compare("LT", 1.0)
    undefined = undefined | x.compare("NE", x) | q.compare("NE", q)
    total = undefined.select(q.full(np.nan), total)
    return x.compare("EQ", 1.0).select(q.full(np.inf), total)


def polygamma(m: Expression, x: Expression) -> Expression:
    """The m-th derivative of digamma, (-1)**(m + 1) m! zeta(m + 1, x)."""
    even = m.apply(Opcode.REMAINDER, 2.0).compare("EQ", 0.0)
    sign = even.select(m.full(-1.0), 1.0)
    value = sign * lgamma(m + 1.0).exp() * zeta(m + 1.0, x)
    value = m.compare("EQ", 0.0).select(digamma(x), value)
    undefined = m.compare("LT", 0.0) | m.compare("NE", m.floor())
    return undefined.select(x.full(np.nan), value)


def bessel_i1e(x: Expression) -> Expression:
    """exp(-|x|) I1(x): the power series up to 8, a polynomial in 16 / x beyond."""
    y = x.abs()
    half = x * 0.5
    small = half * ((-y).exp() * horner(half * half, BESSEL_I1_SERIES))
    large = horner(16.0 / y - 1.0, BESSEL_I1E_LARGE) * y.rsqrt()
    large = x.compare("LT", 0.0).select(-large, large)
    return y.compare("LE", 8.0).select(small, large)


# -- neighbours ------------------------------------------------------------------------------------

_UNSIGNED = {8: P.U8, 16: P.U16, 32: P.U32, 64: P.U64}


def next_after(x: Expression, y: Expression) -> Expression:
    """The next number after x towards y: one step of the sign-magnitude integer of its bits."""
    unsigned = _UNSIGNED[x.kind.bits]
    bits = x.bits(unsigned)
    sign_bit = 1 << (x.kind.bits - 1)
    positive = (bits & sign_bit).compare("EQ", 0)
    outwards = positive & y.compare("GT", x) | (positive.apply(Opcode.NOT) & y.compare("LT", x))
    stepped = outwards.select(bits + 1, bits - 1)
    from_zero = y.compare("GT", 0.0).select(bits.full(1), sign_bit | 1)
    stepped = x.compare("EQ", 0.0).select(from_zero, stepped)
    result = x.compare("EQ", y).select(y, stepped.bits(x.kind))
    not_a_number = x.compare("NE", x) | y.compare("NE", y)
    return not_a_number.select(x.full(np.nan), result)
