"""The error and logistic functions, the normal distribution, Bessel functions, Box-Cox."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax, nn
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.bessel import unscaled_i0, unscaled_i1
from pyjax.lax.special.common import in_float64
from pyjax.lax.special.error_functions import exp_of_minus_square, scaled_erfc
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any
_HALF_LOG_2PI = float(np.log(2 * np.pi) / 2)
_ROOT_HALF = float(np.sqrt(0.5))
# Terms of the series of `log_ndtr` in the tail after which it is exact to rounding.
_TAIL_TERMS = 10


def erf(x: ArrayLike) -> Array:
    """The error function 2/√π ∫₀ˣ exp(-t²) dt.

    >>> erf(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return lax.erf(*promote_args_inexact("erf", x))


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate for large x.

    >>> erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.erfc(*promote_args_inexact("erfc", x))


def erfinv(x: ArrayLike) -> Array:
    """The inverse of erf; ±inf at ±1, nan beyond.

    >>> erfinv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf_inv(*promote_args_inexact("erfinv", x))


def expit(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(*promote_args_inexact("expit", x))


@custom_jvp
@partial(in_float64, keeps_weak_types=True)
def _logit(x: Array) -> Array:
    # x / (1 - x) rounds what the logarithm leaves of it near 1; 2 x - 1 is exact there.
    middle = (x > 0.25) & (x < 0.75)
    odds = jnp.where(middle, 2 * x - 1, x) / (1 - x)
    return jnp.where(middle, lax.log1p(odds), lax.log(odds))


_logit.defjvps(lambda g, ans, x: g / (x * (1 - x)))


def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit; -inf at 0, inf at 1, nan outside [0, 1].

    >>> logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("logit", x)
    # Strongly typed, unless it is a number.
    return _logit(lax.convert_element_type(x, x.dtype) if np.ndim(x) else x)


def softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """exp(x) / sum(exp(x)) over `axis` (default: all).

    >>> softmax(jnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return nn.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """log(softmax(x)) over `axis` (default: all).

    >>> log_softmax(jnp.zeros(2)).round(3)
    Array([-0.693, -0.693], dtype=float32)
    """
    return nn.log_softmax(x, axis=axis)


# -- the normal distribution -----------------------------------------------------------------------


def _floating(name: str, x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"{name}: x.dtype={x.dtype} is not supported; convert to float32 or float64."
        )
    return lax.convert_element_type(x, x.dtype)  # no weak type


@custom_jvp
@in_float64
def _ndtr(x: Array) -> Array:
    size = lax.abs(x)
    # Beyond 40 there is nothing left. (x² / 2 is squared as such: the rounding error of x / √2
    # would be magnified.)
    far = jnp.minimum(size, 40)
    tail = 0.5 * exp_of_minus_square(far, 0.5) * scaled_erfc(_ROOT_HALF * far)
    middle = 0.5 * (1 + lax.erf(_ROOT_HALF * x))
    return jnp.where(size < 1, middle, jnp.where(x > 0, 1 - tail, tail))


_ndtr.defjvps(lambda g, ans, x: g * lax.exp(-x * x / 2 - _HALF_LOG_2PI))


def ndtr(x: ArrayLike) -> Array:
    """The standard normal distribution function: the probability of a value ≤ x.

    Raises:
      TypeError: x is neither float32 nor float64.

    >>> ndtr(jnp.array([0.0, jnp.inf]))
    Array([0.5, 1. ], dtype=float32)
    """
    return _ndtr(_floating("ndtr", x))


def _tail_series(x: Array, order: int) -> Array:
    """ndtr(x) over its leading term for x far below 0: 1 - 1/x² + 3/x⁴ - …"""
    series, term = jnp.ones_like(x), jnp.ones_like(x)
    for n in range(1, order + 1):
        term = term * (-(2 * n - 1)) / (x * x)
        series = series + term
    return series


def _log_ndtr_tail(x: Array, series_order: int) -> Array:
    """The asymptotic series for x far below 0."""
    return -x * x / 2 - lax.log(-x) - _HALF_LOG_2PI + lax.log(_tail_series(x, series_order))


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), accurate in both tails.

    Args:
      x: float32 or float64.
      series_order: terms of the series used for x far below 0 (-10 in float32, -20 in float64);
        at least ten are used, after which it is exact to rounding.
    Raises:
      TypeError: another dtype, or a series_order that is no int.
      ValueError: series_order is negative or above 30.

    >>> log_ndtr(jnp.array([0.0])).round(3)
    Array([-0.693], dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if not 0 <= series_order <= 30:
        raise ValueError(f"series_order must be between 0 and 30, got {series_order}")
    return _log_ndtr(_floating("log_ndtr", x), max(series_order, _TAIL_TERMS))


def _log_ndtr(x: Array, series_order: int) -> Array:
    low = -10.0 if x.dtype == np.float32 else -20.0

    @custom_jvp
    @in_float64
    def compute(x: Array) -> Array:
        middle = lax.log(_ndtr(jnp.clip(x, low, None)))
        tail = _log_ndtr_tail(jnp.minimum(x, low), series_order)
        return jnp.where(x > 0, lax.log1p(-_ndtr(-x)), jnp.where(x > low, middle, tail))

    @compute.defjvp
    def _jvp(primals: Any, tangents: Any) -> Any:
        (x,), (g,) = primals, tangents
        ans = compute(x)
        # The ratio of density and distribution. In the tail their exponents cancel, so that the
        # difference of the logarithms would lose all digits; -x over the series is exact there.
        middle = lax.exp(-x * x / 2 - ans - _HALF_LOG_2PI)
        tail = jnp.minimum(x, low)
        return ans, g * jnp.where(x > low, middle, -tail / _tail_series(tail, series_order))

    return compute(x)


def _ndtri_tail(log_p: Array) -> Array:
    """The x < 0 at which log_ndtr is log_p, for probabilities below 1/8."""
    start = jnp.sqrt(-2 * log_p)
    x = -start + (lax.log(start) + _HALF_LOG_2PI) / start
    for _ in range(4):  # log_ndtr is concave: Newton's method converges, quadratically
        value = _log_ndtr(x, _TAIL_TERMS)
        x = x - (value - log_p) * lax.exp(value + x * x / 2 + _HALF_LOG_2PI)
    return x


@custom_jvp
def _ndtri(p: Array) -> Array:
    low = jnp.minimum(p, 1 - p)
    safe = jnp.where((low > 0) & (low < 0.125), low, 0.0625)
    # log_ndtr of the lower tail; 1 - p is exact for p above a half.
    tail = _ndtri_tail(lax.log(safe))
    tail = jnp.where(p < 0.5, tail, -tail)
    centre = float(np.sqrt(2)) * lax.erf_inv(2 * p - 1)
    x = jnp.where(low < 0.125, tail, centre)
    x = jnp.where(p == 0, -np.inf, jnp.where(p == 1, np.inf, x))
    return jnp.where((p < 0) | (p > 1) | jnp.isnan(p), np.nan, x)


@_ndtri.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> Any:
    (p,), (g,) = primals, tangents
    ans = _ndtri(p)
    # At 0 and 1, where ndtri is infinite, the derivative is 0 by convention (JAX's), not infinite.
    end = jnp.isinf(ans)
    safe = jnp.where(end, 0, ans)
    return ans, jnp.where(end, 0, g * lax.exp(safe * safe / 2 + _HALF_LOG_2PI))


def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr, for p in [0, 1]; nan outside.

    Raises:
      TypeError: p is neither float32 nor float64.

    >>> ndtri(jnp.array([0.5]))
    Array([0.], dtype=float32)
    """
    return _ndtri(_floating("ndtri", p))


# -- Bessel functions ------------------------------------------------------------------------------


def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) I₀(x), the scaled modified Bessel function of order 0.

    >>> i0e(jnp.array([0.0, 1.0])).round(2)
    Array([1.  , 0.47], dtype=float32)
    """
    return lax.bessel_i0e(*promote_args_inexact("i0e", x))


_i0 = custom_jvp(unscaled_i0)
# Of the product, the derivative would be the difference of two infinities for large x.
_i0.defjvps(lambda g, ans, x: g * i1(x))


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0.

    >>> i0(jnp.array([1.0])).round(2)
    Array([1.27], dtype=float32)
    """
    return _i0(*promote_args_inexact("i0", x))


def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) I₁(x), the scaled modified Bessel function of order 1.

    >>> i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.bessel_i1e(*promote_args_inexact("i1e", x))


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 1.

    >>> i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("i1", x)
    return unscaled_i1(jnp.asarray(x))


# -- Box-Cox ---------------------------------------------------------------------------------------


def _power_transform(log_x: Array, exponent: Array) -> Array:
    """(exp(exponent · log_x) - 1) / exponent, and its limit log_x for small products."""
    # Below that, expm1 is the product to all digits; subnormal ones would lose theirs.
    flat = (exponent == 0) | (lax.abs(exponent * log_x) < 1e-20)
    safe = jnp.where(flat, 1, exponent)
    return jnp.where(flat, log_x, jnp.expm1(safe * log_x) / safe)


@partial(in_float64, keeps_weak_types=True)
def _boxcox(x: Array, exponent: Array) -> Array:
    return _power_transform(jnp.log(x), exponent)


@partial(in_float64, keeps_weak_types=True)
def _boxcox1p(x: Array, exponent: Array) -> Array:
    return _power_transform(jnp.log1p(x), exponent)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x^λ - 1) / λ, log(x) for λ = 0; nan for negative x.

    >>> boxcox(jnp.array([3.0]), 1.0)
    Array([2.], dtype=float32)
    """
    x, lmbda = promote_args_inexact("boxcox", x, lmbda)
    return _boxcox(*jnp.broadcast_arrays(x, lmbda))


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, λ), accurate for small x.

    >>> boxcox1p(jnp.array([3.0]), 1.0).round(3)
    Array([3.], dtype=float32)
    """
    x, lmbda = promote_args_inexact("boxcox1p", x, lmbda)
    return _boxcox1p(*jnp.broadcast_arrays(x, lmbda))
