"""The binomial distribution: successes among `n` trials of probability `p`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.common import in_float64
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy._special_lanczos import log_binomial
from pyjax.scipy.special import betaln, digamma, logit, xlog1py, xlogy

Array = Any
ArrayLike = Any


@custom_jvp
@partial(in_float64, keeps_weak_types=True, narrow=log_binomial)
def _log_density(k: Array, n: Array, p: Array) -> Array:
    ways = -betaln(1 + n - k, 1 + k) - jnp.log1p(n)
    return ways + xlogy(k, p) + xlog1py(n - k, -p)


_log_density.defjvps(
    lambda g, ans, k, n, p: g * (digamma(n - k + 1) - digamma(k + 1) + logit(p)),
    lambda g, ans, k, n, p: g * (digamma(n + 1) - digamma(n - k + 1) + jnp.log1p(-p)),
    lambda g, ans, k, n, p: g * (k / p - (n - k) / (1 - p)),
)


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
    value = _log_density(*jnp.broadcast_arrays(k, n, p))
    return jnp.where(inside, value, -np.inf)


@one_program(None)
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(1, 2, 0.5)), 3)
    0.5
    """
    return jnp.exp(logpmf(k, n, p, loc))
