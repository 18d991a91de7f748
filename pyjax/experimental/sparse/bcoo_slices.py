"""Parts of BCOO arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.vmap import vmap
from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.core.trace import Tracer
from pyjax.experimental.sparse.bcoo_array import (
    BCOO,
    bcoo_sum_duplicates,
    full_batches,
    replaced,
    with_indices,
)
from pyjax.experimental.sparse.bcoo_layouts import bcoo_update_layout
from pyjax.experimental.sparse.bcoo_moves import bcoo_squeeze
from pyjax.lax import GatherScatterMode
from pyjax.lax.indexing.gather import default_fill

Dims = tuple[int, ...]


def limited(mat: BCOO) -> BCOO:
    """The array, with no more elements stored than it has."""
    most = math.prod(mat.sparse_shape)
    return bcoo_sum_duplicates(mat, nse=most) if mat.nse > most else mat


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """A part of the array, as `lax.slice` takes it.

    Returns:
      BCOO with as many stored elements, or as many as the part has if those are fewer.
    Raises:
      ValueError: the part is not in the array.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.eye(3, dtype=np.float32))
    >>> bcoo_slice(m, start_indices=(1, 0), limit_indices=(3, 2)).todense().tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    starts, limits = [int(i) for i in start_indices], [int(i) for i in limit_indices]
    steps = [1] * mat.ndim if strides is None else [int(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        fail(ValueError, f"bcoo_slice: indices must have size mat.ndim={mat.ndim}")
    if not all(0 <= a <= b <= size for a, b, size in zip(starts, limits, mat.shape)) or any(
        step < 1 for step in steps
    ):
        fail(
            ValueError,
            f"bcoo_slice: invalid indices. Got start_indices={starts}, limit_indices={limits}, "
            f"strides={steps} and shape={mat.shape}",
        )
    shape = tuple(-(-(b - a) // step) for a, b, step in zip(starts, limits, steps))
    n_batch, n_sparse, _ = mat.layout
    end = n_batch + n_sparse
    mat = _sliced_buffers(
        mat, shape, lambda x, d, axis: lax.slice_in_dim(x, starts[d], limits[d], steps[d], axis)
    )
    own = slice(n_batch, end)
    if shape[own] == mat.sparse_shape:
        return replaced(mat, shape=shape)

    def moved(indices: Array) -> tuple[Array, Array]:
        first, last, step = (np.asarray(x[own], indices.dtype) for x in (starts, limits, steps))
        offset = indices - first[None]
        keep = (offset >= 0) & (indices < last[None]) & (offset % step[None] == 0)
        return jnp.all(keep, axis=-1), offset // step[None]

    return limited(with_indices(mat, shape, moved, unique_indices=mat.unique_indices))


def _sliced_buffers(mat: BCOO, shape: Dims, cut: Any) -> BCOO:
    """The array with batch and dense dimensions cut to `shape` by `cut(buffer, dim, axis)`."""
    n_batch, n_sparse, _ = mat.layout
    data, indices = mat.data, mat.indices
    for d in range(n_batch):
        if mat.shape[d] != shape[d]:
            data = cut(data, d, d) if data.shape[d] == mat.shape[d] else data
            indices = cut(indices, d, d) if indices.shape[d] == mat.shape[d] else indices
    for d in range(n_batch + n_sparse, mat.ndim):
        if mat.shape[d] != shape[d]:
            data = cut(data, d, d - n_sparse + 1)
    kept = (*shape[:n_batch], *mat.sparse_shape, *shape[n_batch + n_sparse :])
    return replaced(mat, data=data, indices=indices, shape=kept)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of the array that begins anywhere, as `lax.dynamic_slice` takes it: negative starts
    count from the end, and then they are moved so that the part is in the array.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.array([1, 2, 3], np.float32))
    >>> bcoo_dynamic_slice(m, (np.int32(1),), (2,)).todense().tolist()
    [2.0, 3.0]
    """
    shape = tuple(map(int, slice_sizes))
    starts = list(start_indices)
    if not len(starts) == len(shape) == mat.ndim:
        fail(
            ValueError,
            f"Length of slice indices must match number of operand dimensions ({len(starts)} vs "
            f"{mat.shape})",
        )
    return slice_at([_from_the_end(a, n) for a, n in zip(starts, mat.shape)], mat, shape)


def _from_the_end(start: Any, size: int) -> Array:
    """A start that counts from the front, of a type that has the array's sizes."""
    start = jnp.asarray(start)
    if start.dtype.itemsize < 4:
        start = start.astype(np.int32)
    return jnp.where(start < 0, start + np.asarray(size, start.dtype), start)


def slice_at(starts: Sequence[Any], mat: BCOO, shape: tuple[int, ...]) -> BCOO:
    """`bcoo_dynamic_slice` where negative starts are before the array."""
    if any(not 0 <= n <= size for n, size in zip(shape, mat.shape)):
        fail(
            TypeError,
            f"slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{shape} for operand shape {mat.shape}.",
        )
    starts = [
        lax.clamp(*(jnp.asarray(x, jnp.asarray(a).dtype) for x in (0, a, size - n)))
        if n != size
        else jnp.zeros((), np.int32)
        for a, n, size in zip(starts, shape, mat.shape)
    ]
    n_batch, n_sparse, _ = mat.layout

    mat = _sliced_buffers(
        mat, shape, lambda x, d, axis: lax.dynamic_slice_in_dim(x, starts[d], shape[d], axis)
    )
    own = slice(n_batch, n_batch + n_sparse)
    if shape[own] == mat.sparse_shape:
        return replaced(mat, shape=shape)
    first = jnp.stack([jnp.asarray(x).astype(mat.indices.dtype) for x in starts[own]])
    sizes = np.asarray(shape[own], mat.indices.dtype)

    def moved(indices: Array) -> tuple[Array, Array]:
        offset = indices - first[None]
        return jnp.all((offset >= 0) & (offset < sizes[None]), axis=-1), offset

    return limited(with_indices(mat, shape, moved, unique_indices=mat.unique_indices))


def bcoo_gather(
    operand: BCOO,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> BCOO:
    """Parts of the array at start indices, as `lax.gather` takes them.

    Args:
      mode: "clip" and "promise_in_bounds" (the default) move starts so that parts are in the array;
        with "fill" parts that are not are `fill_value` (None: as in `lax.gather`). Unless that is
        zero, or starts are known to be in bounds, there is a place for each element of the parts.
    Raises:
      NotImplementedError: dimensions of operand and indices are batched together.

    >>> m = BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> bcoo_gather(m, jnp.array([[1], [0]]), numbers, (1, 2)).todense().tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """
    del unique_indices, indices_are_sorted
    numbers = dimension_numbers
    if numbers.operand_batching_dims:
        fail(
            NotImplementedError,
            "bcoo_gather with operand_batching_dims",
            "batches are dimensions of a sparse array.",
            "Use vmap over an array with n_batch.",
        )
    starts = jnp.asarray(start_indices)
    if starts.dtype.itemsize < 4:
        starts = starts.astype(np.int32)
    batch = starts.shape[:-1]
    collapsed = numbers.collapsed_slice_dims
    kept = tuple(size for d, size in enumerate(slice_sizes) if d not in collapsed)

    parsed = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    fill = parsed is GatherScatterMode.FILL_OR_DROP
    moves = [operand.shape[d] - slice_sizes[d] for d in numbers.start_index_map]
    limits = np.asarray(moves, np.int64)
    value = default_fill(operand.dtype) if fill_value is None else fill_value
    everywhere = fill and (isinstance(value, Tracer) or value != 0)
    if everywhere and _in_bounds(starts, limits):
        fill = everywhere = False

    def part(start: Array) -> tuple[Array, Array]:
        at: list[Any] = [0] * operand.ndim
        for column, dim in enumerate(numbers.start_index_map):
            at[dim] = start[column]
        found = slice_at(at, operand, tuple(slice_sizes))
        found = full_batches(bcoo_squeeze(found, dimensions=collapsed))
        if not fill:
            return found.data, found.indices
        ok = jnp.all((start >= 0) & (start <= limits.astype(start.dtype)))
        data = jnp.where(ok, found.data, jnp.zeros((), found.dtype))
        if not everywhere:
            return data, found.indices
        # Every position once more, which holds the value where the part is not in bounds.
        rows = jnp.where(ok, jnp.zeros((), found.dtype), jnp.asarray(value, found.dtype))
        batches, axis = found.batch_shape, found.n_batch
        places = np.indices(found.sparse_shape).reshape(found.n_sparse, -1).T
        filling = jnp.broadcast_to(rows, (*batches, len(places), *found.dense_shape))
        added = jnp.broadcast_to(places.astype(found.indices.dtype), (*batches, *places.shape))
        return (
            jnp.concatenate([data, filling], axis),
            jnp.concatenate([found.indices, added], axis),
        )

    data, indices = vmap(part)(starts.reshape(-1, starts.shape[-1]))
    buffers = (data.reshape(*batch, *data.shape[1:]), indices.reshape(*batch, *indices.shape[1:]))
    stacked = BCOO(buffers, shape=(*batch, *kept))
    order = [d for d in range(len(batch) + len(kept)) if d not in numbers.offset_dims]
    places = [*order, *numbers.offset_dims]
    permutation = tuple(int(i) for i in np.argsort(places))
    if permutation == tuple(range(len(permutation))):
        return stacked
    if any(permutation[d] != d for d in range(len(batch))):
        stacked = bcoo_update_layout(stacked, n_batch=0, n_dense=0)
    return stacked.transpose(permutation)


def _in_bounds(starts: Array, limits: np.ndarray) -> bool:
    """Whether starts are known to be in bounds."""
    if isinstance(starts, Tracer):
        return False
    values = np.asarray(starts)
    return bool(np.all((values >= 0) & (values <= limits)))
