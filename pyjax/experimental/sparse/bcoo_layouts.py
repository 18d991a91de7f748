"""Which dimensions of a BCOO array are batches, sparse or dense ones."""

from __future__ import annotations

from functools import partial

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.core.source_info import warn_user
from pyjax.experimental.sparse import coordinates
from pyjax.experimental.sparse.base import SparseEfficiencyError, SparseEfficiencyWarning
from pyjax.experimental.sparse.bcoo_array import (
    BCOO,
    full_batches,
)
from pyjax.experimental.sparse.coordinates import inside, over_batches, put_outside

Dims = tuple[int, ...]


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The same array with other numbers of batch and dense dimensions.

    Args:
      n_batch, n_dense: new numbers, by default the old ones. Batch and dense dimensions that become
        sparse multiply the stored elements by their sizes; sparse dimensions that become batch or
        dense ones waste memory, unless their size is 1.
      on_inefficient: what to do about such waste: "error", "warn" or None.
    Raises:
      SparseEfficiencyError: memory would be wasted.   ValueError: there are not so many dimensions.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.ones((2, 3), np.float32), n_batch=1)
    >>> bcoo_update_layout(m, n_batch=0)
    BCOO(float32[2, 3], nse=6)
    """
    new_batch = mat.n_batch if n_batch is None else int(n_batch)
    new_dense = mat.n_dense if n_dense is None else int(n_dense)
    if on_inefficient not in ("error", "warn", None):
        fail(ValueError, f"{on_inefficient=}; expected one of ['error', 'warn', None].")
    for name, number in (("n_batch", new_batch), ("n_dense", new_dense)):
        if number < 0:
            fail(ValueError, f"{name} must be non-negative; got {number}")
    if new_batch + new_dense > mat.ndim:
        fail(
            ValueError,
            f"sum of n_batch={new_batch} and n_dense={new_dense} cannot be larger than "
            f"mat.ndim={mat.ndim}.",
        )
    for name, old, new, sizes in (
        ("n_batch", mat.n_batch, new_batch, mat.shape[mat.n_batch : new_batch]),
        (
            "n_dense",
            mat.n_dense,
            new_dense,
            mat.shape[mat.ndim - new_dense :][: new_dense - mat.n_dense],
        ),
    ):
        if new > old and any(size != 1 for size in sizes):
            _wasteful(mat, f"increasing {name} from {old} to {new}", on_inefficient)
    while mat.n_batch > min(new_batch, mat.n_batch):
        mat = _batch_to_sparse(mat)
    if mat.n_dense > new_dense:
        mat = _dense_to_sparse(mat, mat.n_dense - new_dense)
    if mat.n_dense < new_dense:
        mat = _sparse_to_dense(mat, new_dense - mat.n_dense)
    while mat.n_batch < new_batch:
        mat = _sparse_to_batch(mat)
    return mat


def _wasteful(mat: BCOO, what: str, on_inefficient: str | None) -> None:
    said = f"For matrix of shape {mat.shape}, {what} results in inefficient storage."
    option = "set the on_inefficient argument of bcoo_update_layout to"
    if on_inefficient == "error":
        fail(
            SparseEfficiencyError,
            said,
            "every batch, or row of dense dimensions, stores as many elements as the whole array.",
            f"To disable this error, {option} 'warn' or None.",
        )
    if on_inefficient == "warn":
        text = f"{said} To disable this warning, {option} None."
        warn_user(text, SparseEfficiencyWarning)


def _batch_to_sparse(mat: BCOO) -> BCOO:
    """The last batch dimension becomes the first sparse one."""
    mat = full_batches(mat)
    n, size = mat.n_batch - 1, mat.shape[mat.n_batch - 1]
    shape = mat.indices.shape
    numbers = lax.broadcasted_iota(mat.indices.dtype, (*shape[:-1], 1), n)
    indices = jnp.concatenate([numbers, mat.indices], axis=-1)
    merged = (*shape[:n], size * mat.nse)
    return BCOO(
        (
            mat.data.reshape(*merged, *mat.dense_shape),
            indices.reshape(*merged, mat.n_sparse + 1),
        ),
        shape=mat.shape,
    )


def _dense_to_sparse(mat: BCOO, number: int) -> BCOO:
    """The first dense dimensions become the last sparse ones."""
    sizes, rest = mat.dense_shape[:number], mat.dense_shape[number:]

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        nse, n = indices.shape
        grid = np.stack([i.ravel() for i in np.indices(sizes)], axis=-1)
        old = jnp.broadcast_to(indices[:, None], (nse, len(grid), n))
        new = jnp.broadcast_to(jnp.asarray(grid, indices.dtype)[None], (nse, *grid.shape))
        joint = jnp.concatenate([old, new], axis=-1).reshape(nse * len(grid), n + number)
        return data.reshape(nse * len(grid), *rest), joint

    return BCOO(over_batches(one, mat.n_batch, mat.data, mat.indices), shape=mat.shape)


def _sparse_to_dense(mat: BCOO, number: int) -> BCOO:
    """The last sparse dimensions become the first dense ones: an element each."""
    keep = mat.n_sparse - number
    sizes = mat.sparse_shape[keep:]

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        ok = inside(indices, mat.sparse_shape)
        own = coordinates.put_outside(indices[:, keep:], ok, sizes)
        place = partial(coordinates.scattered, sizes=sizes)
        spread = over_batches(place, 1, data[:, None], own[:, None])
        return spread, put_outside(indices[:, :keep], ok, mat.sparse_shape[:keep])

    return BCOO(over_batches(one, mat.n_batch, mat.data, mat.indices), shape=mat.shape)


def _sparse_to_batch(mat: BCOO) -> BCOO:
    """The first sparse dimension becomes the last batch one: all elements in each batch, those of
    others outside."""
    size, sizes = mat.sparse_shape[0], mat.sparse_shape[1:]

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        ok = inside(indices, mat.sparse_shape)
        indices = coordinates.from_front(indices, mat.sparse_shape)
        mine = lax.iota(indices.dtype, size)[:, None] == indices[None, :, 0]
        mine = mine & ok[None]
        rest = jnp.broadcast_to(indices[None, :, 1:], (size, *indices[:, 1:].shape))
        rest = over_batches(partial(put_outside, sizes=sizes), 1, rest, mine)
        mask = mine.reshape(*mine.shape, *[1] * (data.ndim - 1))
        return jnp.where(mask, data[None], jnp.zeros((), data.dtype)), rest

    return BCOO(over_batches(one, mat.n_batch, mat.data, mat.indices), shape=mat.shape)
