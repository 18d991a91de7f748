"""The Poisson distribution with mean `mu`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.common import in_float64
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import constant_like, promote_args_inexact
from pyjax.scipy._special_lanczos import log_poisson
from pyjax.scipy.special import digamma, gammaincc, gammaln, xlogy

Array = Any
ArrayLike = Any


@custom_jvp
@partial(in_float64, keeps_weak_types=True, narrow=log_poisson)
def _log_density(k: Array, mu: Array) -> Array:
    return xlogy(k, mu) - gammaln(k + 1) - mu


_log_density.defjvps(
    lambda g, ans, k, mu: g * (jnp.log(mu) - digamma(k + 1)),
    lambda g, ans, k, mu: g * (k / mu - 1),
)


@one_program(None)
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k.

    >>> round(float(logpmf(1, 2.0)), 3)
    -1.307
    """
    k, mu, loc = promote_args_inexact("poisson.logpmf", k, mu, loc)
    k = k - loc
    safe = jnp.where(k < 0, 0, k)  # not the maximum, whose derivative at 0 is a half
    value = _log_density(*jnp.broadcast_arrays(safe, mu))
    return jnp.where((k < 0) | (k != jnp.floor(k)), -np.inf, value)


@one_program(None)
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(1, 2.0)), 3)
    0.271
    """
    return jnp.exp(logpmf(k, mu, loc))


@one_program(None)
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of a value ≤ k.

    >>> round(float(cdf(1, 2.0)), 3)
    0.406
    """
    k, mu, loc = promote_args_inexact("poisson.cdf", k, mu, loc)
    k = k - loc
    return jnp.where(k < 0, constant_like(k, 0), gammaincc(jnp.floor(jnp.maximum(k, 0)) + 1, mu))


@one_program(None)
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """-Σ p log p of the probabilities of all counts, in nats; `loc` does not matter.

    Exact sums up to mu = 20 (100 terms, which leave out less than 1e-30), the asymptotic series
    above (Evans 1988). 0 for mu = 0, nan below.

    >>> round(float(entropy(2.0)), 3)
    1.705
    """
    mu, _ = promote_args_inexact("poisson.entropy", mu, loc)
    few = jnp.clip(mu, 0, 20)
    counts = np.reshape(np.arange(100), (1,) * jnp.ndim(mu) + (-1,)).astype(mu.dtype)
    terms = xlogy(counts, few[..., None]) - gammaln(counts + 1) - few[..., None]
    summed = -jnp.sum(jnp.exp(terms) * jnp.where(jnp.isfinite(terms), terms, 0), axis=-1)
    large = jnp.maximum(mu, 20)
    series = (1 / 12 + (1 / 24 + 19 / (360 * large)) / large) / large
    above = 0.5 * jnp.log(2 * np.pi * np.e * large) - series
    return jnp.where(mu < 0, np.nan, jnp.where(mu > 20, above, summed))
