"""The Poisson distribution with mean `mu`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import gammaincc, gammaln, xlogy

Array = Any
ArrayLike = Any


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k."""
    k, mu, loc = promote_args_inexact("poisson.logpmf", k, mu, loc)
    k = k - loc
    safe = jnp.maximum(k, 0)
    value = xlogy(safe, mu) - gammaln(safe + 1) - mu
    return jnp.where((k < 0) | (k != jnp.floor(k)), -np.inf, value)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k."""
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of a value ≤ k."""
    k, mu, loc = promote_args_inexact("poisson.cdf", k, mu, loc)
    k = k - loc
    return jnp.where(k < 0, 0, gammaincc(jnp.floor(jnp.maximum(k, 0)) + 1, mu))
