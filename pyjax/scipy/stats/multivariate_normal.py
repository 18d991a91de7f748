"""The normal distribution of vectors (last axis)."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import check_arraylike, promote_dtypes_inexact

Array = Any
ArrayLike = Any


@one_program(3)
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Logarithm of the density at x [..., n] with mean [..., n] and covariance [..., n, n], or
    numbers.

    >>> round(float(logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 3)
    -1.838
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "allow_singular argument of multivariate_normal.logpdf: the density is from a Cholesky "
            "factor, which a singular matrix lacks. Add a small number to the diagonal."
        )
    check_arraylike("multivariate_normal.logpdf", x, mean, cov)
    x, mean, cov = (jnp.asarray(a) for a in promote_dtypes_inexact(x, mean, cov))
    log_2pi = float(np.log(2 * np.pi))
    if not mean.shape:
        return -0.5 * (x - mean) ** 2 / cov - 0.5 * (log_2pi + jnp.log(cov))
    n = mean.shape[-1]
    if not cov.shape:
        difference = jnp.subtract(*jnp.broadcast_arrays(x, mean))
        return -0.5 * (jnp.sum(difference**2, axis=-1) / cov + n * (log_2pi + jnp.log(cov)))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal.logpdf: incompatible shapes: mean {mean.shape}, cov {cov.shape}"
        )
    factor = jnp.linalg.cholesky(cov)
    difference = jnp.subtract(*jnp.broadcast_arrays(x, mean))
    log_root = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-1, axis2=-2)), axis=-1)
    if cov.ndim == 2:  # one factor for all
        rows = difference.reshape(-1, n)
        y = lax.linalg.triangular_solve(factor, rows, lower=True, transpose_a=True)
        y = y.reshape(difference.shape)
    else:
        batch = jnp.broadcast_shapes(difference.shape[:-1], cov.shape[:-2])
        factor = jnp.broadcast_to(factor, (*batch, n, n))
        column = jnp.broadcast_to(difference, (*batch, n))[..., None]
        y = lax.linalg.triangular_solve(factor, column, left_side=True, lower=True)[..., 0]
    return -0.5 * jnp.sum(y**2, axis=-1) - n / 2 * log_2pi - log_root


@one_program(None)
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Density at x.

    >>> round(float(pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))), 3)
    0.159
    """
    return jnp.exp(logpdf(x, mean, cov))
