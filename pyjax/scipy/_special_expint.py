"""Exponential integrals, from their power series, asymptotic series and continued fraction."""

from __future__ import annotations

import math
from collections.abc import Callable
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
_EULER = float(np.euler_gamma)


def _sum_of_powers(x: Array, count: int) -> Array:
    """Σ x^k / (k · k!) for k = 1 … count."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        number = lax.convert_element_type(k, x.dtype)
        term = term * x / number
        return term, total + term / number

    return lax.fori_loop(1, count + 1, step, (jnp.ones_like(x), jnp.zeros_like(x)))[1]


def _asymptotic(x: Array) -> Array:
    """Σ k! / x^k for x ≥ 40: the smallest term is below 1e-16."""
    total, term = jnp.ones_like(x), jnp.ones_like(x)
    for k in range(1, 26):
        term = term * k / x
        total = total + term
    return total


def _fraction(n: Array, x: Array, count: int) -> Array:
    """exp(x) E_n(x) for x ≥ 1, by the continued fraction evaluated from its end."""

    def step(i: Any, tail: Any) -> Any:
        k = lax.convert_element_type(count - i, x.dtype)
        return k * (n + k - 1) / (x + n + 2 * k - tail)

    return 1 / (x + n - lax.fori_loop(0, count, step, jnp.zeros_like(x)))


def _exp1_of_positive(
    x: Array, powers: Callable[[Array], Array], fraction: Callable[[Array], Array]
) -> Array:
    """E₁ from its series up to 1, exp(x) E₁(x) beyond; inf at 0, nan below."""
    small = jnp.where((x > 0) & (x <= 1), x, 1)
    near = -_EULER - lax.log(small) - powers(-small)
    large = jnp.clip(x, 1, None)
    far = lax.exp(-large) * fraction(large)
    value = jnp.where(x <= 1, near, jnp.where(jnp.isinf(x), 0, far))
    return jnp.where(x == 0, np.inf, jnp.where((x < 0) | jnp.isnan(x), np.nan, value))


def _ei(
    x: Array, start: float, powers: Callable[[Array], Array], asymptotic: Callable[[Array], Array]
) -> Array:
    """Ei(x) for x > 0: its series up to `start`, then the asymptotic one."""
    middle = jnp.where((x > 0) & (x < start), x, 1)
    series = _EULER + lax.log(middle) + powers(middle)
    large = jnp.clip(x, start, None)
    far = lax.exp(large) / large * asymptotic(large)
    return jnp.where(x < start, series, jnp.where(x == np.inf, np.inf, far))


def _with_both_signs(x: Array, positive: Array, negative: Array) -> Array:
    value = jnp.where(x < 0, negative, positive)
    return jnp.where(x == 0, -np.inf, jnp.where(jnp.isnan(x), np.nan, value))


def _few_powers(count: int) -> Callable[[Array], Array]:
    """`_sum_of_powers` for what was float32, without a loop."""
    terms = [1 / (k * math.factorial(k)) for k in range(count, 0, -1)]
    return lambda x: x * horner(x, terms)


def _short_fraction(x: Array) -> Array:
    """`_fraction` of order 1 to ten digits."""
    tail: Any = 0.0
    for k in range(30, 0, -1):
        tail = k * k / (x + (1 + 2 * k) - tail)
    return 1 / (x + 1 - tail)


# To ten digits from 24 on.
_FACTORIALS = [float(math.factorial(k)) for k in range(22, -1, -1)]


def _expi_of_float32(x: Array) -> Array:
    positive = _ei(x, 24, _few_powers(90), lambda x: horner(1 / x, _FACTORIALS))
    minus = jnp.where(x < 0, -x, 1)
    return _with_both_signs(
        x, positive, -_exp1_of_positive(minus, _few_powers(14), _short_fraction)
    )


@custom_jvp
@in_float64
def _exp1(x: Array) -> Array:
    return _exp1_of_positive(
        x,
        lambda x: _sum_of_powers(x, 20),
        lambda x: _fraction(jnp.ones_like(x), x, 120),
    )


_exp1.defjvps(lambda g, ans, x: -g * jnp.where(x < 0, np.nan, lax.exp(-x) / x))


@one_program(None)
def exp1(x: ArrayLike) -> Array:
    """E₁(x) = ∫ₓ^∞ exp(-t)/t dt for x > 0; inf at 0, nan below.

    >>> exp1(jnp.array([1.0])).round(3)
    Array([0.219], dtype=float32)
    """
    return _exp1(*promote_args_inexact("exp1", x))


@custom_jvp
@partial(in_float64, narrow=_expi_of_float32)
def _expi(x: Array) -> Array:
    positive = _ei(x, 40, lambda x: _sum_of_powers(x, 130), _asymptotic)
    return _with_both_signs(x, positive, -_exp1(jnp.where(x < 0, -x, 1)))


_expi.defjvps(lambda g, ans, x: g * lax.exp(x) / x)


@one_program(None)
def expi(x: ArrayLike) -> Array:
    """Ei(x), the principal value of ∫ exp(t)/t dt up to x; -inf at 0.

    >>> expi(jnp.array([1.0])).round(3)
    Array([1.895], dtype=float32)
    """
    return _expi(*promote_args_inexact("expi", x))


@one_program(None)
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """E_n(x) = ∫₁^∞ exp(-x t)/t^n dt for x ≥ 0 and integers n ≥ 0; 1/(n-1) at x = 0.

    Special cases: nan for negative n or x.

    >>> expn(2, jnp.array([0.0])).round(3)
    Array([1.], dtype=float32)
    """
    n, x = jnp.broadcast_arrays(*promote_args_inexact("expn", n, x))
    return _expn(n, x)


@custom_jvp
@in_float64
def _expn(n: Array, x: Array) -> Array:
    small = jnp.where((x > 0) & (x < 1), x, 0.5)
    order = jnp.where(n >= 1, n, 1)
    near = _expn_series(order, small)
    large = jnp.clip(x, 1, None)
    far = lax.exp(-large) * _fraction(order, large, 120)
    value = jnp.where(x < 1, near, jnp.where(x == np.inf, 0, far))
    at_zero = jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, 1), np.inf)
    value = jnp.where(x == 0, at_zero, value)
    value = jnp.where(n == 0, lax.exp(-x) / x, value)
    bad = (n < 0) | (x < 0) | jnp.isnan(n) | jnp.isnan(x)
    return jnp.where(bad, np.nan, value)


def _expn_series(n: Array, x: Array) -> Array:
    """E_n(x) for 0 < x < 1: (-x)^(n-1)/(n-1)! (ψ(n) - log x) - Σ' (-x)^k / ((k - n + 1) k!)."""

    def step(k: Any, state: Any) -> Any:
        term, total = state
        number = lax.convert_element_type(k, x.dtype)
        term = jnp.where(k == 0, 1, term * -x / jnp.maximum(number, 1))
        gap = number - n + 1
        part = jnp.where(gap == 0, 0, term / jnp.where(gap == 0, 1, gap))
        return term, total + part

    total = lax.fori_loop(0, 25, step, (jnp.ones_like(x), jnp.zeros_like(x)))[1]
    sign = jnp.where(lax.rem(n, jnp.full_like(n, 2)) == 1, 1, -1)
    power = sign * lax.exp((n - 1) * lax.log(x) - lax.lgamma(n))
    return power * (lax.digamma(n) - lax.log(x)) - total


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    (n, x), (_, g) = primals, tangents
    below = jnp.where(n >= 1, _expn(jnp.maximum(n - 1, 0), x), lax.exp(-x) * (1 + 1 / x) / x)
    return _expn(n, x), -g * below
