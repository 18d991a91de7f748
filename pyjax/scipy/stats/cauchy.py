"""The Cauchy distribution around `loc`, with half width `scale`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.838
    """
    x, loc, scale = promote_args_inexact("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.log(constant_like(x, np.pi) * scale) - jnp.log1p(z * z)


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.159
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.75
    """
    x, loc, scale = promote_args_inexact("cauchy.cdf", x, loc, scale)
    z = (x - loc) / scale
    # For z < 0: arctan2 keeps the tail, where 1/2 + arctan(z)/pi would cancel.
    return jnp.arctan2(jnp.ones_like(z), -z) / constant_like(x, np.pi)


@one_program(None)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0)), 3)
    -0.288
    """
    x, loc, scale = promote_args_inexact("cauchy.logcdf", x, loc, scale)
    return _log_below((x - loc) / scale)


@one_program(None)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0)), 3)
    0.25
    """
    x, loc, scale = promote_args_inexact("cauchy.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.arctan2(jnp.ones_like(z), z) / constant_like(x, np.pi)


@one_program(None)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0)), 3)
    -1.386
    """
    x, loc, scale = promote_args_inexact("cauchy.logsf", x, loc, scale)
    return _log_below((loc - x) / scale)


@one_program(None)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.75)), 3)
    1.0
    """
    q, loc, scale = promote_args_inexact("cauchy.ppf", q, loc, scale)
    return loc - scale * _cotangent(q)


@one_program(None)
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which lies probability q.

    >>> round(float(isf(0.75)), 3)
    -1.0
    """
    q, loc, scale = promote_args_inexact("cauchy.isf", q, loc, scale)
    return loc + scale * _cotangent(q)


def _log_below(z: Array) -> Array:
    """log of the probability below z: by the smaller tail, which has all its digits."""
    below = z < 0
    tail = jnp.arctan2(jnp.ones_like(z), jnp.where(below, -z, z)) / constant_like(z, np.pi)
    # log has an infinite derivative at the end of the other tail.
    return jnp.where(below, jnp.log(jnp.where(below, tail, 1)), jnp.log1p(-tail))


def _cotangent(q: Array) -> Array:
    """cot(πq), infinite at 0 and 1 and nan outside: of the smaller of q and 1 - q, where the
    angle is accurate.
    """
    # Not the minimum: its derivative is zero in the middle. The maximum makes 0 of -0.
    angle = constant_like(q, np.pi) * jnp.where(q < 0.5, jnp.maximum(q, 0), 1 - q)
    size = 1 / jnp.tan(angle)
    return jnp.where((q < 0) | (q > 1), np.nan, jnp.where(q < 0.5, size, -size))
