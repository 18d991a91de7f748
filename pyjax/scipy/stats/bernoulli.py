"""The Bernoulli distribution: 1 with probability `p`, else 0."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy.special import xlog1py, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k.

    >>> round(float(logpmf(1, 0.25)), 3)
    -1.386
    """
    k, p, loc = promote_args_inexact("bernoulli.logpmf", k, p, loc)
    k = k - loc
    value = xlogy(k, p) + xlog1py(1 - k, -p)
    return jnp.where((k == 0) | (k == 1) | jnp.isnan(k), value, -np.inf)


@one_program(None)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(1, 0.25)), 3)
    0.25
    """
    return jnp.exp(logpmf(k, p, loc))


@one_program(None)
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """Probability of a value ≤ k.

    >>> round(float(cdf(1, 0.25)), 3)
    1.0
    """
    k, p = promote_args_inexact("bernoulli.cdf", k, p)
    bad = (p < 0) | (p > 1) | jnp.isnan(p) | jnp.isnan(k)
    return jnp.where(bad, np.nan, jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)))


@one_program(None)
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The smallest k with cdf(k) ≥ q.

    >>> round(float(ppf(0.9, 0.25)), 3)
    1.0
    """
    q, p = promote_args_inexact("bernoulli.ppf", q, p)
    bad = jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1)
    value = jnp.where(q == 0, -1, jnp.where(q <= 1 - p, 0, 1))
    return jnp.where(bad, constant_like(q, np.nan), value)
