"""Pytrees as one vector."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.core.pytree import tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All leaves of a pytree as one vector, and the function that undoes it.

    Args:
      pytree: of arrays and numbers; mixed dtypes are promoted to a common one. Leaves of one
        dtype keep their weak types.
    Returns:
      (vector, unravel): `unravel(vector)` has the leaves' shapes and dtypes again.
    Raises (from unravel):
      ValueError: a vector of another length.  TypeError: of another dtype.

    >>> vector, unravel = ravel_pytree({"a": jnp.ones(2), "b": 3.0})
    >>> vector.tolist()
    [1.0, 1.0, 3.0]
    """
    leaves, tree = tree_flatten(pytree)
    if not leaves:
        empty = jnp.zeros(0)
        return empty, lambda vector: tree_unflatten(tree, [])
    kinds = [dtypes.dtype(leaf) for leaf in leaves]
    shapes = [np.shape(leaf) for leaf in leaves]
    common = dtypes.result_type(*kinds)
    mixed = any(kind != common for kind in kinds)
    flat = [jnp.ravel(jnp.asarray(leaf)) for leaf in leaves]
    vector = jnp.concatenate([x.astype(common) for x in flat] if mixed else flat)
    stops = np.cumsum([int(np.prod(s)) for s in shapes]).tolist()

    def unravel(vector: Any) -> Any:
        if np.shape(vector) != (stops[-1],):
            raise new_error(
                ValueError,
                f"the vector has shape {np.shape(vector)}, but the pytree has {stops[-1]} elements",
            )
        if dtypes.dtype(vector) != common:
            raise new_error(
                TypeError,
                f"the vector has dtype {dtypes.dtype(vector)}, but ravel_pytree gave {common}",
            )
        parts = jnp.split(jnp.asarray(vector), stops[:-1])
        rebuilt = [p.reshape(s) for p, s in zip(parts, shapes)]
        if mixed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # complex to real drops a zero imaginary part
                rebuilt = [p.astype(k) for p, k in zip(rebuilt, kinds)]
        return tree_unflatten(tree, rebuilt)

    return vector, unravel
