"""The normal distribution restricted to [loc + a·scale, loc + b·scale]."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.nn import log1mexp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import log_ndtr

Array = Any
ArrayLike = Any


def _log_between(a: Array, b: Array) -> Array:
    """log(Φ(b) - Φ(a)) for a ≤ b, computed in the tail where it does not cancel."""
    flip = a > 0
    low, high = jnp.where(flip, -b, a), jnp.where(flip, -a, b)
    upper = log_ndtr(high)
    gap = jnp.where(high <= low, 0, upper - log_ndtr(low))
    return upper + log1mexp(gap)


def _log_parts(z: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Logs of the normal probabilities from a to z, z to b, and a to b.

    Where z is not between a and b, those of other numbers, at which derivatives are finite.
    """
    outside = (z <= a) | (z >= b)
    z, a, b = (jnp.where(outside, other, x) for other, x in ((0, z), (-1, a), (1, b)))
    return _log_between(a, z), _log_between(z, b), _log_between(a, b)


def _log_share(part: Array, rest: Array, whole: Array) -> Array:
    """log of a part of the whole: where it is nearly all, by the rest, which has all its digits."""
    share = part - whole
    nearly = share > -0.125
    return jnp.where(nearly, log1mexp(jnp.where(nearly, whole - rest, 1)), share)


def _prepare(name: str, x: Any, a: Any, b: Any, loc: Any, scale: Any) -> tuple[Array, ...]:
    x, a, b, loc, scale = promote_args_inexact(f"truncnorm.{name}", x, a, b, loc, scale)
    z, a, b, scale = jnp.broadcast_arrays((x - loc) / scale, a, b, scale)
    return z, a, b, scale


@one_program(None)
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(0.5, -1.0, 1.0)), 3)
    -0.662
    """
    z, a, b, scale = _prepare("logpdf", x, a, b, loc, scale)
    value = -0.5 * z * z - float(np.log(2 * np.pi) / 2) - jnp.log(scale) - _log_between(a, b)
    value = jnp.where((z < a) | (z > b), -np.inf, value)
    return jnp.where(a >= b, np.nan, value)


@one_program(None)
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(0.5, -1.0, 1.0)), 3)
    -0.248
    """
    z, a, b, scale = _prepare("logcdf", x, a, b, loc, scale)
    value = _log_share(*_log_parts(z, a, b))
    value = jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0, value))
    return jnp.where(a >= b, np.nan, value)


@one_program(None)
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(0.5, -1.0, 1.0)), 3)
    -1.516
    """
    z, a, b, scale = _prepare("logsf", x, a, b, loc, scale)
    below, above, whole = _log_parts(z, a, b)
    value = _log_share(above, below, whole)
    value = jnp.where(z <= a, 0, jnp.where(z >= b, -np.inf, value))
    return jnp.where(a >= b, np.nan, value)


@one_program(None)
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density at x.

    >>> round(float(pdf(0.5, -1.0, 1.0)), 3)
    0.516
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


@one_program(None)
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(0.5, -1.0, 1.0)), 3)
    0.78
    """
    return jnp.exp(logcdf(x, a, b, loc, scale))


@one_program(None)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(0.5, -1.0, 1.0)), 3)
    0.22
    """
    return jnp.exp(logsf(x, a, b, loc, scale))
