"""Functions of data and indices: coordinates of stored elements, which all formats come down to.

Buffers of an array of shape (*batch, *sparse, *dense) with `nse` stored elements:

  data     (*batch, nse, *dense)
  indices  (*batch, nse, n_sparse), integers

Batch dimensions of a buffer may have size 1 for all batches. Elements with an index outside of the
array stand for nothing, whatever their data: they pad buffers. Elements with equal indices add up.
Indices from -size on count from the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.vmap import vmap
from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.experimental.sparse.base import Layout
from pyjax.lax import GatherDimensionNumbers, ScatterDimensionNumbers

Sizes = Sequence[int]


def layout_of(data: Any, indices: Any, shape: Sizes) -> Layout:
    """Which dimensions are which.

    Raises:
      ValueError: buffers do not fit each other or the shape.   TypeError: indices are no integers.
    """
    n_sparse, n_batch = indices.shape[-1], indices.ndim - 2
    found = Layout(n_batch, n_sparse, len(shape) - n_batch - n_sparse)
    if not jnp.issubdtype(indices.dtype, np.integer):
        fail(
            TypeError,
            f"Indices of a sparse array must be integers, got {indices.dtype}.",
            fix="Convert them: indices.astype(int).",
        )
    if n_batch < 0 or found.n_dense < 0:
        fail(
            ValueError,
            f"Invalid indices.shape={indices.shape} for a sparse array of shape {tuple(shape)}.",
            "indices have the shape (*batch, nse, n_sparse).",
        )
    nse = indices.shape[-2]
    expected = ((*shape[:n_batch], nse, n_sparse), (*shape[:n_batch], nse, *_tail(shape, found)))
    for name, buffer, wanted in zip(("indices", "data"), (indices, data), expected):
        batch, rest = buffer.shape[:n_batch], buffer.shape[n_batch:]
        fits = rest == wanted[n_batch:] and all(
            have in (1, size) for have, size in zip(batch, wanted)
        )
        if not fits:
            fail(
                ValueError,
                f"Invalid {name}.shape={buffer.shape} for {nse=}, n_batch={n_batch}, "
                f"n_dense={found.n_dense}",
                f"the array has the shape {tuple(shape)}, so {name} has the shape {wanted}; batch "
                "dimensions may have size 1.",
            )
    return found


def _tail(shape: Sizes, layout: Layout) -> tuple[int, ...]:
    return tuple(shape[layout.n_batch + layout.n_sparse :])


def over_batches(fun: Callable[..., Any], n_batch: int, *args: Any) -> Any:
    """Apply a function to each batch of arrays with `n_batch` leading dimensions in common.

    A dimension of size 1 stands for any size. Results have the largest size that some argument has.
    """
    if n_batch == 0:
        return fun(*args)
    sizes = [x.shape[0] for x in args]
    size = max(sizes) if 0 not in sizes else 0
    axes = tuple(0 if s == size else None for s in sizes)
    args = tuple(x if axis == 0 else lax.squeeze(x, (0,)) for x, axis in zip(args, axes))
    return vmap(partial(over_batches, fun, n_batch - 1), axes)(*args)


def full_batches(x: Array, batch: Sizes) -> Array:
    """A buffer whose batch dimensions have these sizes, where they may have been 1."""
    rest = x.shape[len(batch) :]
    return x if x.shape[: len(batch)] == tuple(batch) else jnp.broadcast_to(x, (*batch, *rest))


# -- one batch: data (nse, *dense), indices (nse, n_sparse) ---------------------------------------


def from_front(indices: Array, sizes: Sizes) -> Array:
    """Indices that count from the front: those from -size on count from the end, and what is before
    the array goes behind it."""
    bounds = np.asarray(sizes, indices.dtype)[None, :]
    moved = indices + bounds
    return jnp.where(indices >= 0, indices, jnp.where(moved >= 0, moved, bounds))


def inside(indices: Array, sizes: Sizes) -> Array:
    """Which elements are in the array: bool (nse,)."""
    bounds = np.asarray(sizes, indices.dtype)
    return jnp.all(from_front(indices, sizes) < bounds[None, :], axis=-1)


def put_outside(indices: Array, keep: Array, sizes: Sizes) -> Array:
    """Indices from the front, with those of elements that are not kept outside of the array."""
    bounds = np.asarray(sizes, indices.dtype)
    return jnp.where(keep[:, None], from_front(indices, sizes), bounds[None, :])


def gathered(array: Array, indices: Array) -> Array:
    """Elements of an array (*sparse, *dense) at indices; zeros for those outside: (nse, *dense)."""
    n, rest = indices.shape[-1], array.shape[indices.shape[-1] :]
    if array.size == 0:
        return jnp.zeros((indices.shape[0], *rest), array.dtype)
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, 1 + len(rest))),
        collapsed_slice_dims=tuple(range(n)),
        start_index_map=tuple(range(n)),
    )
    indices = from_front(indices, array.shape[:n])
    return lax.gather(array, indices, numbers, (1,) * n + rest, mode="fill", fill_value=0)


def scattered(data: Array, indices: Array, sizes: Sizes) -> Array:
    """Elements added up in an array of zeros of shape (*sizes, *dense)."""
    n, rest = indices.shape[-1], data.shape[1:]
    if n == 0:
        return jnp.sum(data, axis=0, dtype=data.dtype)
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + len(rest))),
        inserted_window_dims=tuple(range(n)),
        scatter_dims_to_operand_dims=tuple(range(n)),
    )
    zeros = jnp.zeros((*sizes, *rest), data.dtype)
    if zeros.size == 0 or data.size == 0:
        return zeros
    indices = from_front(indices, sizes)
    if data.dtype == np.bool_:
        return lax.scatter_max(zeros, indices, data, numbers, mode="drop")
    return lax.scatter_add(zeros, indices, data, numbers, mode="drop")


def order_of(indices: Array) -> Array:
    """Positions of the elements in the order of their indices, the first one first: (nse,)."""
    nse, n = indices.shape
    positions = lax.iota(np.int32, nse)
    if n == 0:
        return positions
    columns = [indices[:, i] for i in range(n)]
    return lax.sort([*columns, positions], dimension=0, num_keys=n)[-1]


def differs_from_last(indices: Array) -> Array:
    """Which sorted elements have other indices than the one before them: bool (nse,)."""
    changes = jnp.any(indices[1:] != indices[:-1], axis=-1)
    return jnp.concatenate([jnp.ones(min(1, indices.shape[0]), bool), changes])


def joined(data: Array, indices: Array, *, nse: int, sizes: Sizes) -> tuple[Array, Array]:
    """Elements with distinct, ascending indices, of which there are at most `nse`; others are
    dropped."""
    n = len(sizes)
    indices = put_outside(indices, inside(indices, sizes), sizes)
    order = order_of(indices)
    data, indices = data[order], indices[order]
    group = jnp.cumsum(differs_from_last(indices), dtype=np.int32) - 1
    group = group[:, None]
    outside = jnp.broadcast_to(np.asarray(sizes, indices.dtype), (nse, n))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    if indices.size:
        outside = lax.scatter(outside, group, indices, numbers, mode="drop")
    return scattered(data, group, (nse,)), outside


def count_distinct(indices: Array, sizes: Sizes) -> Array:
    """How many different elements of the array are stored: int32."""
    if not sizes:
        return jnp.asarray(min(1, indices.shape[0]), np.int32)
    indices = put_outside(indices, inside(indices, sizes), sizes)
    indices = indices[order_of(indices)]
    return jnp.sum(differs_from_last(indices) & inside(indices, sizes), dtype=np.int32)


# -- all batches: the functions that primitives are composed of -----------------------------------


def todense(data: Array, indices: Array, *, shape: Sizes) -> Array:
    """The array that is stored."""
    n_batch, n_sparse, _ = layout_of(data, indices, shape)
    sizes = shape[n_batch : n_batch + n_sparse]
    dense = over_batches(partial(scattered, sizes=sizes), n_batch, data, indices)
    return full_batches(dense, shape[:n_batch])


def extract(indices: Array, array: Array, *, assume_unique: bool) -> Array:
    """Elements of an array at indices: (*batch, nse, *dense). Unless `assume_unique`, of elements
    with equal indices the first has the value and others have zero, so that `todense` agrees."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    sizes = array.shape[n_batch : n_batch + n_sparse]

    def one(indices: Array, array: Array) -> Array:
        if not assume_unique:
            indices = from_front(indices, sizes)
            order = order_of(indices)
            first = differs_from_last(indices[order])
            first = jnp.zeros_like(first).at[order].set(first)
            indices = put_outside(indices, first, sizes)
            if not sizes:
                mask = first.reshape(first.shape + (1,) * array.ndim)
                return jnp.where(mask, array[None], jnp.zeros_like(array)[None])
        return gathered(array, indices)

    return over_batches(one, n_batch, indices, array)


def fromdense(
    array: Array, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> tuple[Array, Array]:
    """Data and indices of the first `nse` elements that are not zero, of each batch."""
    end = array.ndim - n_dense

    def one(array: Array) -> tuple[Array, Array]:
        mask = stored(array, 0, n_dense)
        sizes = mask.shape
        if not sizes:
            indices = jnp.zeros((nse, 0), index_dtype)
            first = lax.iota(np.int32, nse).reshape((nse,) + (1,) * n_dense) == 0
            return jnp.where(first, array[None], jnp.zeros_like(array)[None]), indices
        where = jnp.nonzero(mask, size=nse, fill_value=sizes)
        indices = jnp.stack(where, axis=-1).astype(index_dtype)
        return gathered(array, indices), indices

    if n_batch + n_dense > array.ndim:
        fail(ValueError, f"n_batch={n_batch} and n_dense={n_dense} exceed the {end} dimensions.")
    return over_batches(one, n_batch, array)


def stored(array: Array, n_batch: int, n_dense: int) -> Array:
    """Which elements of (*batch, *sparse) have something that is not zero: bool."""
    dense = tuple(range(array.ndim - n_dense, array.ndim))
    return jnp.any(array != jnp.zeros((), array.dtype), axis=dense) if dense else array != 0


def transpose(
    data: Array, indices: Array, *, permutation: Sizes, shape: Sizes
) -> tuple[Array, Array]:
    """Buffers of the transposed array; `permutation` moves no dimension to another kind."""
    n_batch, n_sparse, _n_dense = layout_of(data, indices, shape)
    batch = tuple(permutation[:n_batch])
    sparse = [p - n_batch for p in permutation[n_batch : n_batch + n_sparse]]
    dense = [p - n_sparse + 1 for p in permutation[n_batch + n_sparse :]]
    data = lax.transpose(data, (*batch, n_batch, *dense))
    indices = lax.transpose(indices, (*batch, n_batch, n_batch + 1))
    if sparse != sorted(sparse):
        indices = jnp.stack([indices[..., i] for i in sparse], axis=-1)
    return data, indices


def sort_indices(data: Array, indices: Array, *, shape: Sizes) -> tuple[Array, Array]:
    """Elements in the order of their indices."""
    layout = layout_of(data, indices, shape)

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        order = order_of(indices)
        return data[order], indices[order]

    return over_batches(one, layout.n_batch, data, indices)


def sum_duplicates(data: Array, indices: Array, *, shape: Sizes, nse: int) -> tuple[Array, Array]:
    """Elements with distinct indices in ascending order."""
    n_batch, n_sparse, _ = layout_of(data, indices, shape)
    sizes = tuple(shape[n_batch : n_batch + n_sparse])
    return over_batches(partial(joined, nse=nse, sizes=sizes), n_batch, data, indices)


def linear_positions(indices: Array, sizes: Sizes) -> Array:
    """Positions of elements in the flattened sparse dimensions: (nse, 1).

    Raises:
      OverflowError: the index dtype does not count that far.
    """
    total = math.prod(sizes)
    if total > np.iinfo(indices.dtype).max:
        fail(
            OverflowError,
            f"{total} elements in sparse dimensions {tuple(sizes)} cannot be numbered by "
            f"{indices.dtype}.",
            fix="Give the array wider indices (index_dtype=), with 64-bit types on.",
        )
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    weights = np.asarray(steps, indices.dtype)
    return jnp.sum(indices * weights[None, :], axis=-1, keepdims=True, dtype=indices.dtype)
