"""The chi-squared distribution with `df` degrees of freedom: gamma of shape df / 2."""

from __future__ import annotations

from typing import Any

from pyjax.numpy import divide, multiply
from pyjax.scipy.stats import gamma

Array = Any
ArrayLike = Any


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    return gamma.logpdf(x, divide(df, 2), loc, multiply(scale, 2))


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return gamma.pdf(x, divide(df, 2), loc, multiply(scale, 2))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x."""
    return gamma.cdf(x, divide(df, 2), loc, multiply(scale, 2))


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf."""
    return gamma.logcdf(x, divide(df, 2), loc, multiply(scale, 2))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x."""
    return gamma.sf(x, divide(df, 2), loc, multiply(scale, 2))


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf."""
    return gamma.logsf(x, divide(df, 2), loc, multiply(scale, 2))
