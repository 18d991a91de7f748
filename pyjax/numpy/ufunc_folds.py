"""Methods of ufuncs that have none of their own: loops over rows, elements or segments.

A program each: outside of transformations, a loop with a new body would be traced and compiled at
each call. `function` is the ufunc, which equals others made of the same function.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.numpy import util
from pyjax.numpy.index_functions import take
from pyjax.numpy.index_update import update
from pyjax.numpy.indexing import read
from pyjax.numpy.manipulation import moveaxis
from pyjax.numpy.selection import select_where


def _result_dtype(function: Any, x: Any, y: Any) -> np.dtype:
    """The dtype of the function's result for operands of these dtypes."""
    return dtypes.dtype(function._func(lax.full((), 0, x), lax.full((), 0, y)))


@partial(jit, static_argnames=("function", "axis"), inline=True)
def fold(function: Any, a: Any, where: Any, initial: Any, axis: int) -> Any:
    """f(f(initial, a[0]), a[1])… along `axis`, without the elements that the mask leaves out."""
    rows = moveaxis(a, axis, 0)
    masks = None if where is None else moveaxis(where, axis, 0)
    rows = util.convert(rows, _result_dtype(function, rows.dtype, rows.dtype))
    if initial is None:
        first, start = rows[0], 1
    else:
        first = util.broadcast_array(util.convert(initial, rows.dtype), rows.shape[1:])
        start = 0
    if start >= rows.shape[0]:
        return first

    def step(i: Any, total: Any) -> Any:
        row = lax.dynamic_index_in_dim(rows, i, 0, keepdims=False)
        new = util.convert(function._func(total, row), rows.dtype)
        if masks is None:
            return new
        mask = lax.dynamic_index_in_dim(masks, i, 0, keepdims=False)
        return select_where(mask, new, total)

    return lax.fori_loop(start, rows.shape[0], step, first)


@partial(jit, static_argnames=("function", "axis"), inline=True)
def partial_folds(function: Any, a: Any, axis: int) -> Any:
    """All partial folds along `axis`, which has elements."""
    rows = moveaxis(a, axis, 0)
    kind = _result_dtype(function, rows.dtype, rows.dtype)
    rows = util.convert(rows, kind)

    def step(total: Any, row: Any) -> tuple[Any, Any]:
        new = util.convert(function._func(total, row), kind)
        return new, new

    _, later = lax.scan(step, rows[0], rows[1:])
    return moveaxis(lax.concatenate([rows[:1], later], 0), 0, axis)


@partial(jit, static_argnames="function", inline=True)
def apply_at_each(function: Any, a: Any, columns: list[Any], values: Any) -> Any:
    """a[place] = f(a[place], value), one place after the other."""

    def step(i: Any, array: Any) -> Any:
        place = tuple(lax.dynamic_index_in_dim(c, i, 0, keepdims=False) for c in columns)
        value = lax.dynamic_index_in_dim(values, i, 0, keepdims=False)
        new = function._func(read(array, place), value)
        return update(array, place, util.convert(new, array.dtype), "set")

    start = util.convert(a, _result_dtype(function, a.dtype, values.dtype))
    return lax.fori_loop(0, columns[0].size, step, start)


@partial(jit, static_argnames=("function", "axis"), inline=True)
def fold_segments(function: Any, a: Any, indices: Any, axis: int) -> Any:
    """Folds of the segments along `axis` that start at each of `indices`. One that starts out of
    bounds is nan, or the extreme integer."""
    rows = util.convert(moveaxis(a, axis, 0), _result_dtype(function, a.dtype, a.dtype))
    starts, ends = _bounds(rows, indices)
    firsts = take(rows, starts, axis=0)

    def step(i: Any, total: Any) -> Any:
        row = rows[i]
        inside = (i > starts) & (i < ends)
        new = util.convert(
            function._func(total, util.broadcast_array(row, total.shape)), total.dtype
        )
        mask = lax.broadcast_in_dim(inside, total.shape, (0,))
        return lax.select(mask, new, total)

    return moveaxis(lax.fori_loop(0, rows.shape[0], step, firsts), 0, axis)


@partial(jit, static_argnames=("function", "axis"), inline=True)
def sum_segments(function: Any, a: Any, indices: Any, axis: int) -> Any:
    """The same for sums, in one pass over `a` where no segment starts before the last one did."""
    rows = moveaxis(a, axis, 0)
    starts, ends = _bounds(rows, indices)
    n, shape = rows.shape[0], (starts.size, *rows.shape[1:])
    if 0 in (n, starts.size) or rows.dtype == np.bool_:
        return fold_segments(function, a, indices, axis)

    def in_one_pass() -> Any:
        begins = update(lax.full((n,), 0, starts.dtype), starts, 1, "add", mode="drop")
        segment = lax.cumsum(begins, 0) - 1  # -1 before the first
        sums = lax.full(shape, 0, rows.dtype)
        sums = update(sums, segment, rows, "add", mode="drop", wrap_negative_indices=False)
        single = lax.broadcast_in_dim((ends <= starts) | (starts >= n), shape, (0,))
        return moveaxis(lax.select(single, take(rows, starts, axis=0), sums), 0, axis)

    in_order = (starts[0] >= 0) & (starts[1:] >= starts[:-1]).all()
    return lax.cond(in_order, in_one_pass, lambda: fold_segments(function, a, indices, axis))


def _bounds(rows: Any, indices: Any) -> tuple[Any, Any]:
    """Where segments start, and where the next one does."""
    starts = util.convert(indices, np.dtype(np.int32))
    end = lax.full((1,), rows.shape[0], starts.dtype)
    return starts, lax.concatenate([starts[1:], end], 0) if starts.size else starts
