"""The generalised normal distribution with density ∝ exp(-|x|^β)."""

from __future__ import annotations

from typing import Any

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import gammaincc, gammaln

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Logarithm of the density at x.

    >>> round(float(logpdf(1.0, 2.0)), 3)
    -1.572
    """
    x, beta = promote_args_inexact("gennorm.logpdf", x, beta)
    return jnp.log(beta / 2) - gammaln(1 / beta) - jnp.abs(x) ** beta


@one_program(None)
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Density at x.

    >>> round(float(pdf(1.0, 2.0)), 3)
    0.208
    """
    return jnp.exp(logpdf(x, beta))


@one_program(None)
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Probability of a value ≤ x.

    >>> round(float(cdf(1.0, 2.0)), 3)
    0.921
    """
    x, beta = promote_args_inexact("gennorm.cdf", x, beta)
    tail = 0.5 * gammaincc(1 / beta, jnp.abs(x) ** beta)
    return jnp.where(x < 0, tail, 1 - tail)
