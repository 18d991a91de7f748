"""Counting: bincount, histogram, histogram2d, histogramdd, histogram_bin_edges."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.lax.reshard import computed_as
from pyjax.numpy import reductions, util
from pyjax.numpy.array_constructors import array, asarray
from pyjax.numpy.calculus import diff
from pyjax.numpy.creation import linspace
from pyjax.numpy.eager import is_ready
from pyjax.numpy.index_update import update
from pyjax.numpy.manipulation import ravel
from pyjax.numpy.searching import searchsorted
from pyjax.numpy.selection import clip, select_where

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(
    x: ArrayLike,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Number of times (or sum of the weights with which) each nonnegative integer occurs in `x`.

    Args:
      length: static size of the result, needed under jit; larger values are dropped, negative
        ones count as zero.
    >>> bincount(np.array([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    util.check_arraylike("bincount", x)
    if out_sharding is not None:
        count = lambda x, weights: bincount(x, weights, minlength, length=length)
        return computed_as("bincount", out_sharding, count, x, weights)
    x = util.as_array(x)
    if x.dtype != np.bool_ and not dtypes.issubdtype(x.dtype, np.integer):
        raise new_error(
            TypeError, f"x argument to bincount must have an integer type; got {x.dtype}"
        )
    if x.ndim != 1:
        raise new_error(ValueError, f"only 1-dimensional input supported, got shape {x.shape}.")
    minlength = util.static_int(minlength, "minlength")
    if length is None:
        value = util.concrete_or_none(x)
        if value is None:
            raise util.concretization_error(
                x, "The length of jnp.bincount's result depends on values: pass length=n under jit."
            )
        length = max(minlength, int(value.max()) + 1 if value.size else 0)
    else:
        length = util.static_int(length, "length")
    if weights is None:
        weights = np.asarray(1, dtypes.canonicalize_dtype(np.int64))
    elif np.shape(weights) != x.shape:
        raise new_error(ValueError, "shape of weights must match shape of x.")
    weights = util.as_array(weights)
    sums = _sums_of_values if is_ready(x) and is_ready(weights) else _summed_by_value
    return sums(x, weights, length)


def _summed_by_value(x: Any, weights: Any, length: int) -> Any:
    """For each value below `length` the sum of the weights of its places in `x`."""
    places = util.convert(x, np.dtype(np.int32)) if x.dtype == np.bool_ else clip(x, 0)
    zeros = lax.full((length,), 0, weights.dtype)
    return update(zeros, places, weights, "add", mode="drop", wrap_negative_indices=False)


# One program where nothing is traced: its parts would each go through memory.
_sums_of_values = jit(_summed_by_value, static_argnums=2)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """Edges of the bins that `histogram` would use: `bins` + 1 evenly spaced values, or `bins`.

    >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), bins=2)
    Array([0., 2., 4.], dtype=float32)
    """
    del weights  # accepted as in NumPy; it does not change the edges
    if isinstance(bins, str):
        raise new_error(
            NotImplementedError, "string values for `bins` not implemented; pass a number."
        )
    (a,) = _arrays("histogram_bin_edges", a)
    dtype = dtypes.to_inexact_dtype(a.dtype)
    if np.ndim(bins) == 1:
        (edges,) = _arrays("histogram_bin_edges", bins)
        return util.convert(edges, dtype)
    count = util.static_int(bins, "bins")
    low, high = _limits(a, range, dtype)
    return linspace(low, high, count + 1, dtype=dtype)


def _arrays(name: str, *values: Any) -> list[Any]:
    values = tuple(array(v) if isinstance(v, (list, tuple)) else v for v in values)
    util.check_arraylike(name, *values)
    return [util.as_array(v) for v in values]


def _limits(a: Any, span: Any, dtype: Any) -> tuple[Any, Any]:
    if span is not None:
        low, high = (util.convert(v, dtype) for v in span)
    elif a.size == 0:
        low, high = (util.convert(v, dtype) for v in (0.0, 1.0))
    else:
        low = util.convert(reductions.min(a), dtype)
        high = util.convert(reductions.max(a), dtype)
    same = lax.eq(low, high)
    half = np.asarray(0.5, dtype)
    return select_where(same, low - half, low), select_where(same, high + half, high)


# Of so many evenly spaced bins the one of an element is guessed.
_MOST_GUESSED = 1 << 14


def _bin_numbers(a: Any, edges: Any, even: bool = False) -> Any:
    """Bin of each element; elements equal to the last edge are in the last bin, others out.

    Args:
      even: the edges are evenly spaced, but for rounding.
    """
    last = edges.shape[0] - 2
    if even and 0 <= last < _MOST_GUESSED and dtypes.issubdtype(edges.dtype, np.floating):
        place = _guessed_places(a, edges)
    else:
        place = _places(a, edges)
    # No element is between edges of which one is NaN, as they are of data with NaN in it.
    inside = (a >= edges[0]) & (a <= edges[-1])
    place = select_where(inside, place, last + 1)
    return select_where(a == edges[-1], last, place)


def _places(a: Any, edges: Any) -> Any:
    """The last edge that is not above each element."""
    return searchsorted(edges, a, "right") - 1


def _guessed_places(a: Any, edges: Any) -> Any:
    """`_places` of evenly spaced edges: one guess, which is at most one off where edges are many
    units in the last place apart, instead of a search."""
    last = edges.shape[0] - 2
    low, high = edges[0], edges[-1]
    unit = np.asarray(dtypes.finfo(edges.dtype).eps, edges.dtype) * lax.max(abs(low), abs(high))
    scale = np.asarray(last + 1, edges.dtype) / (high - low)

    def guess(a: Any) -> Any:
        place = clip(lax.floor((a - low) * scale), 0, last).astype(np.int32)
        below = a < edges.at[place].get(mode="promise_in_bounds")
        above = a >= edges.at[place + 1].get(mode="promise_in_bounds")
        return place - below.astype(np.int32) + above.astype(np.int32)

    apart = (high - low) > unit * (64 * (last + 1))
    return lax.cond(apart & (scale < np.inf), guess, lambda a: _places(a, edges), a)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Array, Array]:
    """Counts of the elements of `a` in bins, and the edges of the bins.

    Args:
      bins: number of bins, or 1-d edges.  range: (low, high) of the bins.
      density: divide by the total count and the widths.
    >>> histogram(np.array([1.0, 2.0, 2.5]), bins=2)[0].tolist()
    [1.0, 2.0]
    """
    (a,) = _arrays("histogram", a)
    if weights is None:
        weights = lax.full(a.shape, 1, dtypes.to_inexact_dtype(a.dtype))
    else:
        (weights,) = _arrays("histogram", weights)
        if weights.shape != a.shape:
            raise new_error(ValueError, "weights should have the same shape as a.")
        a, weights = util.promote_dtypes_inexact(a, weights)
    edges = histogram_bin_edges(a, bins, range, weights)
    elements = util.promote_dtypes(*util.as_inexact_with(ravel(a), edges))
    counts = _counts(*elements, ravel(weights), np.ndim(bins) == 0)
    if density:
        counts = counts / diff(edges) / reductions.sum(counts)
    return counts, edges


@partial(jit, static_argnums=3)
def _counts(a: Any, edges: Any, weights: Any, even: bool) -> Any:
    return _count(_bin_numbers(a, edges, even), weights, edges.shape[0] - 1)


def _count(places: Any, weights: Any, length: int) -> Any:
    return update(lax.full((length,), 0, weights.dtype), places, weights, "add", mode="drop")


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """Two-dimensional histogram: counts, and the edges along each axis.

    >>> jnp.histogram2d(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    x, y = _arrays("histogram2d", x, y)
    count = (
        len(bins) if isinstance(bins, (list, tuple)) else np.shape(bins)[0] if np.ndim(bins) else 1
    )
    if count not in (1, 2):
        edges = asarray(bins) if isinstance(bins, (list, tuple)) else bins
        bins = [edges, edges]
    sample = lax.concatenate(
        [lax.expand_dims(c, (1,)) for c in util.promote_dtypes(ravel(x), ravel(y))], 1
    )
    counts, (x_edges, y_edges) = histogramdd(sample, bins, range, weights, density)
    return counts, x_edges, y_edges


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """Histogram of points in the rows of `sample` (N by D): D-dimensional counts, and edges.

    >>> jnp.histogramdd(jnp.array([[0.0], [1.0], [1.0]]), bins=2)[0]
    Array([1, 2], dtype=int32)
    """
    if isinstance(sample, (list, tuple)):
        columns = util.promote_dtypes(*_arrays("histogramdd", *sample))
        points = lax.concatenate([lax.expand_dims(c, (1,)) for c in columns], 1)
    else:
        (points,) = _arrays("histogramdd", sample)
    n, d = points.shape
    if weights is not None:
        _, weights = util.promote_dtypes_inexact(points, *_arrays("histogramdd", weights))
        if weights.shape != (n,):
            raise new_error(ValueError, "should have one weight for each sample.")
    if range is not None and (len(range) != d or any(r is not None and len(r) != 2 for r in range)):
        raise new_error(
            ValueError, f"For sample.shape={(n, d)}, range must be a sequence of {d} pairs."
        )
    if isinstance(bins, (list, tuple)) or np.ndim(bins) > 0:
        per_axis = list(bins)
        if len(per_axis) != d:
            raise new_error(ValueError, "should be a bin for each dimension.")
    else:
        per_axis = [bins] * d
    edges: list[Any] = []
    places: Any = None
    for i, spec in enumerate(per_axis):
        column = lax.index_in_dim(points, i, 1, keepdims=False)
        span = None if range is None else range[i]
        axis_edges = histogram_bin_edges(column, spec, span)
        edges.append(axis_edges)
        number = _bin_numbers(*util.promote_dtypes(*util.as_inexact_with(column, axis_edges)))
        size = axis_edges.shape[0] - 1
        total = util.size_of([e.shape[0] - 1 for e in edges])
        outside = number >= size
        if places is None:
            places, invalid = number, outside
        else:
            places, invalid = places * size + number, invalid | outside
    shape = tuple(e.shape[0] - 1 for e in edges)
    places = select_where(invalid, total, places)
    if weights is None:
        weights = lax.full((n,), 1, dtypes.canonicalize_dtype(np.int64))
    counts = lax.reshape(_count(places, weights, total), shape)
    if density:
        counts = counts / reductions.sum(counts)
        for i, axis_edges in enumerate(edges):
            width = lax.reshape(diff(axis_edges), (1,) * i + (shape[i],) + (1,) * (d - 1 - i))
            counts = counts / width
    return counts, edges
