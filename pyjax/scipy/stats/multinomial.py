"""The multinomial distribution: counts x (last axis) of `n` draws with probabilities `p`."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import gammaln, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Logarithm of the probability of the counts; -inf where they are not whole numbers ≥ 0 with
    sum n.

    >>> round(float(logpmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5]))), 3)
    -0.693
    """
    x, p = promote_args_inexact("multinomial.logpmf", x, p)
    count = jnp.asarray(n, x.dtype)
    value = gammaln(count + 1) + jnp.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
    # (Negative ones are poles of gammaln.)
    whole = jnp.all(x == jnp.floor(x), axis=-1)
    return jnp.where(whole & (jnp.sum(x, axis=-1) == count), value, -np.inf)


@one_program(None)
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Probability of k.

    >>> round(float(pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5]))), 3)
    0.5
    """
    return jnp.exp(logpmf(x, n, p))
