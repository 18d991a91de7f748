"""The logistic distribution around `loc`."""

from __future__ import annotations

from typing import Any

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.special import expit, logit

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.627
    """
    x, loc, scale = promote_args_inexact("logistic.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.abs(z) - constant_like(x, 2) * jnp.log1p(jnp.exp(-jnp.abs(z))) - jnp.log(scale)


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.197
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.731
    """
    x, loc, scale = promote_args_inexact("logistic.cdf", x, loc, scale)
    z = (x - loc) / scale
    return expit(z)


@one_program(None)
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value > x.

    >>> round(float(sf(1.0)), 3)
    0.269
    """
    x, loc, scale = promote_args_inexact("logistic.sf", x, loc, scale)
    z = (x - loc) / scale
    return expit(-z)


@one_program(None)
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.75)), 3)
    1.099
    """
    x, loc, scale = promote_args_inexact("logistic.ppf", x, loc, scale)
    return logit(x) * scale + loc


@one_program(None)
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which lies probability q.

    >>> round(float(isf(0.75)), 3)
    -1.099
    """
    x, loc, scale = promote_args_inexact("logistic.isf", x, loc, scale)
    return loc - logit(x) * scale
