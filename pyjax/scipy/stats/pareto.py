"""The Pareto distribution with shape `b`, from loc + scale on."""

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
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(2.0, 3.0)), 3)
    -1.674
    """
    x, b, loc, scale = promote_args_inexact("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    return jnp.where(z < 1, -np.inf, jnp.log(b / scale) - (b + 1) * jnp.log(_inside(z)))


@one_program(None)
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(2.0, 3.0)), 3)
    0.188
    """
    return jnp.exp(logpdf(x, b, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(2.0, 3.0)), 3)
    0.875
    """
    x, b, loc, scale = promote_args_inexact("pareto.cdf", x, b, loc, scale)
    z = (x - loc) / scale
    return -jnp.expm1(-b * jnp.log(_inside(z)))


@one_program(None)
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of cdf.

    >>> round(float(logcdf(2.0, 3.0)), 3)
    -0.134
    """
    x, b, loc, scale = promote_args_inexact("pareto.logcdf", x, b, loc, scale)
    z = (x - loc) / scale
    below = z < 1
    value = log1mexp(b * jnp.log(jnp.where(below, 2, z)))
    return jnp.where(below, -np.inf, value)


@one_program(None)
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(2.0, 3.0)), 3)
    0.125
    """
    x, b, loc, scale = promote_args_inexact("pareto.sf", x, b, loc, scale)
    z = (x - loc) / scale
    return jnp.exp(-b * jnp.log(_inside(z)))


@one_program(None)
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of sf.

    >>> round(float(logsf(2.0, 3.0)), 3)
    -2.079
    """
    x, b, loc, scale = promote_args_inexact("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    return -b * jnp.log(_inside(z))


@one_program(None)
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.5, 3.0)), 3)
    1.26
    """
    q, b, loc, scale = promote_args_inexact("pareto.ppf", q, b, loc, scale)
    value = loc + scale * jnp.exp(-jnp.log1p(-q) / b)
    return jnp.where((q < 0) | (q > 1), constant_like(q, np.nan), value)


def _inside(z: Array) -> Array:
    """z, or 1 below: not the maximum, whose derivative at 1 is a half."""
    return jnp.where(z < 1, constant_like(z, 1), z)
