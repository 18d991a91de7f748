"""Interpolation on rectangular grids."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import pyjax.numpy as jnp

Array = Any


class RegularGridInterpolator:
    """Interpolates values on a grid whose axes need not be evenly spaced.

    Args:
      points: one increasing array per dimension.
      values: [n₁, …, n_d, ...].
      method: "linear" or "nearest".
      bounds_error: must be False (a compiled program cannot look at its values).
      fill_value: for points outside; None: extrapolate.
    Raises:
      ValueError: unknown method, or shapes that do not fit.
      NotImplementedError: bounds_error.

    >>> f = RegularGridInterpolator((jnp.array([0.0, 1.0]),), jnp.array([1.0, 3.0]))
    >>> f(jnp.array([[0.5]])).tolist()
    [2.0]
    """

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined; use 'linear' or 'nearest'")
        if bounds_error:
            raise NotImplementedError(
                "`bounds_error` takes no effect under jit: it must be False; use fill_value."
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.grid = tuple(jnp.asarray(p) for p in points)
        values = jnp.asarray(values)
        if not jnp.issubdtype(values.dtype, np.inexact):
            values = values.astype(jnp.result_type(float))
        if len(self.grid) > values.ndim:
            raise ValueError(
                f"there are {len(self.grid)} point arrays, but values has {values.ndim} dimensions"
            )
        for axis, p in enumerate(self.grid):
            if p.ndim != 1 or p.shape[0] != values.shape[axis]:
                raise ValueError(
                    f"points of dimension {axis} have shape {p.shape}, but values has "
                    f"{values.shape[axis]} there"
                )
        self.values = values

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """Values at points [..., d] (or a tuple of d arrays)."""
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise ValueError(f"method {method!r} is not defined; use 'linear' or 'nearest'")
        dimension = len(self.grid)
        if isinstance(xi, tuple):
            xi = jnp.stack(jnp.broadcast_arrays(*xi), axis=-1)
        xi = jnp.asarray(xi)
        if xi.ndim == 1 and dimension == 1:
            xi = xi[:, None]
        if xi.shape[-1] != dimension:
            raise ValueError(
                "the requested sample points xi have dimension "
                f"{xi.shape[-1]}, but this interpolator has dimension {dimension}"
            )
        flat = xi.reshape(-1, dimension)
        corners, outside = [], jnp.zeros(flat.shape[0], bool)
        for axis, grid in enumerate(self.grid):
            x = flat[:, axis]
            index = jnp.clip(jnp.searchsorted(grid, x) - 1, 0, grid.shape[0] - 2)
            fraction = (x - grid[index]) / (grid[index + 1] - grid[index])
            outside = outside | (x < grid[0]) | (x > grid[-1])
            if method == "linear":
                corners.append([(index, 1 - fraction), (index + 1, fraction)])
            else:
                corners.append([(jnp.where(fraction <= 0.5, index, index + 1), 1)])
        trailing = self.values.ndim - dimension
        result: Any = 0
        for corner in itertools.product(*corners):
            indices, weights = zip(*corner)
            weight = math.prod(weights[1:], start=weights[0])
            if method == "linear":
                weight = weight.reshape(-1, *(1,) * trailing)
            result = result + weight * self.values[tuple(indices)]
        if self.fill_value is not None:
            result = jnp.where(outside.reshape(-1, *(1,) * trailing), self.fill_value, result)
        return result.reshape(*xi.shape[:-1], *self.values.shape[dimension:])
