"""The negative binomial distribution: failures before the n-th success."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import gammaln, xlog1py, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k.

    >>> round(float(logpmf(1, 2, 0.5)), 3)
    -1.386
    """
    k, n, p, loc = promote_args_inexact("nbinom.logpmf", k, n, p, loc)
    k = k - loc
    safe = jnp.where(k < 0, 0, k)  # not the maximum, whose derivative at 0 is a half
    ways = gammaln(safe + n) - gammaln(n) - gammaln(safe + 1)
    return jnp.where(k < 0, -np.inf, ways + xlogy(n, p) + xlog1py(safe, -p))


@one_program(None)
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(1, 2, 0.5)), 3)
    0.25
    """
    return jnp.exp(logpmf(k, n, p, loc))
