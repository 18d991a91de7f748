"""The normal distribution with mean `loc` and standard deviation `scale`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import log_ndtr, ndtr, ndtri

Array = Any
ArrayLike = Any


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, loc, scale = promote_args_inexact("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -0.5 * z * z - jnp.log(scale) - float(np.log(2 * np.pi) / 2)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x."""
    x, loc, scale = promote_args_inexact("norm.cdf", x, loc, scale)
    z = (x - loc) / scale
    return ndtr(z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf."""
    x, loc, scale = promote_args_inexact("norm.logcdf", x, loc, scale)
    z = (x - loc) / scale
    return log_ndtr(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x."""
    x, loc, scale = promote_args_inexact("norm.sf", x, loc, scale)
    z = (x - loc) / scale
    return ndtr(-z)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf."""
    x, loc, scale = promote_args_inexact("norm.logsf", x, loc, scale)
    z = (x - loc) / scale
    return log_ndtr(-z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q."""
    q, loc, scale = promote_args_inexact("norm.ppf", q, loc, scale)
    return ndtri(q) * scale + loc


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which lies probability q."""
    q, loc, scale = promote_args_inexact("norm.isf", q, loc, scale)
    return loc - ndtri(q) * scale
