"""Sorting: sort, argsort, lexsort, partition, median-free helpers for order statistics."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.source_info import warn_user
from pyjax.lax.creation import iota_like
from pyjax.lax.sort import partition as lax_partition
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.ufuncs import is_complex

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]


def _check_kind(name: str, kind: Any, order: Any) -> None:
    if order is not None:
        raise new_error(
            NotImplementedError, f"jnp.{name}: 'order' is for structured arrays; use lexsort."
        )
    if kind is not None:
        warn_user(f"The 'kind' argument to {name} has no effect; use 'stable' instead.")


def _axis_or_flat(x: Any, axis: Any) -> tuple[Any, int]:
    if axis is None:
        return lax.reshape(x, (x.size,)), 0
    return x, util.canonicalize_axis(axis, x.ndim)


@one_program()
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """`a` sorted along `axis` (flattened first if None); nans last.

    Complex numbers are ordered by real, then imaginary part.
    >>> sort(np.array([3, 1, 2])).tolist()
    [1, 2, 3]
    """
    x = util.ensure_arraylike("sort", a)
    _check_kind("sort", kind, order)
    x, dim = _axis_or_flat(x, axis)
    out = lax.sort(x, dimension=dim, is_stable=bool(stable))
    return lax.rev(out, (dim,)) if descending else out


@one_program()
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """Indices that sort `a` along `axis`; equal elements keep their order.

    >>> argsort(np.array([3, 1, 2])).tolist()
    [1, 2, 0]
    """
    x = util.ensure_arraylike("argsort", a)
    _check_kind("argsort", kind, order)
    x, dim = _axis_or_flat(x, axis)
    size = x.shape[dim]
    index_type = util.check_user_dtype(dtype, "argsort")
    if index_type is None:
        wide = size >= 2**31
        index_type = dtypes.canonicalize_dtype(np.int64) if wide else np.dtype(np.int32)
        index_type = dtypes.canonicalize_dtype(np.int64)
    return _argsort(x, dim, index_type, bool(stable), bool(descending))


@partial(jit, static_argnums=(1, 2, 3, 4))
def _argsort(x: ArrayLike, dim: int, index_type: Any, stable: bool, descending: bool) -> Array:
    places = iota_like(x, index_type, dim)
    if descending:
        # Reversed before and after, so that equal elements keep their order here too.
        x, places = lax.rev(x, (dim,)), lax.rev(places, (dim,))
    _, out = lax.sort((x, places), dimension=dim, is_stable=stable, num_keys=1)
    return lax.rev(out, (dim,)) if descending else out


def lexsort(keys: Any, axis: int = -1) -> Array:
    """Indices that sort by several keys, the *last* key first.

    Args:
      keys: sequence of arrays of one shape, or an array whose rows are the keys.
    >>> lexsort((np.array([2, 1, 1]), np.array([0, 1, 0]))).tolist()
    [2, 0, 1]
    """
    if not hasattr(keys, "__iter__"):
        raise new_error(
            TypeError, f"lexsort requires a sequence of arrays, got {type(keys).__name__}."
        )
    keys = tuple(keys)
    if not keys:
        raise new_error(TypeError, "need sequence of keys with len > 0 in lexsort")
    util.check_arraylike("lexsort", *keys)
    arrays = [util.as_array(k) for k in keys]
    if len({k.shape for k in arrays}) > 1:
        raise new_error(
            ValueError, f"all keys need to be the same shape, got {[k.shape for k in arrays]}"
        )
    if arrays[0].ndim == 0:
        return lax.full((), 0, dtypes.canonicalize_dtype(np.int64))
    dim = util.canonicalize_axis(axis, arrays[0].ndim)
    places = iota_like(arrays[0], dtypes.canonicalize_dtype(np.int64), dim)
    operands = (*arrays[::-1], places)
    return lax.sort(operands, dimension=dim, num_keys=len(arrays))[-1]


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """`a` with its kth smallest along `axis` in place, no larger ones before, no smaller after.

    >>> jnp.partition(jnp.array([9, 3, 7, 1]), 1)[1]
    Array(3, dtype=int32)
    """
    a = util.ensure_arraylike("partition", a)
    kth, axis = _check_partition("partition", a, kth, axis)
    return _partition(a, axis, kth)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Indices that would partition `a` around its kth smallest element (see `partition`).

    >>> sorted(jnp.argpartition(jnp.array([9, 3, 7, 1]), 1)[:2].tolist())
    [1, 3]
    """
    a = util.ensure_arraylike("argpartition", a)
    kth, axis = _check_partition("argpartition", a, kth, axis)
    return _argpartition(a, axis, kth)


@partial(jit, static_argnums=(1, 2))
def _partition(a: ArrayLike, axis: int, kth: int) -> Array:
    return lax_partition((a,), axis, kth)[0]


@partial(jit, static_argnums=(1, 2))
def _argpartition(a: ArrayLike, axis: int, kth: int) -> Array:
    places = iota_like(a, dtypes.canonicalize_dtype(np.int64), axis)
    return lax_partition((a, places), axis, kth)[1]


def _check_partition(name: str, a: Any, kth: int, axis: int) -> tuple[int, int]:
    if is_complex(a):
        raise new_error(
            NotImplementedError, f"jnp.{name} for complex dtype is not implemented; use jnp.sort."
        )
    axis = util.canonicalize_axis(axis, a.ndim)
    kth, n = util.static_int(kth, "kth"), a.shape[axis]
    if not -n <= kth < n:
        raise new_error(
            ValueError,
            f"kth {kth} is out of bounds for axis {axis} with size {n}",
            "It is the place, in order, of one of the elements; -1 is that of the largest.",
        )
    return kth % n, axis


def sort_complex(a: ArrayLike) -> Array:
    """`a` sorted along its last axis, as a complex array.

    >>> jnp.sort_complex(jnp.array([2 + 1j, 1 + 5j]))
    Array([1.+5.j, 2.+1.j], dtype=complex64)
    """
    a = util.ensure_arraylike("sort_complex", a)
    return sort(util.convert(a, dtypes.to_complex_dtype(a.dtype)), axis=0 if a.ndim == 1 else -1)


@partial(jit, static_argnames=("axis",))
def ordered(x: ArrayLike, axis: int) -> Array:
    """`x` sorted along `axis`, compiled once per shape: the start of order statistics."""
    return lax.sort(x, dimension=axis)
