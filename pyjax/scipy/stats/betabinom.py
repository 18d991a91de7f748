"""The beta-binomial distribution: binomial with p from a beta distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import betaln

Array = Any
ArrayLike = Any


@one_program(None)
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k.

    >>> round(float(logpmf(1, 2, 1.0, 1.0)), 3)
    -1.099
    """
    k, n, a, b, loc = promote_args_inexact("betabinom.logpmf", k, n, a, b, loc)
    k = k - loc
    k = jnp.floor(k)
    outside = (k < 0) | (k > n)
    k = jnp.where(outside, 0, k)
    ways = -jnp.log1p(n) - betaln(n - k + 1, k + 1)
    value = ways + betaln(k + a, n - k + b) - betaln(a, b)
    value = jnp.where(outside, -np.inf, value)
    return jnp.where((n < 0) | (a <= 0) | (b <= 0), np.nan, value)


@one_program(None)
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(1, 2, 1.0, 1.0)), 3)
    0.333
    """
    return jnp.exp(logpmf(k, n, a, b, loc))
