"""vmap of functions of sparse arrays: the mapped axis is a batch dimension."""

from __future__ import annotations

from typing import Any

from pyjax.api.vmap import register_shaped_node
from pyjax.core.errors import fail
from pyjax.experimental.sparse import coordinates
from pyjax.experimental.sparse.bcoo_array import BCOO
from pyjax.experimental.sparse.bcsr import BCSR


def _without_axis(mat: Any, axis: int) -> Any:
    if not 0 <= axis < mat.n_batch:
        fail(
            ValueError,
            f"Cannot map in_axis={axis} for {type(mat).__name__} array with n_batch={mat.n_batch}. "
            "in_axes for batched sparse operations must correspond to a batch dimension.",
            f"the argument is {mat!r}.",
            "Give it batches: bcoo_update_layout(x, n_batch=1, on_inefficient=None).",
        )
    batch = mat.shape[: mat.n_batch]
    buffers = [coordinates.full_batches(x, batch) for x in mat.tree_flatten()[0]]
    return _of_shape(mat, (*mat.shape[:axis], *mat.shape[axis + 1 :]), buffers)


def _with_axis(mat: Any, axis: int, size: int) -> Any:
    shape = (*mat.shape[:axis], size, *mat.shape[axis:])
    mat = _of_shape(mat, shape, mat.tree_flatten()[0])
    if axis >= mat.n_batch:
        fail(
            ValueError,
            f"Cannot use out_axes={axis} for {type(mat).__name__} array with "
            f"n_batch={mat.n_batch}: a mapped axis is a batch dimension.",
            fix="Use out_axes=0.",
        )
    return mat


def _of_shape(mat: Any, shape: tuple[int, ...], buffers: Any) -> Any:
    info = mat.info._replace(shape=shape)
    return type(mat).tree_unflatten(info._asdict(), buffers)


for _kind in (BCOO, BCSR):
    register_shaped_node(_kind, _without_axis, _with_axis)
