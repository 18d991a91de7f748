"""The Dirichlet distribution over points of the simplex (first axis of x)."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import check_arraylike, promote_dtypes_inexact
from pyjax.scipy.special import gammaln, xlogy

Array = Any
ArrayLike = Any


@one_program(None)
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Logarithm of the density at x [n] or [n, ...], or with the last component left out.

    >>> abs(logpdf(jnp.array([0.25, 0.75]), jnp.ones(2))) < 1e-6
    Array(True, dtype=bool)
    """
    x, alpha = _promoted("dirichlet.logpdf", x, alpha)
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    if x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, 1 - jnp.sum(x, axis=0, keepdims=True)])
    norm = jnp.sum(gammaln(alpha)) - gammaln(jnp.sum(alpha))
    weights = alpha.reshape(alpha.shape + (1,) * (x.ndim - 1))
    value = jnp.sum(xlogy(weights - 1, x), axis=0) - norm
    tolerance = 1e-6 if x.dtype == np.float32 else 1e-12
    inside = jnp.all((x >= 0) & (x <= 1), axis=0) & (jnp.abs(jnp.sum(x, axis=0) - 1) < tolerance)
    return jnp.where(inside, value, -np.inf)


@one_program(None)
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Density at x.

    >>> round(float(pdf(jnp.array([0.25, 0.75]), jnp.ones(2))), 3)
    1.0
    """
    return jnp.exp(logpdf(x, alpha))


def _promoted(name: str, *args: ArrayLike) -> list[Array]:
    """To one inexact dtype, without bringing the ranks together."""
    check_arraylike(name, *args)
    return [jnp.asarray(x) for x in promote_dtypes_inexact(*args)]
