"""The normal distribution with mean `loc` and standard deviation `scale`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.special import log_ndtr, ndtr, ndtri

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.419
    """
    x, loc, scale = promote_args_inexact("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -0.5 * z * z - jnp.log(scale) - constant_like(z, float(np.log(2 * np.pi) / 2))


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.242
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.841
    """
    x, loc, scale = promote_args_inexact("norm.cdf", x, loc, scale)
    z = (x - loc) / scale
    return ndtr(z)


@one_program(None)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0)), 3)
    -0.173
    """
    x, loc, scale = promote_args_inexact("norm.logcdf", x, loc, scale)
    z = (x - loc) / scale
    return log_ndtr(z)


@one_program(None)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0)), 3)
    0.159
    """
    x, loc, scale = promote_args_inexact("norm.sf", x, loc, scale)
    z = (x - loc) / scale
    return ndtr(-z)


@one_program(None)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0)), 3)
    -1.841
    """
    x, loc, scale = promote_args_inexact("norm.logsf", x, loc, scale)
    z = (x - loc) / scale
    return log_ndtr(-z)


@one_program(None)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.975)), 3)
    1.96
    """
    q, loc, scale = promote_args_inexact("norm.ppf", q, loc, scale)
    return ndtri(q) * scale + loc


@one_program(None)
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which lies probability q.

    >>> round(float(isf(0.975)), 3)
    -1.96
    """
    q, loc, scale = promote_args_inexact("norm.isf", q, loc, scale)
    return loc - ndtri(q) * scale
