"""The Laplace distribution around `loc`: exp(-|x - loc| / scale) / (2 scale)."""

from __future__ import annotations

import math
from typing import Any

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0)), 3)
    -1.693
    """
    x, loc, scale = promote_args_inexact("laplace.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -jnp.abs(z) - jnp.log(scale) - constant_like(z, math.log(2))


@one_program(None)
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0)), 3)
    0.184
    """
    return jnp.exp(logpdf(x, loc, scale))


@one_program(None)
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0)), 3)
    0.816
    """
    x, loc, scale = promote_args_inexact("laplace.cdf", x, loc, scale)
    z = (x - loc) / scale
    # Not the absolute value: it has another derivative at zero than either tail.
    tail = constant_like(z, 0.5) * jnp.exp(jnp.where(z <= 0, z, -z))
    return jnp.where(z <= 0, tail, 1 - tail)
