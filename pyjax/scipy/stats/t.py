"""Student's t distribution with `df` degrees of freedom."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.special import gammaln

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0, 3.0)), 3)
    -1.576
    """
    x, df, loc, scale = promote_args_inexact("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    norm = gammaln((df + 1) / 2) - gammaln(df / 2) - jnp.log(df * constant_like(x, np.pi)) / 2
    return norm - jnp.log(scale) - (df + 1) / 2 * jnp.log1p(z * z / df)


@one_program(None)
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0, 3.0)), 3)
    0.207
    """
    return jnp.exp(logpdf(x, df, loc, scale))
