"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(0.25)), 3)
    -0.0
    """
    x, loc, scale = promote_args_inexact("uniform.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.where((z < 0) | (z > 1), -np.inf, -jnp.log(scale))


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(0.25)), 3)
    1.0
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(0.25)), 3)
    0.25
    """
    x, loc, scale = promote_args_inexact("uniform.cdf", x, loc, scale)
    z = (x - loc) / scale
    return jnp.clip(z, np.zeros((), z.dtype), np.ones((), z.dtype))


@one_program(None)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value below which lies probability q.

    >>> round(float(ppf(0.25)), 3)
    0.25
    """
    q, loc, scale = promote_args_inexact("uniform.ppf", q, loc, scale)
    return jnp.where((q < 0) | (q > 1), np.nan, loc + q * scale)
