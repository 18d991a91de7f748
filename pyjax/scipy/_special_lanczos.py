"""Γ and what is made of several of it, in float64 for numbers that were float32: 14 digits.

Γ(x) = √(2π) t^(x - 1/2) exp(-t) L(x), t = x + g - 1/2. With g = 7.875 Lanczos' series L is a
quotient of polynomials of degree 7 to 8.3e-15 for x > 0: its denominator is x (x + 1) … (x + 6),
and the numerator was fitted at the first seven integers, in 40 digits. Logarithms of quotients of
gamma functions have the logarithms that cancel merged into logarithms of quotients, so that large
arguments cost no digits. Layer: scipy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.common import horner

Array = Any
_SHIFT = 7.875 - 0.5
_ABOVE = (
    1.0,
    51.966145833330756,
    1157.432213677395,
    14322.877344402426,
    106352.8768340899,
    473863.62305128813,
    1173058.9717646856,
    1244644.6555569584,
)
_BELOW = (1.0, 21.0, 175.0, 735.0, 1624.0, 1764.0, 720.0)  # times x
_ROOT = math.sqrt(2 * math.pi)
# sin(πd) / (πd) in d², for d up to 1/2.
_SINE = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(7, -1, -1)]


def _lanczos(x: Array) -> Array:
    """L(x) √(2π)."""
    return _ROOT * horner(x, _ABOVE) / (x * horner(x, _BELOW))


def positive_gamma(x: Array) -> Array:
    """Γ(x) for x ≥ 0."""
    x = jnp.where(x > 200, 200.0, x)  # where it is infinite; powers would be nan
    t = x + _SHIFT
    return lax.exp((x - 0.5) * lax.log(t) - t) * _lanczos(x)


def gamma_size(x: Array) -> Array:
    """|Γ(x)|, inf at the poles."""
    below = x < 0
    return _reflected(x, positive_gamma(jnp.where(below, 1 - x, lax.abs(x))))


def _reflected(x: Array, value: Array) -> Array:
    """`value`, and π / |sin(πx)| / `value` where x is negative: Γ(x) Γ(1 - x) = π / sin(πx)."""
    distance = lax.abs(x - lax.floor(x + 0.5))
    reflected = 1 / (distance * horner(distance * distance, _SINE) * value)
    return jnp.where(x < 0, reflected, value)


def log_poisson(k: Array, mu: Array) -> Array:
    """log(exp(-mu) mu^k / Γ(k + 1)), k ≥ 0."""
    t = (k + 1) + _SHIFT
    quotient = _lanczos(k + 1)
    value = k * lax.log(mu / t) + (t - mu) - 0.5 * lax.log(quotient * quotient * t)
    value = jnp.where(k == np.inf, jnp.where(mu < 1, -np.inf, np.nan), value)
    return jnp.where(k == 0, -mu, value)


def log_binomial(k: Array, n: Array, p: Array) -> Array:
    """log((n over k) p^k (1 - p)^(n - k)), 0 ≤ k ≤ n."""
    m = n - k
    t_k, t_m = (k + 1) + _SHIFT, (m + 1) + _SHIFT
    t_n = (n + 1) + _SHIFT
    expected = p * t_n
    ways = _lanczos(n + 1) / (_lanczos(k + 1) * _lanczos(m + 1))
    rest = (1 + _SHIFT) + 0.5 * lax.log(ways * ways * (t_n / (t_k * t_m)))
    # At the ends there is one way exactly; t_n is t_k or t_m there, and what is left of these terms
    # is right for the smallest p, too.
    value = jnp.where((k == 0) | (m == 0), 0, rest)
    value = value + jnp.where((m == 0) & (p == p), 0, m * lax.log1p((k - expected) / t_m))
    return value + jnp.where((k == 0) & (p == p), 0, k * lax.log(expected / t_k))


def _log_gamma_size(x: Array) -> Array:
    """log |Γ(x)| to an absolute error: not for results of its own, which have zeros at 1 and 2."""
    below = x < 0
    y = jnp.where(below, 1 - x, x)
    t = y + _SHIFT
    size = (y - 0.5) * lax.log(t) - t
    return jnp.where(below, -size, size) + lax.log(_reflected(x, _lanczos(y)))


def _log_positive_beta(a: Array, b: Array) -> Array:
    a, b = lax.min(a, b), lax.max(a, b)
    both = a + b
    t_a, t_b, t = a + _SHIFT, b + _SHIFT, both + _SHIFT
    quotient = _lanczos(a) * _lanczos(b) / _lanczos(both)
    rest = 0.5 * lax.log(quotient * quotient * (t / (t_a * t_b))) - _SHIFT
    return a * lax.log(t_a / t) + b * lax.log1p(-a / t) + rest


@custom_jvp
def log_beta(a: Array, b: Array) -> Array:
    """log |Γ(a) Γ(b) / Γ(a + b)|."""
    positive = (a > 0) & (b > 0)
    value = _log_positive_beta(*(jnp.where(positive, x, 1) for x in (a, b)))
    plain = _log_gamma_size(a) + (_log_gamma_size(b) - _log_gamma_size(a + b))
    return jnp.where(positive, value, plain)


# Of the series of log(x) - 1 / (2x) - ψ(x) in 1 / x², without the first factor.
_DIGAMMA = (-1 / 240, 1 / 252, -1 / 120, 1 / 12)
_STEPS = 6


def _log_beta_slope(a: Array, b: Array) -> Array:
    """ψ(a) - ψ(a + b)."""
    positive = (a > 0) & (b > 0)
    drop = _digamma_drop(*(jnp.where(positive, x, 1) for x in (a, b)))
    return jnp.where(positive, drop, lax.digamma(a) - lax.digamma(a + b))


def _digamma_drop(x: Array, step: Array) -> Array:
    """ψ(x) - ψ(x + step) for positive numbers: a sum of negative numbers for the first six, and the
    asymptotic series behind them."""
    total: Any = jnp.zeros_like(x)
    for i in range(_STEPS):
        total = total + 1 / ((x + i) * (x + step + i))
    low = x + _STEPS
    high = low + step
    u, v = 1 / (low * low), 1 / (high * high)
    series = u * horner(u, _DIGAMMA) - v * horner(v, _DIGAMMA)
    return -step * (total + 0.5 / (low * high)) - lax.log1p(step / low) - series


log_beta.defjvps(
    lambda g, ans, a, b: g * _log_beta_slope(a, b),
    lambda g, ans, a, b: g * _log_beta_slope(b, a),
)
