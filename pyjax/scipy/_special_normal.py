"""The error and logistic functions, the normal distribution, Bessel functions, Box-Cox."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax, nn
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.bessel import unscaled_i0, unscaled_i1
from pyjax.lax.special.common import horner, in_float32, in_float64
from pyjax.lax.special.error_functions import (
    erf_of_small,
    scaled_erfc,
    times_exp_of_minus_square,
)
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from xla_backend.hlo.special_function_tables import (
    LOGIT_F32,
    LOGIT_F64,
    NDTRI_CENTRAL_F32,
    NDTRI_TAIL_F32,
    NDTRI_TAIL_F64,
)

Array = Any
ArrayLike = Any
_HALF_LOG_2PI = float(np.log(2 * np.pi) / 2)
_ROOT_HALF = float(np.sqrt(0.5))
_ROOT_HALF_OVER_PI = float(np.sqrt(0.5 / np.pi))
# Up to here ndtr is computed from erf, beyond from the scaled tail.
_SMALL = 1.0


@one_program(None)
def erf(x: ArrayLike) -> Array:
    """The error function 2/√π ∫₀ˣ exp(-t²) dt.

    >>> erf(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return lax.erf(*promote_args_inexact("erf", x))


@one_program(None)
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate for large x; float32 to 5.1 units in the last place.

    >>> erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.erfc(*promote_args_inexact("erfc", x))


@one_program(None)
def erfinv(x: ArrayLike) -> Array:
    """The inverse of erf; ±inf at ±1, nan beyond.

    >>> erfinv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.erf_inv(*promote_args_inexact("erfinv", x))


@one_program(None)
def expit(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(*promote_args_inexact("expit", x))


@custom_jvp
@partial(in_float32, keeps_weak_types=True)
def _logit(x: Array) -> Array:
    # x / (1 - x) rounds what the logarithm leaves of it near 1; s = 2 x - 1 is exact there, and the
    # odds are (1 + s) / (1 - s).
    middle = (x > 0.25) & (x < 0.75)
    s = 2 * x - 1
    square = s * s
    table = LOGIT_F32 if x.dtype == np.float32 else LOGIT_F64
    near = 2 * s + s * square * horner(square, table)
    return jnp.where(middle, near, lax.log(x / (1 - x)))


_logit.defjvps(lambda g, ans, x: g / (x * (1 - x)))


@one_program(None)
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


def _scaled_tail(x: Array) -> Array:
    """exp(x² / 2) ndtr(-x) for x >= _SMALL."""
    return scaled_erfc(_ROOT_HALF * x, 0.5 * _ROOT_HALF) / (x + _ROOT_HALF)


def _upper_tail(x: Array) -> Array:
    """ndtr(-x) for x >= 0."""
    # Beyond 40 there is nothing left. (x² / 2 is squared as such: the rounding error of x / √2
    # would be magnified.)
    far = jnp.minimum(x, 40)
    tail = times_exp_of_minus_square(_scaled_tail(far), far, 0.5)
    return jnp.where(x < _SMALL, 0.5 - erf_of_small(x, _ROOT_HALF, 0.5), tail)


@custom_jvp
def _ndtr(x: Array) -> Array:
    tail = _upper_tail(lax.abs(x))
    return jnp.where(x > 0, 1 - tail, tail)


_ndtr.defjvps(lambda g, ans, x: g * lax.exp(-x * x / 2 - _HALF_LOG_2PI))


@one_program(None)
def ndtr(x: ArrayLike) -> Array:
    """The standard normal distribution function: the probability of a value ≤ x.

    float32 to 5 units in the last place, in both tails.

    Raises:
      TypeError: x is neither float32 nor float64.

    >>> ndtr(jnp.array([0.0, jnp.inf]))
    Array([0.5, 1. ], dtype=float32)
    """
    return _ndtr(_floating("ndtr", x))


@one_program()
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), accurate in both tails; float32 to 5 units in the last place.

    Args:
      x: float32 or float64.
      series_order: accepted as in JAX, and not used: no series is needed.
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
    return _log_ndtr(_floating("log_ndtr", x))


@custom_jvp
def _log_ndtr(x: Array) -> Array:
    size = lax.abs(x)
    tail = _upper_tail(size)
    # Above 0 it is log(1 - tail), with what 1 - tail loses when it is rounded. Far below, the
    # logarithm of the scaled tail, and -x²/2.
    near = x > -_SMALL
    inner = jnp.where(x > 0, 1 - tail, jnp.where(near, tail, _scaled_tail(size)))
    lost = ((1 - inner) - tail) / inner
    return lax.log(inner) + jnp.where(x > 0, lost, jnp.where(near, 0, -0.5 * x * x))


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: Any, tangents: Any) -> Any:
    """The ratio of density and distribution."""
    (x,), (g,) = primals, tangents
    ans = _log_ndtr(x)
    near = lax.exp(-0.5 * x * x - _HALF_LOG_2PI - ans)
    # Far below their exponents cancel: the reciprocal of the scaled tail is left.
    # (No minimum, whose derivative is a half at x = -_SMALL.)
    is_near = x > -_SMALL
    below = _ROOT_HALF_OVER_PI / _scaled_tail(jnp.where(is_near, _SMALL, -x))
    return ans, g * jnp.where(is_near, near, below)


def _ndtri_tail(p: Array) -> Array:
    """The x < 0 at which ndtr is p, for 0 < p <= 1/8."""
    log_p = lax.log(p)
    r = jnp.sqrt(-2 * log_p)
    if p.dtype == np.float32:
        u = (1 / (r + 3) - 0.12795509292036467) * (1 / 0.07048382855254859)
        return horner(u, NDTRI_TAIL_F32) - r
    u = (1 / (r + 2) - 0.13606779490062773) * (1 / 0.11149777033060315)
    x = -r * horner(u, NDTRI_TAIL_F64)
    # One step of Newton's method, which squares the error: log_ndtr is concave.
    value = _log_ndtr(x)
    return x - (value - log_p) * lax.exp(value + x * x / 2 + _HALF_LOG_2PI)


def _ndtri_centre(p: Array) -> Array:
    """The x at which ndtr is p, for 1/8 <= p <= 7/8."""
    if p.dtype != np.float32:
        return float(np.sqrt(2)) * lax.erf_inv(2 * p - 1)
    q = p - 0.5
    return q * horner(q * q, NDTRI_CENTRAL_F32)


@custom_jvp
def _ndtri(p: Array) -> Array:
    low = jnp.minimum(p, 1 - p)  # 1 - p is exact for p above a half
    tail = _ndtri_tail(jnp.where((low > 0) & (low < 0.125), low, 0.0625))
    x = jnp.where(low < 0.125, jnp.where(p < 0.5, tail, -tail), _ndtri_centre(p))
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


@one_program(None)
def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr, for p in [0, 1]; nan outside.

    Raises:
      TypeError: p is neither float32 nor float64.

    >>> ndtri(jnp.array([0.5]))
    Array([0.], dtype=float32)
    """
    return _ndtri(_floating("ndtri", p))


# -- Bessel functions ------------------------------------------------------------------------------


@one_program(None)
def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) I₀(x), the scaled modified Bessel function of order 0.

    >>> i0e(jnp.array([0.0, 1.0])).round(2)
    Array([1.  , 0.47], dtype=float32)
    """
    return lax.bessel_i0e(*promote_args_inexact("i0e", x))


_i0, _i1 = custom_jvp(unscaled_i0), custom_jvp(unscaled_i1)
# Of the product, the derivative would be the difference of two infinities for large x.
_i0.defjvps(lambda g, ans, x: g * _i1(x))


def _i1_slope(ans: Array, x: Array) -> Array:
    """I0(x) - I1(x) / x, which tends to 1/2 at 0 and is infinite where both are."""
    i0_x = _i0(x)
    slope = jnp.where(lax.is_finite(ans), i0_x - ans / jnp.where(x == 0, 1, x), i0_x)
    return jnp.where(x == 0, 0.5, slope)


_i1.defjvps(lambda g, ans, x: g * _i1_slope(ans, x))


@one_program(None)
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0.

    >>> i0(jnp.array([1.0])).round(2)
    Array([1.27], dtype=float32)
    """
    return _i0(*promote_args_inexact("i0", x))


@one_program(None)
def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) I₁(x), the scaled modified Bessel function of order 1.

    >>> i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.bessel_i1e(*promote_args_inexact("i1e", x))


@one_program(None)
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 1.

    >>> i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("i1", x)
    return _i1(jnp.asarray(x))


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


@one_program(None)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x^λ - 1) / λ, log(x) for λ = 0; nan for negative x.

    >>> boxcox(jnp.array([3.0]), 1.0)
    Array([2.], dtype=float32)
    """
    x, lmbda = promote_args_inexact("boxcox", x, lmbda)
    return _boxcox(*jnp.broadcast_arrays(x, lmbda))


@one_program(None)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, λ), accurate for small x.

    >>> boxcox1p(jnp.array([3.0]), 1.0).round(3)
    Array([3.], dtype=float32)
    """
    x, lmbda = promote_args_inexact("boxcox1p", x, lmbda)
    return _boxcox1p(*jnp.broadcast_arrays(x, lmbda))
