"""The beta distribution on [loc, loc + scale] with shapes `a` and `b`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.special import betainc, betaln, xlog1py, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density at x; nan for parameters and scales that are not positive.

    >>> round(float(logpdf(0.25, 2.0, 3.0)), 3)
    0.523
    """
    x, a, b, loc, scale = promote_args_inexact("beta.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    one = constant_like(z, 1)
    value = xlogy(a - one, z) + xlog1py(b - one, -z) - betaln(a, b) - jnp.log(scale)
    value = jnp.where((z < 0) | (z > 1), -np.inf, value)
    # betaln is finite for negative numbers, too; they are no parameters.
    return jnp.where((a > 0) & (b > 0) & (scale > 0), value, np.nan)


@one_program(None)
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density at x.

    >>> round(float(pdf(0.25, 2.0, 3.0)), 3)
    1.688
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


@one_program(None)
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(0.25, 2.0, 3.0)), 3)
    0.262
    """
    x, a, b, loc, scale = promote_args_inexact("beta.cdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    return _below(a, b, z)


@one_program(None)
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(0.25, 2.0, 3.0)), 3)
    -1.34
    """
    x, a, b, loc, scale = promote_args_inexact("beta.logcdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    return jnp.log(_below(a, b, z))


@one_program(None)
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(0.25, 2.0, 3.0)), 3)
    0.738
    """
    x, a, b, loc, scale = promote_args_inexact("beta.sf", x, a, b, loc, scale)
    z = (x - loc) / scale
    return _above(a, b, z)


@one_program(None)
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(0.25, 2.0, 3.0)), 3)
    -0.303
    """
    x, a, b, loc, scale = promote_args_inexact("beta.logsf", x, a, b, loc, scale)
    z = (x - loc) / scale
    return jnp.log(_above(a, b, z))


def _below(a: Array, b: Array, z: Array) -> Array:
    """The probability below z on [0, 1]; outside, where it is constant, so are its derivatives."""
    outside = (z <= 0) | (z >= 1)
    probability = betainc(a, b, jnp.where(outside, constant_like(z, 0.5), z))
    constant = jnp.where(jnp.isnan(probability), probability, jnp.where(z <= 0, 0, 1))
    return jnp.where(outside, constant, probability)


def _above(a: Array, b: Array, z: Array) -> Array:
    """The probability above z: small ones of 1 - z, which has lost digits of z if z is small."""
    below = _below(a, b, z)
    return jnp.where(below < 0.5, 1 - below, _below(b, a, 1 - z))
