"""The gamma distribution with shape `a`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.special import gammainc, gammaincc, gammaln, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0, 2.0)), 3)
    -1.0
    """
    x, a, loc, scale = promote_args_inexact("gamma.logpdf", x, a, loc, scale)
    z = (x - loc) / scale
    inside = _inside(z, z < 0)
    value = xlogy(a - constant_like(z, 1), inside) - inside - gammaln(a) - jnp.log(scale)
    return jnp.where(z < 0, -np.inf, value)


@one_program(None)
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0, 2.0)), 3)
    0.368
    """
    return jnp.exp(logpdf(x, a, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0, 2.0)), 3)
    0.264
    """
    x, a, loc, scale = promote_args_inexact("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    value = jnp.where(z <= 0, constant_like(z, 0), gammainc(a, _inside(z, z <= 0)))
    return jnp.where(a <= 0, np.nan, value)


@one_program(None)
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0, 2.0)), 3)
    -1.331
    """
    return jnp.log(cdf(x, a, loc, scale))


@one_program(None)
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0, 2.0)), 3)
    0.736
    """
    x, a, loc, scale = promote_args_inexact("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    value = jnp.where(z <= 0, 1, gammaincc(a, _inside(z, z <= 0)))
    return jnp.where(a <= 0, np.nan, value)


@one_program(None)
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0, 2.0)), 3)
    -0.307
    """
    return jnp.log(sf(x, a, loc, scale))


def _inside(z: Array, outside: Array) -> Array:
    """z, but where it is outside of the support a number at which all derivatives are finite."""
    return jnp.where(outside, 1, z)
