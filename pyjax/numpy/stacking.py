"""Joining and splitting arrays: concatenate, stack, block, split, insert, delete, append."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail, new_error
from pyjax.core.trace import Tracer
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.indexing_basic import take_rows
from pyjax.numpy.manipulation import atleast_1d, atleast_2d, atleast_3d, moveaxis, ravel

__all__ = [
    "append",
    "array_split",
    "block",
    "column_stack",
    "concat",
    "concatenate",
    "delete",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "insert",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]


def _items(name: str, arrays: Any) -> list[Any]:
    """The arrays to join: a sequence of arrays, or one array split along its first axis."""
    if isinstance(arrays, (np.ndarray,)) or util.is_array(arrays):
        if np.ndim(arrays) == 0:
            raise new_error(ValueError, f"jnp.{name}: a 0-d array cannot be iterated over.")
        return list(unstack(arrays))
    if not isinstance(arrays, (list, tuple)):
        raise new_error(
            TypeError,
            f"jnp.{name} requires a sequence of arrays (list, tuple or array), got "
            f"{type(arrays).__name__}. Fix: wrap it in list(...).",
        )
    util.check_arraylike(name, *arrays)
    return list(arrays)


@one_program()
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """Arrays joined along an existing axis (flattened first if None).

    Args:
      arrays: sequence of arrays that agree in all axes but `axis`; or an array, whose first axis
        is the sequence.
      dtype: default: the promoted dtype.
    >>> concatenate([np.array([1]), np.array([2, 3])]).tolist()
    [1, 2, 3]
    """
    if (
        not isinstance(arrays, (list, tuple))
        and not isinstance(arrays, np.ndarray)
        and (not util.is_array(arrays))
    ):
        raise new_error(
            TypeError,
            "The first argument to jnp.concatenate must be a sequence of arrays, got "
            f"{type(arrays).__name__}.",
        )
    items = _items("concatenate", arrays)
    if not items:
        raise new_error(ValueError, "Need at least one array to concatenate.")
    if axis is None:
        items, axis = [ravel(x) for x in items], 0
    first = np.ndim(items[0])
    if first == 0:
        raise new_error(
            ValueError, "Zero-dimensional arrays cannot be concatenated; use jnp.stack."
        )
    if any(np.ndim(x) != first for x in items):
        shapes = ", ".join(str(np.shape(x)) for x in items)
        raise new_error(
            TypeError,
            f"jnp.concatenate: all arrays must have the same rank, got {shapes}.",
            "It joins along an axis that all of them have; zero-dimensional ones have none.",
            "Give them an axis, x[None], or use jnp.stack or jnp.append.",
        )
    axis = util.canonicalize_axis(axis, first)
    if dtype is None:
        items = [util.as_array(x) for x in util.promote_dtypes(*items)]
    else:
        dtype = util.check_user_dtype(dtype, "concatenate")
        items = [util.convert(x, dtype) for x in items]
    return lax.concatenate(items, axis) if len(items) > 1 else items[0]


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """Same as `concatenate` (array API name).

    >>> jnp.concat([jnp.arange(2), jnp.arange(3)])
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    return concatenate(arrays, axis)


@one_program()
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Arrays of one shape joined along a new axis.

    >>> stack([np.array([1, 2]), np.array([3, 4])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    util.reject_out("stack", out)
    items = _items("stack", arrays)
    if not items:
        raise new_error(ValueError, "Need at least one array to stack.")
    first = np.shape(items[0])
    for x in items:
        if np.shape(x) != first:
            shapes = ", ".join(str(np.shape(y)) for y in items)
            raise new_error(
                ValueError,
                f"All input arrays must have the same shape, got {shapes}.",
                "jnp.stack puts them next to each other along a new axis.",
                "Pad them, or join them along an axis they have: jnp.concatenate.",
            )
    axis = util.canonicalize_axis(axis, len(first) + 1)
    return concatenate([lax.expand_dims(util.as_array(x), (axis,)) for x in items], axis, dtype)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of `x` along `axis`, without it.

    >>> [row.tolist() for row in jnp.unstack(jnp.arange(4).reshape(2, 2))]
    [[0, 1], [2, 3]]
    """
    x = util.ensure_arraylike("unstack", x)
    if x.ndim == 0:
        raise new_error(
            ValueError, "Unstack requires arrays with rank > 0, however a scalar array was passed."
        )
    axis = util.canonicalize_axis(axis, x.ndim)
    return tuple(lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis]))


def _joined(name: str, tup: Any, widen: Any, axis: Any, dtype: Any) -> Any:
    arrays = [widen(x) for x in _items(name, tup)]
    axis = axis(arrays) if callable(axis) else axis
    return concatenate(arrays, axis, dtype)


@one_program()
def vstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays (as rows if 1-d) joined along axis 0.

    >>> jnp.vstack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return _joined("vstack", tup, atleast_2d, 0, dtype)


@one_program()
def hstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along axis 1 (axis 0 if 1-d).

    >>> jnp.hstack([jnp.arange(2), jnp.arange(3)])
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    return _joined("hstack", tup, atleast_1d, lambda a: 0 if a[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Arrays joined along axis 2.

    >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
    (1, 2, 2)
    """
    return _joined("dstack", tup, atleast_3d, 2, dtype)


def column_stack(tup: Any) -> Array:
    """1-d arrays as the columns of a matrix; 2-d arrays joined along axis 1.

    >>> jnp.column_stack([jnp.arange(2), jnp.array([5, 6])])
    Array([[0, 5],
           [1, 6]], dtype=int32)
    """

    def widen(x: Any) -> Any:
        x = util.as_array(x)
        return lax.reshape(x, (x.size, 1)) if x.ndim < 2 else x

    return _joined("column_stack", tup, widen, 1, None)


def block(arrays: Any) -> Array:
    """An array assembled from nested lists of blocks, innermost along the last axis.

    >>> block([[np.ones((1, 1)), np.zeros((1, 2))]]).tolist()
    [[1.0, 0.0, 0.0]]
    """
    depth = _list_depth(arrays)
    leaves = _leaves(arrays)
    util.check_arraylike("block", *leaves)
    rank = max([depth, *(np.ndim(x) for x in leaves)])
    return _block(arrays, 1, depth, rank)


def _list_depth(x: Any) -> int:
    if isinstance(x, tuple):
        raise new_error(
            ValueError, "jnp.block does not allow tuples, only nested lists of arrays; got a tuple."
        )
    if not isinstance(x, list):
        return 0
    if not x:
        raise new_error(ValueError, "jnp.block does not allow empty list arguments.")
    depths = {_list_depth(item) for item in x}
    if len(depths) > 1:
        raise new_error(ValueError, "List depths are mismatched in jnp.block.")
    return 1 + depths.pop()


def _leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in _leaves(item)] if isinstance(x, list) else [x]


def _block(x: Any, level: int, depth: int, rank: int) -> Any:
    if isinstance(x, list):
        parts = [_block(item, level + 1, depth, rank) for item in x]
        return concatenate(parts, axis=rank - depth + level - 1)
    x = util.as_array(x)
    return lax.reshape(x, (1,) * (rank - x.ndim) + x.shape)


# ---------------------------------------------------------------------------------------------
# Splitting


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`ary` cut along `axis` into equal sections (an int), or at the given places.

    >>> [p.tolist() for p in split(np.arange(4), [1, 3])]
    [[0], [1, 2], [3]]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`split` that allows a number of sections that does not divide the size.

    >>> [part.tolist() for part in jnp.array_split(jnp.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def _split(name: str, ary: Any, where: Any, axis: int) -> list[Array]:
    x = util.ensure_arraylike(name, ary)
    axis = util.canonicalize_axis(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(where, (tuple, list)) or np.ndim(where) > 0:
        if isinstance(where, Tracer):
            raise util.concretization_error(
                where, f"in jnp.{name} argument 1: the places to cut at must be static."
            )
        cuts = [util.static_int(i, "indices") for i in where]
        cuts = [min(max(i + n if i < 0 else i, 0), n) for i in cuts]
        bounds = [0, *cuts, n]
    else:
        if isinstance(where, Tracer):
            raise util.concretization_error(
                where, f"in jnp.{name} argument 1: the number of sections must be static."
            )
        sections = util.static_int(where, "indices_or_sections")
        if sections <= 0:
            raise new_error(
                ValueError, f"number of sections must be larger than 0, got {sections}."
            )
        size, rest = divmod(n, sections)
        if rest and name != "array_split":
            raise new_error(
                ValueError,
                f"array split does not result in an equal division: rest is {rest}",
                f"Axis {axis} has size {n}, which is to be cut into {sections} sections.",
                "jnp.array_split makes sections whose sizes differ by one.",
            )
        sizes = [size + 1] * rest + [size] * (sections - rest)
        bounds = [0, *np.cumsum(sizes).tolist()]
    return [
        lax.slice_in_dim(x, start, max(start, stop), axis=axis) for start, stop in pairwise(bounds)
    ]


def _axis_split(name: str, doc: str, axis: int, minimum: int) -> Any:
    @util.named(name, doc)
    def fn(ary: Any, indices_or_sections: Any) -> list[Array]:
        x = util.ensure_arraylike(name, ary)
        if x.ndim < minimum:
            raise new_error(
                ValueError, f"jnp.{name} only works on arrays of {minimum} or more dimensions."
            )
        along = 0 if name == "hsplit" and x.ndim == 1 else axis
        return _split(name, x, indices_or_sections, along)

    return fn


vsplit = _axis_split("vsplit", "`split` along axis 0.", 0, 2)
hsplit = _axis_split("hsplit", "`split` along axis 1 (axis 0 if 1-d).", 1, 1)
dsplit = _axis_split("dsplit", "`split` along axis 2.", 2, 3)


# ---------------------------------------------------------------------------------------------
# Adding and removing elements


def append(arr: ArrayLike, values: Any, axis: int | None = None) -> Array:
    """`values` joined after `arr` along `axis` (both flattened by default).

    >>> jnp.append(jnp.array([1, 2]), jnp.array([3]))
    Array([1, 2, 3], dtype=int32)
    """
    util.check_arraylike("append", arr, values)
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def _resolve_axis(name: str, arr: Any, axis: int | None) -> tuple[Any, int]:
    if axis is None:
        return ravel(arr), 0
    x = util.ensure_arraylike(name, arr)
    return x, util.canonicalize_axis(axis, x.ndim)


def delete(
    arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """`arr` without the entries `obj` along `axis` (of the flattened array by default).

    Args:
      obj: int, slice, boolean mask (concrete), or integer array; array indices must be concrete
        unless `assume_unique_indices`, which makes the result's size static.
    >>> delete(np.array([1, 2, 3]), 1).tolist()
    [1, 3]
    """
    util.check_arraylike("delete", arr)
    x, axis = _resolve_axis("delete", arr, axis)
    n = x.shape[axis]
    if isinstance(obj, slice):
        drop = np.zeros(n, bool)
        drop[obj] = True
        return take_rows(x, np.flatnonzero(~drop).astype(np.int32), axis)
    if isinstance(obj, (list, tuple)):
        obj = np.asarray(obj) if len(obj) else np.zeros(0, np.int32)
    places = util.concrete_or_none(obj)
    if places is not None:
        drop = np.zeros(n, bool)
        if places.dtype == np.bool_ and places.shape != (n,):
            raise new_error(ValueError, f"np.delete(arr, obj): a mask must have shape ({n},).")
        if places.dtype != np.bool_:
            outside = (places < -n) | (places >= n)
            if outside.any():
                raise new_error(
                    IndexError,
                    f"index {places[outside][0] if places.ndim else places} is out of "
                    f"bounds for axis {axis} with size {n}",
                )
        drop[places] = True
        return take_rows(x, np.flatnonzero(~drop).astype(np.int32), axis)
    if np.ndim(obj) == 0:
        keep = lax.iota(np.int32, n - 1)
        obj = util.convert(obj, np.dtype(np.int32))
        obj = lax.select(obj < 0, obj + n, obj)
        return take_rows(x, keep + util.convert(keep >= obj, np.dtype(np.int32)), axis)
    if not assume_unique_indices or util.as_array(obj).dtype == np.bool_:
        raise util.concretization_error(
            obj,
            "jnp.delete: the size of the result depends on the traced `obj`. Pass "
            "assume_unique_indices=True for integer indices known to be distinct.",
        )
    dropped = util.convert(ravel(obj), np.dtype(np.int32))
    dropped = lax.sort(lax.select(dropped < 0, dropped + n, dropped))
    # The i-th index dropped shifts everything at or after it by one.
    dropped = dropped - lax.iota(np.int32, dropped.shape[0])
    keep = lax.iota(np.int32, n - dropped.shape[0])
    shift = lax.expand_dims(keep, (1,)) >= lax.expand_dims(dropped, (0,))
    keep = keep + lax.reduce_sum(util.convert(shift, np.dtype(np.int32)), (1,))
    return take_rows(x, keep, axis)


def _spread(values: Any, shape: tuple[int, ...]) -> Any:
    """The values that `insert` inserts, one for each new element."""
    fits = values.ndim <= len(shape) and all(
        n in (1, m) for n, m in zip(values.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        fail(
            ValueError,
            f"insert: values of shape {values.shape} do not fit the {shape} new elements.",
            "They are broadcast to one slice of the array for each position.",
            "give one value, one slice, or as many slices as positions.",
        )
    return util.broadcast_array(values, shape)


def insert(arr: ArrayLike, obj: Any, values: Any, axis: int | None = None) -> Array:
    """`arr`, of its own dtype, with `values` inserted before the positions `obj` along `axis`.

    >>> insert(np.array([1, 3]), 1, 2).tolist()
    [1, 2, 3]
    """
    util.check_arraylike("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    x, axis = _resolve_axis("insert", arr, axis)
    n = x.shape[axis]
    values = util.convert(util.as_array(values), x.dtype, dtypes.is_weakly_typed(x))
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n))
    places = util.as_array(obj)
    if places.dtype == np.bool_:
        concrete = util.concrete_or_none(places)
        if concrete is None:
            raise util.concretization_error(places, "jnp.insert: a boolean `obj` must be concrete.")
        places = util.as_array(np.flatnonzero(concrete))
    if not dtypes.issubdtype(places.dtype, np.integer):
        raise new_error(ValueError, f"obj must be an integer array; got {places.dtype}")
    scalar = places.ndim == 0
    values = lax.expand_dims(values, range(max(x.ndim - values.ndim, 0)))
    if scalar and values.ndim == x.ndim:  # the first axis of `values` counts the insertions
        values = moveaxis(values, 0, axis)
    places = util.convert(ravel(places), np.dtype(np.int32))
    places = lax.select(places < 0, places + n, places)
    places = lax.clamp(np.int32(0), places, np.int32(n))
    count = places.shape[0]
    if count == 1 and values.ndim == x.ndim:
        count = values.shape[axis]
        places = util.broadcast_array(places, (count,))
    values = _spread(values, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    # Sorted positions, and the order of the values for them; place i moves up by i.
    order = lax.iota(np.int32, count)
    places, order = lax.sort((places, order), num_keys=1)
    places = places + lax.iota(np.int32, count)
    values = take_rows(values, order, axis)
    total = n + count
    numbers = lax.full((total,), 0, np.dtype(np.int32))
    dims = lax.ScatterDimensionNumbers((), (0,), (0,))
    marks = lax.scatter_add(
        numbers, lax.expand_dims(places, (1,)), lax.full((count,), 1, np.dtype(np.int32)), dims
    )
    before = lax.cumsum(marks, 0)
    source = lax.select(marks > 0, n + before - 1, lax.iota(np.int32, total) - before)
    return take_rows(lax.concatenate([x, values], axis), source, axis)
