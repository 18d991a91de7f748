"""The right-skewed Gumbel distribution (of maxima)."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.nn import log1mexp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.368
    """
    x, loc, scale = promote_args_inexact("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -z - jnp.exp(-z) - jnp.log(scale)


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.255
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(1.0)), 3)
    -0.368
    """
    x, loc, scale = promote_args_inexact("gumbel_r.logcdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.exp(-z)


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.692
    """
    x, loc, scale = promote_args_inexact("gumbel_r.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.exp(-jnp.exp(-z))


@one_program(None)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0)), 3)
    0.308
    """
    x, loc, scale = promote_args_inexact("gumbel_r.sf", x, loc, scale)
    z = (x - loc) / scale
    # A constant of z's type: of an array the result is strongly typed, as the reference's.
    return constant_like(z, -1) * jnp.expm1(-jnp.exp(-z))


@one_program(None)
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(1.0)), 3)
    -1.178
    """
    x, loc, scale = promote_args_inexact("gumbel_r.logsf", x, loc, scale)
    z = (x - loc) / scale
    # Far above loc exp(-z) loses its digits, and of log(1 - exp(-exp(-z))) no more is left.
    far = z > 20
    near = log1mexp(jnp.exp(-jnp.where(far, 0, z)))
    return jnp.where(far, -z - jnp.exp(-z) / 2, near)


@one_program(None)
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.25)), 3)
    -0.327
    """
    p, loc, scale = promote_args_inexact("gumbel_r.ppf", p, loc, scale)
    return jnp.where((p < 0) | (p > 1), np.nan, loc - scale * jnp.log(-jnp.log(p)))
