"""Finding places in arrays: argmax, nonzero, where, searchsorted, digitize, unique positions.

Functions whose result size depends on values take `size=` (static; the rest is `fill_value`) so
that they also work under jit.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.chosen import chosen_elements, chosen_places
from pyjax.numpy.eager import one_program
from pyjax.numpy.indexing_basic import take_rows
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_inexact

__all__ = [
    "argmax",
    "argmin",
    "argwhere",
    "compress",
    "digitize",
    "extract",
    "flatnonzero",
    "nonzero",
    "searchsorted",
    "where",
]


def _arg_extreme(name: str, op: Any, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    util.reject_out(name, out)
    a = util.ensure_arraylike(name, a)
    shape = a.shape
    if axis is None:
        a, dim = lax.reshape(a, (a.size,)), 0
    else:
        dim = util.canonicalize_axis(axis, a.ndim)
    if a.shape[dim] == 0:
        raise new_error(ValueError, f"attempt to get {name} of an empty sequence (shape {shape}).")
    result = op(a, dim, dtypes.canonicalize_dtype(np.int64))
    if not keepdims:
        return result
    kept = [1] * len(shape) if axis is None else [1 if i == dim else n for i, n in enumerate(shape)]
    return lax.reshape(result, tuple(kept))


@one_program()
def argmax(a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Index of the first largest element along `axis` (of the flattened array by default).

    A nan counts as largest.  Integer result of the default integer dtype.
    >>> argmax(np.array([1, 3, 3])).item()
    1
    """
    return _arg_extreme("argmax", lax.argmax, a, axis, out, keepdims)


@one_program()
def argmin(a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Index of the first smallest element along `axis`; a nan counts as smallest.

    >>> jnp.argmin(jnp.array([[3, 1], [0, 2]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    return _arg_extreme("argmin", lax.argmin, a, axis, out, keepdims)


# ---------------------------------------------------------------------------------------------
# nonzero and what is built on it


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Indices of the nonzero elements: one integer array per axis.

    Args:
      size: length of the result.  Needed under jit, where the count is not known; surplus
        places hold `fill_value` (a scalar, or one per axis; default 0).
    Raises:
      ConcretizationTypeError: a traced array without `size`.
    >>> nonzero(np.array([0, 2, 3]))[0].tolist()
    [1, 2]
    """
    a = util.ensure_arraylike("nonzero", a)
    if a.ndim == 0:
        raise new_error(
            ValueError,
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(x).nonzero() instead.",
        )
    mask = util.truth(a)
    index_type = dtypes.canonicalize_dtype(np.int64)
    if size is None:
        concrete = util.concrete_or_none(mask)
        if concrete is None:
            raise util.concretization_error(
                a,
                "The size argument of jnp.nonzero must be given under jit: the number of nonzero "
                "elements depends on values. Use jnp.nonzero(x, size=n, fill_value=...), or "
                "jnp.where(mask, x, y) with three arguments.",
            )
        if fill_value is None:
            places = chosen_places(mask) if mask.ndim == 1 else None
            if places is not None:
                return (places,)
            found = (i.astype(index_type, copy=False) for i in np.nonzero(concrete))
            return tuple(util.array_over(i) for i in found)
        size = int(concrete.sum())
    size = util.static_int(size, "size")
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * a.ndim
    if len(fills) != a.ndim:
        raise new_error(
            ValueError,
            f"fill_value must be a scalar or a tuple of length {a.ndim}, got {fill_value!r}.",
        )
    fills = tuple(util.convert(0 if f is None else f, index_type) for f in fills)
    if any(np.ndim(f) for f in fills):
        raise new_error(ValueError, f"fill_value must hold scalars, got {fill_value!r}.")
    return _nonzero(mask, fills, size)


@partial(jit, static_argnames=("size",))
def _nonzero(mask: Any, fills: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    index_type = dtypes.canonicalize_dtype(np.int64)
    flat = lax.reshape(mask, (mask.size,))
    if mask.size == 0 or size == 0:
        return tuple(lax.full((size,), 0, index_type) + f for f in fills)
    # The i-th true element goes to place i; everything else is dropped off the end.
    rank = lax.cumsum(util.convert(flat, index_type), 0)
    place = select_where(flat, rank - 1, np.asarray(size, index_type))
    numbers = lax.scatter(
        lax.full((size,), 0, index_type),
        lax.expand_dims(place, (1,)),
        lax.iota(index_type, mask.size),
        lax.ScatterDimensionNumbers((), (0,), (0,)),
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )
    valid = lax.iota(index_type, size) < rank[-1]
    out, stride = [], mask.size
    for axis_size, fill in zip(mask.shape, fills, strict=True):
        stride //= axis_size
        index = lax.rem(
            lax.div(numbers, lax.full_like(numbers, stride)), lax.full_like(numbers, axis_size)
        )
        out.append(select_where(valid, index, fill))
    return tuple(out)


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Indices of the nonzero elements of the flattened array (see `nonzero`).

    >>> jnp.flatnonzero(jnp.array([[0, 1], [1, 0]]))
    Array([1, 2], dtype=int32)
    """
    a = util.ensure_arraylike("flatnonzero", a)
    return nonzero(lax.reshape(a, (a.size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Indices of the nonzero elements as rows of an (n, ndim) array (see `nonzero`).

    >>> jnp.argwhere(jnp.array([[0, 1], [1, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = util.ensure_arraylike("argwhere", a)
    if a.ndim == 0:
        count = size if size is not None else int(bool(a))
        return lax.full((count, 0), 0, dtypes.canonicalize_dtype(np.int64))
    columns = nonzero(a, size=size, fill_value=fill_value)
    return lax.concatenate([lax.expand_dims(c, (1,)) for c in columns], 1)


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Elements of `x` where `condition` is true, else of `y`; all three broadcast.

    With `condition` alone: `nonzero(condition, size=size, fill_value=fill_value)`.
    Both branches are evaluated, and gradients flow through both: guard a division by zero
    inside `x` as well as here.
    >>> where(np.array([True, False]), 1, 2).tolist()
    [1, 2]
    """
    if x is None and y is None:
        util.check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise new_error(
            TypeError,
            "where: either both or neither of the x and y arguments should be provided.",
            "Elements are taken from x where the condition holds, and from y elsewhere.",
            "jnp.where(condition, x, 0), or jnp.where(condition) for the indices.",
        )
    if size is not None or fill_value is not None:
        raise new_error(
            ValueError, "size and fill_value arguments cannot be used in three-term where()."
        )
    return select_where(condition, x, y)


def extract(
    condition: Any, arr: ArrayLike, *, size: int | None = None, fill_value: Any = 0
) -> Array:
    """The elements of `arr` (flattened) where `condition` is true.

    >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    return compress(_ravel("extract", condition), arr, size=size, fill_value=fill_value)


def _ravel(name: str, x: Any) -> Any:
    x = util.ensure_arraylike(name, x)
    return lax.reshape(x, (x.size,))


def compress(
    condition: Any,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Array:
    """The slices of `a` along `axis` where the 1-d `condition` is true (of flat `a` by default).

    `size` fixes the number of slices (needed under jit); surplus ones hold `fill_value`.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.arange(3))
    Array([0, 2], dtype=int32)
    """
    util.reject_out("compress", out)
    condition, a = util.ensure_arraylike("compress", condition, a)
    if condition.ndim != 1:
        raise new_error(ValueError, f"condition must be a 1D array, got shape {condition.shape}.")
    if condition.dtype != np.bool_:
        condition = lax.ne(condition, np.zeros((), condition.dtype))
    if axis is None:
        a, axis = lax.reshape(a, (a.size,)), 0
    axis = util.canonicalize_axis(axis, a.ndim)
    n = a.shape[axis]
    if condition.shape[0] > n:
        surplus = util.concrete_or_none(condition)
        if surplus is not None and surplus[n:].any():
            raise new_error(ValueError, "condition contains entries that are out of bounds")
        condition = lax.slice_in_dim(condition, 0, n)
    if size is None:
        found = chosen_elements(a, condition) if a.shape == condition.shape else None
        if found is not None:
            return found
        (indices,) = nonzero(condition)
        return _rows_at(a, indices, axis)
    (indices,) = nonzero(condition, size=size, fill_value=n)
    return take_rows(a, indices, axis, fill_value=fill_value)


@one_program(2)
def _rows_at(a: Array, places: Array, axis: int) -> Array:
    return take_rows(a, places, axis)


# ---------------------------------------------------------------------------------------------
# Searching sorted arrays


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: Any = None, *, method: str = "scan"
) -> Array:
    """Where to insert `v` into sorted 1-d `a` so that it stays sorted.

    Args:
      side: 'left' gives the first such place, 'right' the last.
      sorter: indices that sort `a`.
      method: 'compare_all' compares all pairs; the others bisect.
    Returns:
      Integers in [0, len(a)] of the shape of `v`.  nan is sorted last.
    >>> searchsorted(np.array([1, 3, 5]), 3).item()
    1
    """
    if side not in ("left", "right"):
        raise new_error(
            ValueError, f"{side!r} is an invalid value for keyword 'side'; use 'left' or 'right'."
        )
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise new_error(
            ValueError,
            f"{method!r} is an invalid value for keyword 'method'; use 'default', 'scan', "
            "'scan_unrolled', 'sort' or 'compare_all'.",
        )
    a, v = util.ensure_arraylike("searchsorted", a, v)
    if a.ndim != 1:
        raise new_error(ValueError, f"a should be 1-dimensional, got shape {a.shape}.")
    if sorter is not None:
        a = take_rows(a, util.ensure_arraylike("searchsorted", sorter), 0)
    a, v = util.promote_dtypes(a, v)
    return _searchsorted(a, v, side, method)


@partial(jit, static_argnames=("side", "method"))
def _searchsorted(a: Any, v: Any, side: str, method: str) -> Any:
    index_type = np.dtype(np.int32)
    size = a.shape[0]
    if size == 0:
        return lax.full(v.shape, 0, index_type)
    if method == "compare_all":
        columns = lax.reshape(a, (size,) + (1,) * v.ndim)
        before = _goes_after(columns, lax.expand_dims(v, (0,)), side)
        return lax.reduce_sum(util.convert(before, index_type), (0,))
    return _bisect(a, v, side, index_type)


def _goes_after(element: Any, value: Any, side: str) -> Any:
    """Whether `value` is inserted after `element`; nan is the largest value."""
    if not is_inexact(element):
        return element < value if side == "left" else element <= value
    element_nan, value_nan = element != element, value != value
    if side == "left":
        return (element < value) | (value_nan & ~element_nan)
    return (element <= value) | value_nan


def _bisect(a: Any, v: Any, side: str, index_type: Any) -> Any:
    steps = max(1, int(a.shape[0]).bit_length())
    low = lax.full_like(v, 0, index_type)
    high = lax.full_like(v, a.shape[0], index_type)

    def halve(_: Any, bounds: Any) -> Any:
        low, high = bounds
        middle = low + lax.shift_right_logical(high - low, lax.full_like(low, 1))
        element = take_rows(a, lax.min(middle, lax.full_like(middle, a.shape[0] - 1)), 0)
        after = _goes_after(element, v, side) & (low < high)
        return select_where(after, middle + 1, low), select_where(after, high, middle)

    return lax.fori_loop(0, steps + 1, halve, (low, high))[0]


def digitize(x: ArrayLike, bins: Any, right: bool = False, *, method: str | None = None) -> Array:
    """Index of the bin of each element of `x`; `bins` are monotonic 1-d edges.

    Rising edges: i such that bins[i-1] <= x < bins[i] (`right`: bins[i-1] < x <= bins[i]).

    >>> jnp.digitize(jnp.array([0.5, 1.5, 9.0]), jnp.array([0.0, 1.0, 2.0]))
    Array([1, 2, 3], dtype=int32)
    """
    x, bins = util.ensure_arraylike("digitize", x, bins)
    if bins.ndim != 1:
        raise new_error(
            ValueError, f"digitize: bins must be a 1-dimensional array, got {bins.shape}."
        )
    method = method or "scan"
    if bins.shape[0] == 0:
        return lax.full(x.shape, 0, np.dtype(np.int32))
    side = "right" if not right else "left"
    rises = bins[-1] >= bins[0]
    found = searchsorted(select_where(rises, bins, lax.rev(bins, (0,))), x, side, method=method)
    return select_where(rises, found, bins.shape[0] - found)
