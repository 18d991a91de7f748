"""The left-skewed Gumbel distribution (of minima)."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.stats import gumbel_r

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.718
    """
    x, loc, scale = promote_args_inexact("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return z - jnp.exp(z) - jnp.log(scale)


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.179
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0)), 3)
    -0.068
    """
    x, loc, scale = promote_args_inexact("gumbel_l.logcdf", x, loc, scale)
    return gumbel_r.logsf(-x, -loc, scale)


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.934
    """
    x, loc, scale = promote_args_inexact("gumbel_l.cdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.expm1(-jnp.exp(z))


@one_program(None)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0)), 3)
    0.066
    """
    x, loc, scale = promote_args_inexact("gumbel_l.sf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.exp(-jnp.exp(z))


@one_program(None)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0)), 3)
    -2.718
    """
    x, loc, scale = promote_args_inexact("gumbel_l.logsf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.exp(z)


@one_program(None)
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.25)), 3)
    -1.246
    """
    p, loc, scale = promote_args_inexact("gumbel_l.ppf", p, loc, scale)
    return jnp.where((p < 0) | (p > 1), np.nan, loc + scale * jnp.log(-jnp.log1p(-p)))
