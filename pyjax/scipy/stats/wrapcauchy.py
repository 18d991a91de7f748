"""The wrapped Cauchy distribution on [0, 2π) with concentration `c` in (0, 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(0.5, 0.25)), 3)
    -1.43
    """
    x, c = promote_args_inexact("wrapcauchy.logpdf", x, c)
    inside = (x >= 0) & (x <= 2 * np.pi)
    value = jnp.log1p(-c * c) - float(np.log(2 * np.pi))
    value = value - jnp.log1p(c * c - 2 * c * jnp.cos(x))
    return jnp.where((c > 0) & (c < 1), jnp.where(inside, value, -np.inf), np.nan)


@one_program(None)
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Density at x.

    >>> round(float(pdf(0.5, 0.25)), 3)
    0.239
    """
    return jnp.exp(logpdf(x, c))
