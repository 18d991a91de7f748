"""The gathers that the other files of pyjax.numpy need: rows along one axis, elements along one.

The indexing language (`x[...]`) is in indexing.py; this file is below it, so that searching and
sorting can use it without a cycle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.core.symbolic_dims import SymbolicDim
from pyjax.lax.indexing.gather import default_fill
from pyjax.lax.indexing.gather_scatter_types import mode_left_open
from pyjax.numpy import util
from pyjax.numpy.selection import select_where

MODES = "fill, clip, wrap, drop, promise_in_bounds (or None)"


def index_dtype(shape: tuple[int, ...]) -> np.dtype:
    """int32 unless an axis is known to be too long for it."""
    longest = max((n for n in shape if type(n) is not SymbolicDim), default=0)
    return np.dtype(np.int64) if longest >= 2**31 else np.dtype(np.int32)


def as_index_array(index: Any, shape: tuple[int, ...]) -> Any:
    """Integer array at the dtype used for gathers, without wrapping large unsigned values."""
    target = index_dtype(shape)
    if isinstance(index, np.ndarray):
        limits = np.iinfo(target)
        return np.asarray(np.clip(index, limits.min, limits.max)).astype(target)
    if index.dtype == target:
        return index
    if np.dtype(index.dtype).itemsize > target.itemsize or index.dtype == np.dtype(np.uint32):
        top = np.asarray(np.iinfo(target).max, index.dtype)
        index = lax.min(index, lax.full_like(index, top))
        if dtypes.issubdtype(index.dtype, np.signedinteger):
            index = lax.max(index, lax.full_like(index, np.iinfo(target).min))
    return util.convert(index, target)


def wrap_negative(index: Any, size: int) -> Any:
    """Count negative indices from the end."""
    if type(size) is SymbolicDim:
        if isinstance(index, np.ndarray) and not (index < 0).any():
            return index
        index, end = util.as_array(index), util.convert(size, index.dtype)
    elif isinstance(index, np.ndarray):
        return np.asarray(np.where(index < 0, index + np.asarray(size, index.dtype), index))
    else:
        end = np.asarray(size, index.dtype)
    if dtypes.issubdtype(index.dtype, np.unsignedinteger):
        return index
    below = lax.lt(index, np.zeros((), index.dtype))
    shifted = lax.add(index, end)
    return lax.select(below, shifted, index)


def parse_mode(mode: Any) -> Any:
    """A gather/scatter mode given by name; 'wrap' is handled before and stays a string."""
    if mode is None or isinstance(mode, lax.GatherScatterMode):
        return mode
    table = {
        "fill": lax.GatherScatterMode.FILL_OR_DROP,
        "drop": lax.GatherScatterMode.FILL_OR_DROP,
        "clip": lax.GatherScatterMode.CLIP,
        "promise_in_bounds": lax.GatherScatterMode.PROMISE_IN_BOUNDS,
        "wrap": "wrap",
    }
    if mode not in table:
        raise new_error(
            ValueError,
            f"Unknown index mode {mode!r}; expected one of {MODES}.",
            "The mode says what becomes of indices out of bounds.",
            'mode="drop" ignores updates there, mode="fill" reads fill_value.',
        )
    return table[mode]


def filling_mode(fill_value: Any) -> Any:
    """The mode of functions that fill in for indices out of bounds, if the user has chosen none."""
    filling = lax.GatherScatterMode.FILL_OR_DROP
    return mode_left_open(filling) if fill_value is None else filling


def take_rows(
    a: Any,
    indices: Any,
    axis: int,
    *,
    mode: Any = None,
    fill_value: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
) -> Any:
    """a[..., indices, ...] along `axis`: index array axes replace it.

    Indices must be nonnegative.  Without mode and fill_value they are promised in bounds.
    """
    a, indices = util.as_array(a), util.as_array(indices)
    if fill_value is not None:
        mode = lax.GatherScatterMode.FILL_OR_DROP
    if mode is None:
        mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    batch = indices.ndim
    offset = (*range(axis), *range(axis + batch, a.ndim - 1 + batch))
    sizes = tuple(1 if i == axis else n for i, n in enumerate(a.shape))
    if a.shape[axis] == 0:
        if indices.size and mode is not lax.GatherScatterMode.FILL_OR_DROP:
            raise new_error(
                IndexError, f"cannot take from axis {axis} of size 0 (shape {a.shape})."
            )
        shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
        fill = default_fill(a.dtype) if fill_value is None else fill_value
        return lax.full(shape, np.asarray(fill).astype(a.dtype), a.dtype)
    return lax.gather(
        a,
        lax.expand_dims(as_index_array(indices, a.shape), (batch,)),
        lax.GatherDimensionNumbers(offset, (axis,), (axis,)),
        sizes,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=mode,
        fill_value=fill_value,
    )


def gather_along(
    a: Any, indices: Any, axis: int, *, mode: Any = None, fill_value: Any = None
) -> Any:
    """out[i, j, k] = a[i, indices[i, j, k], k]: elements along `axis`; other axes equal or one.

    Axes where one of the two has size one are broadcast.
    """
    a, indices = util.as_array(a), util.as_array(indices)
    index_shape, operand_batch, index_batch, sizes, offset, squeezed = [], [], [], [], [], []
    for i in range(a.ndim):
        if i == axis:
            sizes.append(1)
            index_shape.append(indices.shape[i])
        elif indices.shape[i] == 1 and a.shape[i] != 1:
            sizes.append(a.shape[i])  # the same indices for this whole axis: a window
            offset.append(i)
            squeezed.append(i)
        elif a.shape[i] == 1:
            sizes.append(1)
            index_shape.append(indices.shape[i])
        else:
            operand_batch.append(i)
            index_batch.append(len(index_shape))
            sizes.append(1)
            index_shape.append(indices.shape[i])
    collapsed = tuple(i for i in range(a.ndim) if i not in offset and i not in operand_batch)
    starts = as_index_array(indices, a.shape)
    if squeezed:
        starts = lax.squeeze(starts, tuple(squeezed))
    # Axes of size one of `a` are collapsed at their only index, zero.
    columns = [
        lax.expand_dims(starts if i == axis else lax.full_like(starts, 0), (starts.ndim,))
        for i in collapsed
    ]
    start_indices = columns[0] if len(columns) == 1 else lax.concatenate(columns, starts.ndim)
    return lax.gather(
        a,
        start_indices,
        lax.GatherDimensionNumbers(
            tuple(offset), collapsed, collapsed, tuple(operand_batch), tuple(index_batch)
        ),
        tuple(sizes),
        mode=mode or lax.GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=fill_value,
    )


def wide_enough(index: Any, size: int) -> Any:
    """An index array of a type that holds the size of the axis, too."""
    return as_index_array(index, (size,)) if size > np.iinfo(index.dtype).max else index


def normalized(index: Any, size: int, mode: Any) -> tuple[Any, Any]:
    """Index array with negatives counted from the end, or wrapped; and the mode that remains."""
    if mode == "wrap":
        return wrapped(index, size), lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return wrap_negative(wide_enough(index, size), size), mode


def wrapped(index: Any, size: int) -> Any:
    """Index array modulo the size of the axis, in its own type if that holds the size."""
    index, size = wide_enough(index, size), max(size, 1)
    if isinstance(index, np.ndarray):
        return np.asarray(index % np.asarray(size, index.dtype))
    limit = np.asarray(size, index.dtype)
    index = lax.rem(index, lax.full_like(index, limit))
    return select_where(lax.lt(index, lax.full_like(index, 0)), lax.add(index, limit), index)
