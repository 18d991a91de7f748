"""The binomial distribution: successes among `n` trials of probability `p`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import betaln, xlog1py, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k.

    >>> round(float(logpmf(1, 2, 0.5)), 3)
    -0.693
    """
    k, n, p, loc = promote_args_inexact("binom.logpmf", k, n, p, loc)
    k = k - loc
    inside = (k >= 0) & (k <= n)
    k = jnp.where(inside, k, 0)
    ways = -betaln(1 + n - k, 1 + k) - jnp.log1p(n)
    value = ways + xlogy(k, p) + xlog1py(n - k, -p)
    return jnp.where(inside, value, -np.inf)


@one_program(None)
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(1, 2, 0.5)), 3)
    0.5
    """
    return jnp.exp(logpmf(k, n, p, loc))
