"""Sets of values: unique and its array API forms, union1d, intersect1d, setdiff1d, setxor1d, isin.

Results have as many elements as there are distinct values: outside jit the sizes are computed,
under jit give `size=`; surplus places hold `fill_value`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import reductions, util
from pyjax.numpy.chosen import is_in_host_memory
from pyjax.numpy.indexing_basic import take_rows
from pyjax.numpy.manipulation import moveaxis, ravel
from pyjax.numpy.searching import nonzero, searchsorted
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex, is_inexact

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

# Masks of rows of which less than such a part is left out are quicker than their places.
_FEW_LEFT_OUT = 50


class UniqueAllResult(NamedTuple):
    """Result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


@partial(jit, static_argnames=("equal_nan", "with_order"))
def _sorted_rows(slices: Any, equal_nan: bool, with_order: bool) -> tuple[Any, Any, Any]:
    """Slices along the first axis as rows, in order; where each came from (None if not asked for),
    and which ones start a run of equal rows."""
    n, width = slices.shape[0], util.size_of(slices.shape[1:])
    rows = lax.reshape(slices, (n, width))
    order = None
    if width == 1 and not with_order:
        rows = lax.sort(rows, dimension=0)
    else:
        places = lax.iota(np.int32, n)
        columns = [lax.index_in_dim(rows, j, 1, keepdims=False) for j in range(width)]
        *_, order = lax.sort((*columns, places), num_keys=width)
        rows = take_rows(rows, order, 0)
    before, after = lax.slice_in_dim(rows, 0, n - 1), lax.slice_in_dim(rows, 1, n)
    differs = lax.ne(before, after)
    if equal_nan and is_inexact(rows):
        differs = differs & ~((before != before) & (after != after))
    differs = lax.squeeze(differs, (1,)) if width == 1 else lax.reduce_or(differs, (1,))
    starts = lax.pad(differs, np.True_, [(1, 0, 0)])
    return rows, order, starts


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """Distinct values of the flattened `ar` in order, or distinct slices along `axis`.

    Args:
      return_index: also the first place of each; return_inverse: also the places in the result
        that rebuild `ar`; return_counts: also how often each occurs.
      size: length of the result, needed under jit; padded with `fill_value` (the smallest value by
        default), or cut.
    >>> unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    util.check_arraylike("unique", ar)
    x = util.as_array(ar)
    if is_complex(x):  # all that are NaN in one of their parts are one value
        x = select_where(lax.ne(x, x), np.asarray(np.nan).astype(x.dtype), x)
    flatten = axis is None
    original = x.shape
    if flatten:
        x, axis = ravel(x), 0
    axis = util.canonicalize_axis(axis, x.ndim)
    moved = moveaxis(x, axis, 0)
    n = moved.shape[0]
    width = util.size_of(moved.shape[1:])
    wanted = (return_index, return_inverse, return_counts)
    if n == 0 or width == 0:
        return _unique_empty(
            x,
            moved,
            axis,
            original if flatten else (n,),
            size,
            fill_value,
            wanted,
        )
    if size is None:  # what is computed from it may be on every device, or not
        util.check_readable(x)
    with_order = return_index or return_inverse
    ordered, order, starts = _sorted_rows(moved, bool(equal_nan), with_order)
    shapes = (moved.shape[1:], original if flatten else (n,))
    if size is None:
        concrete = util.concrete_or_none(starts)
        if concrete is None:
            raise util.concretization_error(
                ar,
                "The size argument of jnp.unique must be given under jit: the number of "
                "distinct values depends on the data. Use jnp.unique(x, size=n, fill_value=...).",
            )
        if is_in_host_memory(ordered):
            return _unique_in_host_memory(ordered, order, concrete, axis, shapes, wanted)
        size = int(np.count_nonzero(concrete))
    size = util.static_int(size, "size")
    (bounds,) = nonzero(starts, size=size + 1, fill_value=n)
    first = lax.slice_in_dim(bounds, 0, size)
    count = reductions.sum(starts, dtype=np.int32)
    valid = lax.iota(np.int32, size) < count
    clipped = lax.min(first, lax.full_like(first, n - 1))
    values = take_rows(ordered, clipped, 0)
    fill = _fill_rows(fill_value, ordered, moved.shape[1:], width)
    mask = lax.broadcast_in_dim(valid, values.shape, (0,))
    values = lax.select(mask, values, lax.broadcast_in_dim(fill, values.shape, (1,)))
    values = moveaxis(lax.reshape(values, (size, *shapes[0])), 0, axis)
    index_type = dtypes.canonicalize_dtype(np.int64)
    out: list[Any] = [values]
    if return_index:
        # Runs are stable, so the first element of a run is its first occurrence.
        found = util.convert(take_rows(order, clipped, 0), index_type)
        out.append(select_where(valid, found, found[0]) if size else found)
    if return_inverse:
        out.append(lax.reshape(_inverse(order, starts), shapes[1]))
    if return_counts:
        ends = lax.slice_in_dim(bounds, 1, size + 1)
        out.append(util.convert(lax.sub(ends, first), index_type))
    return out[0] if len(out) == 1 else tuple(out)


@jit
def _inverse(order: Any, starts: Any) -> Any:
    """Of each row before the sort, how many runs begin before its own."""
    index_type = dtypes.canonicalize_dtype(np.int64)
    return lax.scatter(
        lax.full(order.shape, 0, index_type),
        lax.expand_dims(order, (1,)),
        lax.cumsum(util.convert(starts, index_type), 0) - 1,
        lax.ScatterDimensionNumbers((), (0,), (0,)),
        unique_indices=True,
    )


def _unique_in_host_memory(
    ordered: Any, order: Any, starts: np.ndarray, axis: int, shapes: Any, wanted: Any
) -> Any:
    """The results of `unique` from sorted rows. Their sizes depend on values: a program for each
    size would be compiled."""
    row_shape, inverse_shape = shapes
    index_type = dtypes.canonicalize_dtype(np.int64)
    rows = np.asarray(ordered)
    return_index, return_inverse, return_counts = wanted
    # A mask takes several times as long as places, but for what is almost everything.
    by_mask = len(starts) - np.count_nonzero(starts) < len(starts) // _FEW_LEFT_OUT
    if return_index or return_counts or not by_mask:
        first = np.flatnonzero(starts)
    chosen = starts if by_mask else first
    values = rows.reshape(-1)[chosen] if rows.shape[1] == 1 else rows[chosen]
    out = [util.array_over(np.moveaxis(values.reshape(-1, *row_shape), 0, axis))]
    if return_index:
        out.append(util.array_over(np.asarray(order)[first].astype(index_type, copy=False)))
    if return_inverse:
        out.append(lax.reshape(_inverse(order, starts), inverse_shape))
    if return_counts:
        counts = np.diff(first, append=len(starts))
        out.append(util.array_over(counts.astype(index_type, copy=False)))
    return out[0] if len(out) == 1 else tuple(out)


def _fill_rows(fill_value: Any, ordered: Any, shape: tuple[int, ...], width: int) -> Any:
    if fill_value is None:
        return lax.index_in_dim(ordered, 0, 0, keepdims=False)
    fill = util.convert(fill_value, ordered.dtype)
    return lax.reshape(util.broadcast_array(fill, shape), (width,))


def _unique_empty(
    x: Any,
    moved: Any,
    axis: int,
    inverse_shape: Any,
    size: Any,
    fill_value: Any,
    wanted: tuple[bool, ...],
) -> Any:
    count = size if size is not None else (1 if moved.shape[0] else 0)
    if size and not moved.shape[0] and fill_value is None:
        raise new_error(
            ValueError,
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value "
            "must be specified",
        )
    index_type = dtypes.canonicalize_dtype(np.int64)
    shape = (count, *moved.shape[1:])
    fill = 0 if fill_value is None else fill_value
    values = moveaxis(util.broadcast_array(util.convert(fill, x.dtype), shape), 0, axis)
    counts = np.zeros(count, index_type)
    counts[:1] = moved.shape[0]  # slices without elements are all equal
    found = (np.zeros_like(counts), np.zeros(inverse_shape, index_type), counts)
    extra = [util.as_array(x) for x, flag in zip(found, wanted, strict=True) if flag]
    return (values, *extra) if extra else values


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """Distinct values, first places, inverse and counts; every nan is distinct.

    >>> jnp.unique_all(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    util.check_arraylike("unique_all", x)
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """Distinct values and how often each occurs.

    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    util.check_arraylike("unique_counts", x)
    return UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """Distinct values and the places that rebuild `x` from them.

    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    util.check_arraylike("unique_inverse", x)
    return UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Distinct values.

    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    util.check_arraylike("unique_values", x)
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ---------------------------------------------------------------------------------------------
# Operations on two sets


def _two(name: str, ar1: Any, ar2: Any) -> tuple[Any, Any]:
    util.check_arraylike(name, ar1, ar2)
    a, b = util.promote_dtypes(ar1, ar2)
    return util.as_array(a), util.as_array(b)


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Which elements of `element` occur in `test_elements`.

    `method`: 'binary_search' sorts the test elements, 'compare_all' compares all pairs, 'sort'
    and 'auto' choose.

    >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([2, 9]))
    Array([False,  True, False], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise new_error(
            ValueError,
            f"isin: method {method!r} is not one of 'auto', 'compare_all', 'binary_search', "
            "'sort'.",
        )
    a, b = _two("isin", element, test_elements)
    flat = ravel(b)
    if a.size == 0 or flat.size == 0:
        return lax.full(a.shape, bool(invert), np.dtype(np.bool_))
    # Sorting wants whole rows; over mesh axes of type Explicit comparisons want none.
    is_split = a.aval.split is not None or flat.aval.split is not None
    compares = method == "compare_all" or (method == "auto" and (flat.size <= 16 or is_split))
    found = _isin(a, flat, compares)
    found = util.convert(found, np.dtype(np.bool_))  # of two Python scalars it would be weak
    return lax.bitwise_not(found) if invert else found


@partial(jit, static_argnames=("compare_all",))
def _isin(a: Any, flat: Any, compare_all: bool) -> Any:
    if compare_all:
        wide = lax.expand_dims(a, (a.ndim,))
        return lax.reduce_or(
            lax.eq(
                util.broadcast_array(wide, (*a.shape, flat.size)),
                util.broadcast_array(flat, (*a.shape, flat.size)),
            ),
            (a.ndim,),
        )
    ordered = lax.sort(flat)
    place = searchsorted(ordered, a)
    place = lax.min(place, lax.full_like(place, flat.size - 1))
    return lax.eq(take_rows(ordered, place, 0), a)


def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """Distinct values of both arrays, in order.

    >>> jnp.union1d(jnp.array([1, 3]), jnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    a, b = _two("union1d", ar1, ar2)
    return unique(lax.concatenate([ravel(a), ravel(b)], 0), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Distinct values of `ar1` that are not in `ar2`, in order, in the dtype of `ar1`.

    >>> jnp.setdiff1d(jnp.array([1, 2, 3]), jnp.array([2]))
    Array([1, 3], dtype=int32)
    """
    a, b = util.ensure_arraylike("setdiff1d", ar1, ar2)
    a = ravel(a)
    if size is None:
        a = a if assume_unique else unique(a)
        (places,) = nonzero(isin(a, b, invert=True))
        return take_rows(a, places, 0)
    fill = util.convert(0 if fill_value is None else fill_value, a.dtype, dtypes.is_weakly_typed(a))
    if not a.size:
        return lax.broadcast(fill, (size,))
    if assume_unique:
        keep = isin(a, b, invert=True)
    else:
        rows, _, starts = _sorted_rows(a, True, False)
        a = lax.squeeze(rows, (1,))
        keep = starts & isin(a, b, invert=True)
    return _kept(a, keep, size, fill)


def _kept(a: Any, keep: Any, size: int, fill: Any) -> Any:
    (places,) = nonzero(keep, size=size, fill_value=a.shape[0])
    inside = places < a.shape[0]
    values = take_rows(a, lax.min(places, lax.full_like(places, a.shape[0] - 1)), 0)
    return select_where(inside, values, fill)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Distinct values in both arrays, in order; with `return_indices` also where in each.

    >>> jnp.intersect1d(jnp.array([1, 2, 3]), jnp.array([2, 3, 4]))
    Array([2, 3], dtype=int32)
    """
    a, b = _two("intersect1d", ar1, ar2)
    a, b = ravel(a), ravel(b)
    if size is None:
        values, first = unique(a, return_index=True)
        other, second = unique(b, return_index=True)
        (places,) = nonzero(isin(values, other))
        common = take_rows(values, places, 0)
        if not return_indices:
            return common
        where_b = searchsorted(other, common) if other.size else places
        return common, take_rows(first, places, 0), take_rows(second, where_b, 0)
    if not a.size or not b.size:
        fill = 0 if fill_value is None else fill_value
        empty = lax.full((size,), 0, a.dtype) + util.convert(fill, a.dtype)
        places = lax.full((size,), 0, dtypes.canonicalize_dtype(np.int64))
        return (empty, places + a.size, places + b.size) if return_indices else empty
    rows, order, starts = _sorted_rows(a, True, True)
    in_order = lax.squeeze(rows, (1,))
    keep = starts & isin(in_order, b)
    fill = _kept(in_order, keep, 1, np.zeros((), a.dtype))[0]  # the least, if there is any
    if fill_value is not None:
        fill = util.convert(fill_value, a.dtype)
    common = _kept(in_order, keep, size, fill)
    if not return_indices:
        return common
    index_type = dtypes.canonicalize_dtype(np.int64)
    (places,) = nonzero(keep, size=size, fill_value=a.size)
    inside = places < a.size
    from_a = take_rows(order, lax.min(places, lax.full_like(places, a.size - 1)), 0)
    b_sorted, b_order = lax.sort((b, lax.iota(np.int32, b.size)), num_keys=1)
    from_b = take_rows(b_order, lax.min(searchsorted(b_sorted, common), np.int32(b.size - 1)), 0)
    return (
        common,
        select_where(inside, util.convert(from_a, index_type), a.size),
        select_where(inside, util.convert(from_b, index_type), b.size),
    )


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array:
    """Distinct values in exactly one of the arrays, in order.

    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    a, b = _two("setxor1d", ar1, ar2)
    a, b = ravel(a), ravel(b)
    if size is None:
        both = lax.concatenate([unique(a), unique(b)], 0)
        # No NaN equals another, so that one in each array stays twice.
        values, counts = unique(both, return_counts=True, equal_nan=False)
        (places,) = nonzero(counts == 1)
        return take_rows(values, places, 0)
    both = lax.concatenate([a, b], 0)
    if not both.size:
        return lax.full((size,), 0 if fill_value is None else fill_value, both.dtype)
    rows, _, starts = _sorted_rows(both, True, False)
    in_order = lax.squeeze(rows, (1,))
    keep = starts & (isin(in_order, a) ^ isin(in_order, b))
    fill = _kept(in_order, keep, 1, np.zeros((), a.dtype))[0]  # the least, if there is any
    if fill_value is not None:
        fill = util.convert(fill_value, a.dtype)
    return _kept(in_order, keep, size, fill)
