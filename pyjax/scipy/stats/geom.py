"""The geometric distribution: trials up to the first success, k ≥ 1."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import xlog1py

Array = Any
ArrayLike = Any


@one_program(None)
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k.

    >>> round(float(logpmf(2, 0.5)), 3)
    -1.386
    """
    k, p, loc = promote_args_inexact("geom.logpmf", k, p, loc)
    k = k - loc
    return jnp.where(k <= 0, -np.inf, xlog1py(jnp.where(k <= 0, 1, k) - 1, -p) + jnp.log(p))


@one_program(None)
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k.

    >>> round(float(pmf(2, 0.5)), 3)
    0.25
    """
    return jnp.exp(logpmf(k, p, loc))
