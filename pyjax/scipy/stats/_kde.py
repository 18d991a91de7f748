"""Kernel density estimation with Gaussian kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax, random
from pyjax.core.tree_util import register_pytree_node_class
from pyjax.nn.functions import logsumexp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy.special import ndtr

Array = Any
ArrayLike = Any


@one_program(None)
def _moments(dataset: Array, weights: Array) -> tuple[Array, ...]:
    """Weights of sum 1, the count of equal weights that they are worth, the data's covariance and
    its inverse."""
    weights = weights / jnp.sum(weights)
    covariance = jnp.atleast_2d(jnp.cov(dataset, bias=False, aweights=weights))
    return weights, 1 / jnp.sum(weights**2), covariance, jnp.linalg.inv(covariance)


@one_program(None)
def _log_density(points: Array, dataset: Array, weights: Array, inv_cov: Array) -> Array:
    whiten = jnp.linalg.cholesky(inv_cov)  # distances in units of the kernel
    data, at = whiten.T @ dataset, whiten.T @ points
    squares = jnp.sum((at[:, :, None] - data[:, None, :]) ** 2, axis=0)
    log_norm = len(dataset) / 2 * float(np.log(2 * np.pi))
    log_root = jnp.sum(jnp.log(jnp.diag(whiten))) - log_norm
    return logsumexp(-0.5 * squares, b=weights[None, :], axis=1) + log_root


@one_program(None)
def _density(points: Array, dataset: Array, weights: Array, inv_cov: Array) -> Array:
    return jnp.exp(_log_density(points, dataset, weights, inv_cov))


@register_pytree_node_class
class gaussian_kde:
    """A density estimate: a Gaussian around each data point.

    Args:
      dataset: [n] or [d, n], real.
      bw_method: "scott" (default), "silverman", a number, or a function of the estimate: the factor
        on the data's covariance.
      weights: [n], normalised to sum 1.
    Raises:
      ValueError: fewer than two points, or weights of another length.
    Attributes:
      dataset: [d, n].   weights: [n], of sum 1.   d, n: numbers of dimensions and points.
      neff: 1 / Σ weights².   covariance, inv_cov: [d, d], of the kernel, and its inverse.

    >>> kde = pyjax.scipy.stats.gaussian_kde(jnp.array([-1.0, 0.0, 1.0]))
    >>> kde(jnp.array([0.0, 100.0])).round(3)
    Array([0.318, 0.   ], dtype=float32)
    """

    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array
    neff: Array
    d: int
    n: int

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: str | Array | Callable[[Any], Array] | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        (data,) = promote_args_inexact("gaussian_kde", dataset)
        if jnp.iscomplexobj(data):
            raise NotImplementedError(
                "gaussian_kde does not support complex data: densities are of real points. Use "
                "real and imaginary parts as two rows."
            )
        self.dataset = jnp.atleast_2d(data)
        if self.dataset.size <= 1:
            raise ValueError("`dataset` input should have multiple elements.")
        self.d, self.n = self.dataset.shape
        if weights is None:
            weights = jnp.full(self.n, 1.0 / self.n, self.dataset.dtype)
        weights = jnp.atleast_1d(jnp.asarray(weights, self.dataset.dtype))
        if weights.shape != (self.n,):
            raise ValueError(f"`weights` must have shape ({self.n},), got {weights.shape}")
        self.weights, self.neff, data_cov, inverse = _moments(self.dataset, weights)
        rule = "scott" if bw_method is None else bw_method
        if isinstance(rule, str):
            rules = {"scott": self.scotts_factor, "silverman": self.silverman_factor}
            if rule not in rules:
                raise ValueError(
                    "`bw_method` should be 'scott', 'silverman', a scalar, or a callable; "
                    f"got {rule!r}"
                )
            factor = rules[rule]()
        else:
            factor = rule(self) if callable(rule) else rule
        self.factor = jnp.asarray(factor, self.dataset.dtype)
        self.covariance = data_cov * self.factor**2
        self.inv_cov = inverse / self.factor**2

    def scotts_factor(self) -> Array:
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Array:
        return (self.neff * (self.d + 2) / 4.0) ** (-1.0 / (self.d + 4))

    def tree_flatten(self) -> Any:
        return (
            (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov, self.factor),
            (self.d, self.n),
        )

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> gaussian_kde:
        kde = cls.__new__(cls)
        kde.d, kde.n = aux_data
        kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov, kde.factor = children
        return kde

    def _points(self, name: str, points: ArrayLike) -> Array:
        (points,) = promote_args_inexact(name, points)
        points = jnp.atleast_2d(points)
        if points.shape[0] != self.d:
            if points.shape[0] == 1 and points.shape[1] == self.d:
                return points.reshape(self.d, 1)
            raise ValueError(
                f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
            )
        return points

    def logpdf(self, x: ArrayLike) -> Array:
        """Logarithm of the density at points [d, m] (or [m] for one dimension)."""
        points = self._points("gaussian_kde.logpdf", x)
        return _log_density(points, self.dataset, self.weights, self.inv_cov)

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points [d, m] (or [m] for one dimension)."""
        points = self._points("gaussian_kde.evaluate", points)
        return _density(points, self.dataset, self.weights, self.inv_cov)

    __call__ = evaluate

    def pdf(self, x: ArrayLike) -> Array:
        """evaluate under its other name."""
        return self.evaluate(x)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal density."""
        mean = jnp.atleast_1d(jnp.asarray(mean, self.dataset.dtype))
        cov = jnp.atleast_2d(jnp.asarray(cov, self.dataset.dtype))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ValueError(f"mean and cov must have dimension {self.d}")
        return jnp.sum(self._overlap(self.dataset - mean[:, None], cov + self.covariance))

    def _overlap(self, differences: Array, cov: Array, weights: Array | None = None) -> Array:
        factor = jnp.linalg.cholesky(cov)
        y = lax.linalg.triangular_solve(factor, differences, left_side=True, lower=True)
        log_norm = self.d / 2 * float(np.log(2 * np.pi)) + jnp.sum(jnp.log(jnp.diag(factor)))
        weights = self.weights if weights is None else weights
        return weights * jnp.exp(-0.5 * jnp.sum(y**2, axis=0) - log_norm)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability of [low, high], in one dimension."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        spread = jnp.sqrt(self.covariance[0, 0])
        at = [(jnp.asarray(v, spread.dtype) - self.dataset[0]) / spread for v in (low, high)]
        return jnp.sum(self.weights * (ndtr(at[1]) - ndtr(at[0])))

    def integrate_box(
        self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None
    ) -> Array:
        """Not there, as in JAX: integrals over boxes of several dimensions have no closed form."""
        raise NotImplementedError(
            "only 1D box integrations are supported; use `integrate_box_1d`, or average "
            "`resample(key, shape)` over the box."
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not there, as in JAX: estimates do not change."""
        raise NotImplementedError(
            "dynamically changing the bandwidth method is not supported; make another estimate: "
            "gaussian_kde(dataset, bw_method, weights)."
        )

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product with another estimate."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        differences = (self.dataset[:, :, None] - other.dataset[:, None, :]).reshape(self.d, -1)
        weights = jnp.outer(self.weights, other.weights).ravel()
        return jnp.sum(self._overlap(differences, self.covariance + other.covariance, weights))

    def resample(self, key: Array, shape: tuple[int, ...] = ()) -> Array:
        """Random points, [d, *shape]."""
        key_point, key_noise = random.split(key)
        which = random.choice(key_point, self.n, shape=shape, p=self.weights)
        noise = random.multivariate_normal(
            key_noise, jnp.zeros(self.d, self.dataset.dtype), self.covariance, shape=shape
        )
        return self.dataset[:, which] + jnp.moveaxis(noise, -1, 0)
