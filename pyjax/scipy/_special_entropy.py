"""Products with logarithms that are 0 where the factor is 0, and the entropies made of them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.common import horner, in_float64
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


@custom_jvp
def _xlogy(x: Array, y: Array) -> Array:
    return jnp.where((x == 0) & ~jnp.isnan(y), 0, lax.mul(x, lax.log(y)))


# Where x is 0 the derivatives are those of the limit: log(y) and 0.
_xlogy.defjvps(
    lambda g, ans, x, y: g * lax.log(y),
    lambda g, ans, x, y: g * lax.div(x, y),
)


@one_program(None)
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x · log(y), and 0 where x is 0 (nan if y is nan).

    >>> xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*jnp.broadcast_arrays(*promote_args_inexact("xlogy", x, y)))


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return jnp.where((x == 0) & ~jnp.isnan(y), 0, lax.mul(x, lax.log1p(y)))


_xlog1py.defjvps(
    lambda g, ans, x, y: g * lax.log1p(y),
    lambda g, ans, x, y: g * lax.div(x, 1 + y),
)


@one_program(None)
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x · log(1 + y), accurate for small y, and 0 where x is 0 (nan if y is nan).

    >>> xlog1py(0.0, -1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(*jnp.broadcast_arrays(*promote_args_inexact("xlog1py", x, y)))


@custom_jvp
def _entr(x: Array) -> Array:
    return jnp.where(x < 0, -np.inf, -xlogy(x, x))


# The derivative of the product would be 0 · inf at 0.
_entr.defjvps(lambda g, ans, x: -g * (lax.log(x) + 1))


@one_program(None)
def entr(x: ArrayLike) -> Array:
    """-x · log(x); 0 at 0, -inf for negative x.

    >>> entr(jnp.array([0.0, 1.0])).round(3) == 0
    Array([ True,  True], dtype=bool)
    """
    return _entr(*promote_args_inexact("entr", x))


@partial(in_float64, keeps_weak_types=True, narrow=lambda p, q: lax.log(p / q))
def _log_ratio(p: Array, q: Array) -> Array:
    """log(p / q) of positive numbers: no cancellation for p near q, no overflow of the ratio.

    In float64 there is neither for what was float32."""
    ratio, info = p / q, jnp.finfo(p.dtype)
    difference = p - q  # exact where the numbers are near one another
    near = lax.abs(difference) < 0.5 * q
    inside = (ratio > float(info.tiny)) & (ratio < float(info.max))
    plain = jnp.where(inside, lax.log(ratio), lax.log(p) - lax.log(q))
    return jnp.where(near, lax.log1p(jnp.where(near, difference, 0) / q), plain)


@partial(in_float64, keeps_weak_types=True, narrow=lambda p, q: p * lax.log(p / q))
def _p_log_ratio(p: Array, q: Array) -> Array:
    both = (p > 0) & (q > 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    return jnp.where(both, safe_p * _log_ratio(safe_p, safe_q), np.inf)


def _in_domain(p: Array, q: Array, value: Array, at_zero: ArrayLike) -> Array:
    """`value` for positive numbers, `at_zero` for p = 0; inf elsewhere, if none is nan."""
    value = jnp.where(lax.min(p, q) <= 0, np.inf, value)
    return jnp.where((p == 0) & (q >= 0), at_zero, value)


@custom_jvp
def _rel_entr(p: Array, q: Array) -> Array:
    return _in_domain(p, q, _p_log_ratio(p, q), 0)


def _where_positive(g: Array, p: Array, q: Array, slope: Array) -> Array:
    """Outside of the domain, and on its border, the value counts as constant."""
    inside = (p > 0) & (q > 0)
    # Both selections: backwards, the factor is multiplied by the zero of the outer one.
    return jnp.where(inside, g * jnp.where(inside, slope, 0), 0)


_rel_entr.defjvps(
    lambda g, ans, p, q: _where_positive(g, p, q, _log_ratio(p, q) + 1),
    lambda g, ans, p, q: _where_positive(g, p, q, -p / q),
)


@one_program(None)
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p · log(p/q); 0 where p is 0 and q ≥ 0, inf outside the domain.

    >>> rel_entr(2.0, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _rel_entr(*jnp.broadcast_arrays(*promote_args_inexact("rel_entr", p, q)))


# Σ r^(2k) / (2k + 3): what follows r in the series of artanh(r), divided by r³.
_ARTANH_REST = tuple(1 / (2 * k + 3) for k in range(16, -1, -1))


def _less_log1p(t: Array) -> Array:
    """t - log1p(t) for |t| <= 1/2, where the difference would cancel."""
    r = t / (2 + t)  # log1p(t) = 2 artanh(r), and t - 2 r = t r
    return t * r - 2 * r * r * r * horner(r * r, _ARTANH_REST)


_EXPONENT = 52  # where it begins in the bits of a float64


def _divergence_of_float32(p: Array, q: Array) -> Array:
    """q - p - p log(q / p) in float64 for positive normal numbers, to 10 digits.

    With s = q / 2^e next to p (2/3 to 3/2 of it) log(s / p) = 2 artanh(r), r = (s - p) / (s + p),
    and s - p - p log(s / p) = r (s - p) - 2 p (artanh(r) - r), of which no digits cancel.
    """
    bits_p, bits_q = (lax.bitcast_convert_type(x, np.int64) for x in (p, q))
    where = lax.full_like(bits_p, _EXPONENT)
    half = lax.full_like(bits_p, 1 << (_EXPONENT - 1))
    e = lax.shift_right_arithmetic(bits_q - bits_p + half, where)
    s = lax.bitcast_convert_type(bits_q - lax.shift_left(e, where), np.float64)
    difference = s - p
    r = difference / (s + p)
    square = r * r
    beside = r * (difference - 2 * p * (square * horner(square, _ARTANH_REST[-6:])))
    return beside + ((q - s) - p * (lax.convert_element_type(e, np.float64) * math.log(2)))


@partial(in_float64, keeps_weak_types=True, narrow=_divergence_of_float32)
def _divergence(p: Array, q: Array) -> Array:
    near = (p > 0) & (q > 0) & (lax.abs(q - p) <= 0.5 * p)
    safe = jnp.where(near, p, 1)
    close = safe * _less_log1p(jnp.where(near, q - p, 0) / safe)
    return jnp.where(near, close, _rel_entr(p, q) - p + q)


@custom_jvp
def _kl_div(p: Array, q: Array) -> Array:
    return _in_domain(p, q, _divergence(p, q), q)


_kl_div.defjvps(
    lambda g, ans, p, q: _where_positive(g, p, q, _log_ratio(p, q) + 1) - g,
    lambda g, ans, p, q: _where_positive(g, p, q, -p / q) + g,
)


@one_program(None)
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p · log(p/q) - p + q; inf outside the domain.

    >>> kl_div(2.0, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _kl_div(*jnp.broadcast_arrays(*promote_args_inexact("kl_div", p, q)))
