"""BCOO arrays in other shapes: more and fewer dimensions, sums, joins.

Elements stay where they are; their indices are computed anew, and the index of one that is not in
the result is put outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.array import Array
from pyjax.core.errors import fail, new_error
from pyjax.experimental.sparse import coordinates
from pyjax.experimental.sparse.bcoo_array import (
    BCOO,
    full_batches,
    replaced,
    with_indices,
)
from pyjax.experimental.sparse.coordinates import inside, over_batches, put_outside

Dims = tuple[int, ...]


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The array with dimensions added or of size 1 stretched, as `lax.broadcast_in_dim` does.

    New dimensions before all others become batches; those behind all others are dense if the last
    ones are. Others are sparse, and multiply the stored elements by their sizes.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.ones(3, np.float32))
    >>> bcoo_broadcast_in_dim(m, shape=(2, 3), broadcast_dimensions=(1,))
    BCOO(float32[2, 3], nse=3, n_batch=1)
    """
    del sharding
    shape, dims = tuple(map(int, shape)), tuple(map(int, broadcast_dimensions))
    if len(dims) != mat.ndim or any(
        size not in (1, shape[dim]) for size, dim in zip(mat.shape, dims)
    ):
        fail(
            ValueError,
            f"bcoo_broadcast_in_dim: cannot broadcast {mat!r} to shape {shape} with "
            f"broadcast_dimensions {dims}.",
        )
    n_batch, n_sparse, n_dense = mat.layout
    of_sparse = dims[n_batch : n_batch + n_sparse]
    first_dense = min(dims[n_batch + n_sparse :], default=len(shape))
    first_other = min((*of_sparse, first_dense))
    old_batch = dims[:n_batch]
    new_batch = first_other if not old_batch else max(old_batch) + 1
    if not of_sparse and not n_dense:
        new_batch = len(shape) if not old_batch else new_batch
    new_batch = max(new_batch, first_other if not of_sparse else new_batch)
    # Buffers: batches of size 1 stand for all.
    at_batch = {dim: i for i, dim in enumerate(old_batch)}
    sizes = [mat.data.shape[at_batch[i]] if i in at_batch else 1 for i in range(new_batch)]
    indices = mat.indices.reshape(
        *[mat.indices.shape[at_batch[i]] if i in at_batch else 1 for i in range(new_batch)],
        mat.nse,
        n_sparse,
    )
    dense_sizes = shape[first_dense:]
    at_dense = dict(zip(dims[n_batch + n_sparse :], mat.dense_shape))
    data = mat.data.reshape(
        *sizes, mat.nse, *[at_dense.get(dim, 1) for dim in range(first_dense, len(shape))]
    )
    data = jnp.broadcast_to(data, (*data.shape[: new_batch + 1], *dense_sizes))
    wanted = range(new_batch, first_dense)
    stretched = [
        dim
        for dim in wanted
        if dim not in of_sparse or mat.shape[n_batch + of_sparse.index(dim)] != shape[dim]
    ]
    place = {dim: of_sparse.index(dim) for dim in wanted if dim not in stretched}
    grid = np.stack(
        [i.ravel() for i in np.indices([shape[dim] for dim in stretched])] or [np.zeros(1)],
        axis=-1,
    )[:, : len(stretched)]

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        nse, many = indices.shape[0], len(grid)
        columns = [
            jnp.broadcast_to(
                indices[:, place[dim], None]
                if dim in place
                else jnp.asarray(grid[:, stretched.index(dim)], indices.dtype)[None],
                (nse, many),
            )
            for dim in wanted
        ]
        ok = jnp.broadcast_to(inside(indices, mat.sparse_shape)[:, None], (nse, many)).reshape(-1)
        joint = jnp.stack(columns, axis=-1) if columns else jnp.zeros((nse, many, 0), indices.dtype)
        joint = joint.reshape(nse * many, len(columns))
        joint = put_outside(joint, ok, [shape[dim] for dim in wanted])
        repeated = jnp.broadcast_to(data[:, None], (nse, many, *data.shape[1:]))
        return repeated.reshape(nse * many, *data.shape[1:]), joint

    if stretched or len(place) < n_sparse:
        data, indices = over_batches(one, new_batch, data, indices)
    return BCOO((data, indices), shape=shape)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without some dimensions of size 1.

    Raises:
      ValueError: a dimension has another size.

    >>> import numpy as np
    >>> bcoo_squeeze(BCOO.fromdense(np.ones((1, 3), np.float32)), dimensions=(0,))
    BCOO(float32[3], nse=3)
    """
    dims = {d + arr.ndim if d < 0 else d for d in map(int, dimensions)}
    if any(not 0 <= d < arr.ndim or arr.shape[d] != 1 for d in dims):
        fail(
            ValueError,
            "cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={arr.shape} and dimensions={tuple(dimensions)}",
        )
    return _without(arr, dims)


def _without(mat: BCOO, dims: set[int]) -> BCOO:
    """The array without dimensions; what was sparse in them adds up."""
    n_batch, n_sparse, _ = mat.layout
    kept = np.array([i for i in range(n_sparse) if n_batch + i not in dims], int)
    batch = tuple(d for d in dims if d < n_batch)
    dense = tuple(d - n_sparse + 1 for d in dims if d >= n_batch + n_sparse)
    shape = tuple(size for d, size in enumerate(mat.shape) if d not in dims)
    sizes = tuple(mat.sparse_shape[i] for i in kept)

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        ok = inside(indices, mat.sparse_shape)
        mask = ok.reshape(-1, *[1] * (data.ndim - 1))
        data = jnp.where(mask, data, jnp.zeros((), data.dtype))
        return data, put_outside(indices[:, kept], ok, sizes)

    data, indices = mat.data, mat.indices
    if len(kept) < n_sparse:
        data, indices = over_batches(one, n_batch, data, indices)
    return BCOO((lax.squeeze(data, (*batch, *dense)), lax.squeeze(indices, batch)), shape=shape)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Sums over dimensions; elements that fall together are stored beside each other.

    >>> import numpy as np
    >>> bcoo_reduce_sum(BCOO.fromdense(np.ones((2, 3), np.float32)), axes=(0,)).todense().tolist()
    [2.0, 2.0, 2.0]
    """
    dims = sorted({d + mat.ndim if d < 0 else int(d) for d in axes})
    if any(not 0 <= d < mat.ndim for d in dims):
        fail(ValueError, f"bcoo_reduce_sum: axes {tuple(axes)} of {mat!r}")
    n_batch, n_sparse, _ = mat.layout
    batch = [d for d in dims if d < n_batch]
    if batch:
        # The batches become the last one, and that becomes part of the elements.
        mat = full_batches(mat)
        order = [d for d in range(n_batch) if d not in batch] + batch
        rest = n_batch - len(batch)
        joined = (
            *[mat.shape[d] for d in order[:rest]],
            mat.nse * math.prod(mat.shape[d] for d in batch),
        )
        data, indices = (
            lax.transpose(x, (*order, *range(n_batch, x.ndim))).reshape(
                *joined, *x.shape[n_batch + 1 :]
            )
            for x in (mat.data, mat.indices)
        )
        shape = tuple(size for d, size in enumerate(mat.shape) if d not in batch)
        mat = BCOO((data, indices), shape=shape)
        dims = [d - len(batch) for d in dims if d not in batch]
        n_batch = rest
    dense = tuple(d for d in dims if d >= n_batch + n_sparse)
    if dense:
        data = jnp.sum(mat.data, axis=tuple(d - n_sparse + 1 for d in dense), dtype=mat.dtype)
        shape = tuple(size for d, size in enumerate(mat.shape) if d not in dense)
        mat = replaced(mat, data=data, shape=shape)
        dims = [d for d in dims if d not in dense]
    return _without(mat, set(dims)) if dims else mat


def bcoo_reshape(
    mat: BCOO,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:
    """The array in another shape, in which batch, sparse and dense dimensions stay apart.

    Args:
      dimensions: an order to bring the dimensions into first.
    Raises:
      ValueError: sizes do not fit, or dimensions of several kinds are mixed.
      OverflowError: indices have too few bits to number all elements.

    >>> import numpy as np
    >>> bcoo_reshape(BCOO.fromdense(np.eye(2, dtype=np.float32)), new_sizes=(4,)).indices.tolist()
    [[0], [3]]
    """
    del sharding
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = mat.transpose(dimensions)
    shape = tuple(map(int, new_sizes))
    if math.prod(shape) != mat.size:
        fail(
            ValueError,
            f"cannot reshape array of shape {mat.shape} (size {mat.size}) into shape {shape} "
            f"(size {math.prod(shape)})",
        )
    batch_end = _split_at(mat, shape, mat.batch_shape, "batch and sparse", 0)
    dense_start = len(shape) - _split_at(mat, shape[::-1], mat.dense_shape, "sparse and dense", 0)
    if batch_end > dense_start:
        batch_end = dense_start
    batch, sparse, dense = (
        shape[:batch_end],
        shape[batch_end:dense_start],
        shape[dense_start:],
    )
    if math.prod(sparse) != math.prod(mat.sparse_shape):
        _mixed(mat, shape, "batch and sparse")
    if batch != mat.batch_shape:
        mat = full_batches(mat)
        data = mat.data.reshape(*batch, mat.nse, *mat.dense_shape)
        indices = mat.indices.reshape(*batch, mat.nse, mat.n_sparse)
    else:
        data, indices = mat.data, mat.indices
    if dense != mat.dense_shape:
        data = data.reshape(*data.shape[: len(batch) + 1], *dense)
    if sparse == mat.sparse_shape:
        return BCOO((data, indices), shape=shape)

    def one(indices: Array) -> Array:
        ok = inside(indices, mat.sparse_shape)
        indices = coordinates.from_front(indices, mat.sparse_shape)
        position = coordinates.linear_positions(indices, mat.sparse_shape)[:, 0]
        columns = jnp.unravel_index(jnp.where(ok, position, 0), sparse) if sparse else ()
        new = jnp.stack(columns, axis=-1) if columns else indices[:, :0]
        return put_outside(new.astype(indices.dtype), ok, sparse)

    return BCOO((data, over_batches(one, len(batch), indices)), shape=shape)


def _split_at(mat: BCOO, shape: Dims, sizes: Dims, kinds: str, start: int) -> int:
    """How many leading dimensions of `shape` have as many elements as `sizes`: none if there are
    no sizes, else the fewest, and those of size 1 as there are ones."""
    if not sizes:
        return 0
    wanted, product = math.prod(sizes), 1
    found = [0] if wanted == 1 else []
    for i, size in enumerate(shape):
        product *= size
        if product == wanted:
            found.append(i + 1)
    if not found:
        _mixed(mat, shape, kinds)
    return min(found, key=lambda i: (abs(i - len(sizes)), i))


def _mixed(mat: BCOO, shape: Dims, kinds: str) -> None:
    raise new_error(
        ValueError,
        f"bcoo_reshape: new shape cannot mix {kinds} dimensions; got shape={mat.shape} "
        f"new_shape={shape} with n_batch={mat.n_batch}, n_dense={mat.n_dense}",
        "elements of batches and of dense dimensions have no indices.",
        "Make them sparse first: bcoo_update_layout(n_batch=0, n_dense=0).",
    )


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with some dimensions reversed.

    >>> import numpy as np
    >>> bcoo_rev(BCOO.fromdense(np.array([1, 0, 0], np.float32)), (0,)).todense().tolist()
    [0.0, 0.0, 1.0]
    """
    dims = {d + operand.ndim if d < 0 else int(d) for d in dimensions}
    n_batch, n_sparse, _ = operand.layout
    batch = tuple(d for d in dims if d < n_batch)
    dense = tuple(d - n_sparse + 1 for d in dims if d >= n_batch + n_sparse)
    mat = replaced(
        operand,
        data=lax.rev(operand.data, (*batch, *dense)),
        indices=lax.rev(operand.indices, batch),
    )
    flips = np.array([n_batch + i in dims for i in range(n_sparse)], bool)
    if not flips.any():
        return mat

    def flipped(indices: Array) -> tuple[Array, Array]:
        last = np.asarray(mat.sparse_shape, indices.dtype) - 1
        new = jnp.where(flips[None], last[None] - indices, indices)
        return jnp.ones(len(indices), bool), new

    return with_indices(mat, mat.shape, flipped, unique_indices=mat.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays one behind the other along a dimension.

    Args:
      operands: BCOO of one layout, whose other sizes agree.
    Raises:
      ValueError: layouts differ.   TypeError: other sizes do.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.array([1, 0], np.float32))
    >>> bcoo_concatenate([m, m], dimension=0).todense().tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    operands = list(operands)
    if not operands or not all(isinstance(x, BCOO) for x in operands):
        fail(ValueError, "bcoo_concatenate: operands must be a sequence of BCOO arrays, not empty.")
    first = operands[0]
    if any(x.layout != first.layout for x in operands):
        fail(
            ValueError,
            "bcoo_concatenate: operands have different dimension layouts: "
            f"{[tuple(x.layout) for x in operands]}",
            fix="Give all one layout: bcoo_update_layout(n_batch=..., n_dense=...).",
        )
    dimension = int(dimension)
    others = {x.shape[:dimension] + x.shape[dimension + 1 :] for x in operands}
    if not 0 <= dimension < first.ndim or len(others) > 1:
        fail(
            TypeError,
            f"bcoo_concatenate: operand shapes {[x.shape for x in operands]} cannot be joined "
            f"along dimension {dimension}.",
        )
    n_batch, _n_sparse, _ = first.layout
    total = sum(x.shape[dimension] for x in operands)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    dtype = operands[0].dtype
    for x in operands[1:]:
        dtype = jnp.promote_types(dtype, x.dtype)
    operands = [full_batches(replaced(x, data=x.data.astype(dtype))) for x in operands]
    if dimension < n_batch:
        most = max(x.nse for x in operands)
        padded = [_padded(x, most) for x in operands]
        return BCOO(tuple(jnp.concatenate(x, axis=dimension) for x in zip(*padded)), shape=shape)
    offset, moved = 0, []
    for x in operands:
        moved.append(_placed(x, dimension, offset, shape))
        offset += x.shape[dimension]
    return BCOO(tuple(jnp.concatenate(x, axis=n_batch) for x in zip(*moved)), shape=shape)


def _padded(mat: BCOO, nse: int) -> tuple[Array, Array]:
    """Buffers with room for `nse` elements."""
    n_batch, more = mat.n_batch, nse - mat.nse
    outside = jnp.asarray(mat.sparse_shape, mat.indices.dtype)
    extra = jnp.broadcast_to(outside, (*mat.batch_shape, more, mat.n_sparse))
    zeros = jnp.zeros((*mat.batch_shape, more, *mat.dense_shape), mat.dtype)
    return (
        jnp.concatenate([mat.data, zeros], axis=n_batch),
        jnp.concatenate([mat.indices, extra], axis=n_batch),
    )


def _placed(mat: BCOO, dimension: int, offset: int, shape: Dims) -> tuple[Array, Array]:
    """Buffers of the array as a part of a larger one, along a sparse or dense dimension."""
    n_batch, n_sparse, _ = mat.layout
    if dimension >= n_batch + n_sparse:
        axis = dimension - n_sparse + 1
        widths = [(0, 0)] * mat.data.ndim
        widths[axis] = (offset, shape[dimension] - offset - mat.shape[dimension])
        return jnp.pad(mat.data, widths), mat.indices
    shift = np.array([offset if n_batch + i == dimension else 0 for i in range(n_sparse)])

    def moved(indices: Array) -> tuple[Array, Array]:
        return jnp.ones(len(indices), bool), indices + shift.astype(indices.dtype)[None]

    placed = with_indices(mat, shape, moved)
    return placed.data, placed.indices
