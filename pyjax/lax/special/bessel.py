"""Exponentially scaled modified Bessel functions of order 0 and 1."""

from __future__ import annotations

from functools import partial

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.primitive import Primitive
from pyjax.lax.arithmetic import abs as abs_
from pyjax.lax.arithmetic import add, div, mul, neg, reciprocal, sign, sub
from pyjax.lax.common import FLOATING, dtype_of
from pyjax.lax.compare import full_value, gt, le, lt, select
from pyjax.lax.elementwise import exp, rsqrt
from pyjax.lax.nary import define_unary
from pyjax.lax.special.common import FLOAT64, const, horner, in_float64, lower_in_float32
from xla_backend.hlo.special_function_tables import (
    BESSEL_I0_FLOAT32,
    BESSEL_I0_SERIES,
    BESSEL_I0E_LARGE,
    BESSEL_I0E_LARGE_FLOAT32,
    BESSEL_I1_FLOAT32,
    BESSEL_I1_SERIES,
    BESSEL_I1E_LARGE,
    BESSEL_I1E_LARGE_FLOAT32,
)

# Coefficients up to 8 and beyond, of float32 and of float64. All terms up to 8 are positive and
# what is beyond is nearly constant, so that float32 loses no digits: less than 5 ulp.
_I0 = ((BESSEL_I0_FLOAT32, BESSEL_I0E_LARGE_FLOAT32), (BESSEL_I0_SERIES, BESSEL_I0E_LARGE))
_I1 = ((BESSEL_I1_FLOAT32, BESSEL_I1E_LARGE_FLOAT32), (BESSEL_I1_SERIES, BESSEL_I1E_LARGE))


def _large(y: Array, coefficients: tuple[float, ...]) -> Array:
    u = sub(div(const(y, 16.0), y), const(y, 1.0))
    return mul(horner(u, coefficients), rsqrt(y))


def _small(y: Array, coefficients: tuple[float, ...]) -> Array:
    half = mul(y, const(y, 0.5))
    return mul(exp(neg(y)), horner(mul(half, half), coefficients))


def _i0e(x: Array) -> Array:
    series, asymptotic = _I0[dtype_of(x) == FLOAT64]
    y = abs_(x)
    return select(le(y, const(y, 8.0)), _small(y, series), _large(y, asymptotic))


def _i1e(x: Array) -> Array:
    series, asymptotic = _I1[dtype_of(x) == FLOAT64]
    y = abs_(x)
    small = mul(mul(x, const(x, 0.5)), _small(y, series))
    large = _large(y, asymptotic)
    large = select(lt(x, const(x, 0.0)), neg(large), large)
    return select(le(y, const(y, 8.0)), small, large)


def _i1e_jvp(g: Array, ans: Array, x: Array) -> Array:
    """I1e' = I0e - I1e (sign(x) + 1 / x), which tends to 1/2 at 0."""
    eps = float(np.finfo(np.float64 if dtype_of(x) == np.float64 else np.float32).eps)
    away = gt(abs_(x), const(x, eps))
    safe = select(away, x, full_value(x, eps))
    slope = sub(bessel_i0e(safe), mul(ans, add(sign(safe), reciprocal(safe))))
    return mul(g, select(away, slope, full_value(x, 0.5)))


bessel_i0e_p: Primitive = define_unary(
    "bessel_i0e",
    None,
    FLOATING,
    lambda g, ans, x: mul(g, sub(bessel_i1e(x), mul(sign(x), ans))),
    lowering=lower_in_float32(_i0e),
)
bessel_i1e_p: Primitive = define_unary(
    "bessel_i1e", None, FLOATING, _i1e_jvp, lowering=lower_in_float32(_i1e)
)


def _unscaled(scaled: Array, x: Array) -> Array:
    """exp(|x|) times `scaled`, in two halves: the exponential overflows before the product."""
    half = exp(mul(abs_(x), const(x, 0.5)))
    return mul(mul(half, scaled), half)


def _of_float32(x: Array, series: tuple[float, ...], asymptotic: tuple[float, ...]) -> Array:
    """I0(x), or |I1(x)| which lacks its factor |x| / 2 up to 8, in float64 of x that was float32:
    up to 8 there is no exponential, and beyond it does not overflow before the product."""
    y = abs_(x)
    near, end = le(y, const(y, 8.0)), full_value(y, 8.0)
    far = select(near, end, y)
    u = sub(div(const(y, 16.0), far), const(y, 1.0))
    large = mul(mul(exp(far), horner(u, asymptotic)), rsqrt(far))
    half = mul(select(near, y, end), const(y, 0.5))
    return select(near, horner(mul(half, half), series), large)


def _i0_of_float32(x: Array) -> Array:
    return _of_float32(x, *_I0[0])


def _i1_of_float32(x: Array) -> Array:
    size = _of_float32(x, *_I1[0])
    far = select(lt(x, const(x, 0.0)), neg(size), size)
    return select(le(abs_(x), const(x, 8.0)), mul(mul(x, const(x, 0.5)), size), far)


@partial(in_float64, keeps_weak_types=True, narrow=_i0_of_float32)
def unscaled_i0(x: Array) -> Array:
    """I0(x). Its derivative is I1, which callers see to."""
    return _unscaled(bessel_i0e(x), x)


@partial(in_float64, keeps_weak_types=True, narrow=_i1_of_float32)
def unscaled_i1(x: Array) -> Array:
    """I1(x). Its derivative is I0(x) - I1(x) / x, which callers see to."""
    return _unscaled(bessel_i1e(x), x)


def bessel_i0e(x: ArrayLike) -> Array:
    """exp(-|x|) I0(x).

    >>> lax.bessel_i0e(jnp.array([0.0, 1.0])).round(3).tolist()[0]
    1.0
    """
    return bessel_i0e_p.bind1(x)


def bessel_i1e(x: ArrayLike) -> Array:
    """exp(-|x|) I1(x).

    >>> lax.bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return bessel_i1e_p.bind1(x)
