"""gather and scatter in NumPy: index arithmetic on whole arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import GatherAttributes, ScatterAttributes
from xla_backend.hlo.evaluator.reductions import accumulate
from xla_backend.hlo.evaluator.scalar_computations import ScalarRunner, Values
from xla_backend.hlo.instruction import Instruction


def _start_indices(
    indices: np.ndarray,
    index_vector_dim: int,
    index_map: Sequence[int],
    operand_batching: Sequence[int],
    indices_batching: Sequence[int],
) -> tuple[dict[int, np.ndarray], tuple[int, ...]]:
    """Start of the window per operand dimension, each an i64 array over the batch dimensions."""
    if indices.dtype.itemsize == 1:
        indices = indices.astype(np.int16)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    wide = indices.astype(np.int64)
    if index_vector_dim == wide.ndim:
        wide = wide[..., None]
    vectors = np.moveaxis(wide, index_vector_dim, -1)
    batch = vectors.shape[:-1]
    starts = {d: vectors[..., k] for k, d in enumerate(index_map)}
    for d, e in zip(operand_batching, indices_batching):
        axis = e if e < index_vector_dim else e - 1
        shape = [1] * len(batch)
        shape[axis] = batch[axis]
        starts[d] = np.broadcast_to(np.arange(batch[axis]).reshape(shape), batch)
    return starts, batch


def gather(node: Instruction, operand: np.ndarray, indices: np.ndarray) -> np.ndarray:
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    result_shape = node.shape.dimensions
    if 0 in result_shape:
        return np.zeros(result_shape, operand.dtype)
    starts, batch = _start_indices(
        indices,
        a.index_vector_dim,
        a.start_index_map,
        a.operand_batching_dims,
        a.start_indices_batching_dims,
    )
    dropped = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    batch_positions = [i for i in range(len(result_shape)) if i not in a.offset_dims]
    offset_of = dict(
        zip([d for d in range(operand.ndim) if d not in dropped], sorted(a.offset_dims))
    )
    batch_shape = [1] * len(result_shape)
    for position, size in zip(batch_positions, batch):
        batch_shape[position] = size
    index = []
    for d, size in enumerate(operand.shape):
        where = np.zeros([1] * len(result_shape), np.int64)
        if d in starts:
            clamped = np.clip(starts[d], 0, size - a.slice_sizes[d])
            where = clamped.reshape(batch_shape)
        if d in offset_of:
            shape = [1] * len(result_shape)
            shape[offset_of[d]] = a.slice_sizes[d]
            where = where + np.arange(a.slice_sizes[d]).reshape(shape)
        index.append(where)
    if not index:
        return np.broadcast_to(operand, result_shape)
    return np.broadcast_to(operand[tuple(index)], result_shape)


def scatter(
    node: Instruction, values: Sequence[np.ndarray], run: ScalarRunner
) -> np.ndarray | Values:
    """A window that does not lie wholly inside the operand is dropped."""
    a = node.attributes
    assert isinstance(a, ScatterAttributes)
    count = len(values) // 2
    operands, indices, updates = values[:count], values[count], values[count + 1 :]
    results = [np.array(x) for x in operands]
    if updates[0].size and results[0].size:
        targets, valid = _targets(a, results[0].shape, indices, updates[0].shape)
        flats = [r.reshape(-1) for r in results]
        chosen = [u.reshape(-1)[valid] for u in updates]
        _apply(node, flats, targets[valid], chosen, run)
        results = [f.reshape(x.shape) for f, x in zip(flats, operands)]
    return results[0] if count == 1 else tuple(results)


def _targets(
    a: ScatterAttributes, shape: tuple[int, ...], indices: np.ndarray, update_shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """For each update element in order: flat position in the operand, and whether it is applied."""
    starts, batch = _start_indices(
        indices,
        a.index_vector_dim,
        a.scatter_dims_to_operand_dims,
        a.input_batching_dims,
        a.scatter_indices_batching_dims,
    )
    rank = len(update_shape)
    dropped = {*a.inserted_window_dims, *a.input_batching_dims}
    window_of = dict(zip([d for d in range(len(shape)) if d not in dropped], a.update_window_dims))
    batch_positions = [i for i in range(rank) if i not in a.update_window_dims]
    batch_shape = [1] * rank
    for position, size in zip(batch_positions, batch):
        batch_shape[position] = size
    flat = np.zeros([1] * rank, np.int64)
    valid = np.ones([1] * rank, bool)
    for d, size in enumerate(shape):
        where = np.zeros([1] * rank, np.int64)
        extent = update_shape[window_of[d]] if d in window_of else 1
        if d in starts:
            start = starts[d].reshape(batch_shape)
            valid = valid & (start >= 0) & (start <= size - extent)
            where = start
        if d in window_of:
            line = [1] * rank
            line[window_of[d]] = extent
            where = where + np.arange(extent).reshape(line)
        flat = flat * size + where
    flat = np.broadcast_to(flat, update_shape).reshape(-1)
    return flat, np.broadcast_to(valid, update_shape).reshape(-1)


def _apply(
    node: Instruction,
    flats: list[np.ndarray],
    targets: np.ndarray,
    updates: Sequence[np.ndarray],
    run: ScalarRunner,
) -> None:
    computation = node.called[0]
    root = computation.root
    if root is not None and len(flats) == 1 and root is computation.parameters[1]:
        flats[0][targets] = updates[0]  # assignment: NumPy, too, lets the last of equal targets win
        return
    accumulate(flats, targets, updates, computation, run)
