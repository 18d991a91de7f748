"""The exponential distribution from `loc` on, with mean `scale`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.nn import log1mexp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.0
    """
    x, loc, scale = promote_args_inexact("expon.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where(z < 0, -np.inf, -z - jnp.log(scale))


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.368
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.632
    """
    x, loc, scale = promote_args_inexact("expon.cdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.expm1(-_inside(z))


@one_program(None)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0)), 3)
    -0.459
    """
    x, loc, scale = promote_args_inexact("expon.logcdf", x, loc, scale)
    z = (x - loc) / scale
    inside = jnp.where(z > 0, z, 1)
    return jnp.where(z > 0, log1mexp(inside), jnp.where(jnp.isnan(z), np.nan, -np.inf))


@one_program(None)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0)), 3)
    0.368
    """
    x, loc, scale = promote_args_inexact("expon.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.exp(-_inside(z))


@one_program(None)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0)), 3)
    -1.0
    """
    x, loc, scale = promote_args_inexact("expon.logsf", x, loc, scale)
    z = (x - loc) / scale
    return -_inside(z)


@one_program(None)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.5)), 3)
    0.693
    """
    q, loc, scale = promote_args_inexact("expon.ppf", q, loc, scale)
    return jnp.where((q < 0) | (q > 1), np.nan, loc - jnp.log1p(-q) * scale)


def _inside(z: Array) -> Array:
    """z, or 0 below: not the maximum, whose derivative at 0 is a half."""
    return jnp.where(z < 0, 0, z)
