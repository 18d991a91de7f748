"""The chi-squared distribution with `df` degrees of freedom: gamma of shape df / 2."""

from __future__ import annotations

from typing import Any

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.stats import gamma

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0, 3.0)), 3)
    -1.419
    """
    return gamma.logpdf(*_as_gamma("logpdf", x, df, loc, scale))


@one_program(None)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0, 3.0)), 3)
    0.242
    """
    return jnp.exp(logpdf(x, df, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0, 3.0)), 3)
    0.199
    """
    return gamma.cdf(*_as_gamma("cdf", x, df, loc, scale))


@one_program(None)
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0, 3.0)), 3)
    -1.616
    """
    return gamma.logcdf(*_as_gamma("logcdf", x, df, loc, scale))


@one_program(None)
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0, 3.0)), 3)
    0.801
    """
    return gamma.sf(*_as_gamma("sf", x, df, loc, scale))


@one_program(None)
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0, 3.0)), 3)
    -0.222
    """
    return gamma.logsf(*_as_gamma("logsf", x, df, loc, scale))


def _as_gamma(
    name: str, x: ArrayLike, df: ArrayLike, loc: ArrayLike, scale: ArrayLike
) -> tuple[Array, ...]:
    """The arguments of the same function of the gamma distribution."""
    x, df, loc, scale = promote_args_inexact(f"chi2.{name}", x, df, loc, scale)
    two = constant_like(x, 2)
    return x, df / two, loc, scale * two
