"""Slices: static (`slice`) and with run-time start indices (`dynamic_slice`,
`dynamic_update_slice`).

General indexing by arrays of indices is in gather.py and scatter.py; it is also what a slice whose
start is batched becomes.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.structural import zeros_like_aval
from pyjax.core.symbolic_dims import LARGEST, SymbolicDim, checked_size
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, not_mapped
from pyjax.interpreters.rules import FullJvp, define_primitive
from pyjax.lax.arithmetic import add
from pyjax.lax.common import (
    aval_of,
    canonical_axis,
    canonical_shape,
    dtype_of,
    is_integer,
    ndim_of,
    shape_of,
)
from pyjax.lax.compare import lt, select
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.gather import gather_batching
from pyjax.lax.indexing.gather_scatter_types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    mode_left_open,
)
from pyjax.lax.indexing.scatter import scatter
from pyjax.lax.shape import expand_dims, squeeze
from pyjax.lax.shape_join import concatenate, pad
from xla_backend.hlo.attributes import DynamicSliceAttributes, SliceAttributes
from xla_backend.hlo.opcode import Opcode

# -- slice -----------------------------------------------------------------------------------------


def _check_rank(what: str, values: Sequence[int], aval: ShapedArray) -> None:
    if len(values) != len(aval.shape):
        fail(
            TypeError,
            f"slice {what} must have one entry per operand dimension, got {what} {tuple(values)} "
            f"for operand shape {aval.shape}.",
            f"the operand is {aval.str_short()}.",
            f"give {len(aval.shape)} entries, or use lax.slice_in_dim for one axis.",
        )


def _slice_aval(
    x: ShapedArray,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> list[ShapedArray]:
    _check_rank("start_indices", start_indices, x)
    _check_rank("limit_indices", limit_indices, x)
    steps = strides or (1,) * len(x.shape)
    _check_rank("strides", steps, x)
    shape = []
    for start, limit, step, size in zip(start_indices, limit_indices, steps, x.shape):
        if not 0 <= start <= limit <= size:
            fail(
                TypeError,
                "slice needs 0 <= start_indices <= limit_indices <= operand shape, got "
                f"start_indices {start_indices} and limit_indices {limit_indices} for operand "
                f"shape {x.shape}.",
                "a static slice never clamps its bounds.",
                "clip the bounds first, or use x[a:b] of jnp, which does.",
            )
        if step < 1:
            fail(TypeError, f"slice strides must be positive, got {strides}.", fix="use lax.rev.")
        shape.append(-(-(limit - start) // step))
    return [x.update(shape=tuple(shape))]


def _slice_jvp(g: Array, ans: Array, x: Array, **params: Any) -> Array:
    return slice_p.bind1(g, **params)


def _slice_transpose(
    cts: Sequence[Any],
    x: Any,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    config = []
    for start, count, step, size in zip(
        start_indices, shape_of(ct), strides or (1,) * len(start_indices), x.aval.shape
    ):
        covered = count if step == 1 else (count - 1) * step + 1 if count else 0
        config.append((start, size - start - covered, step - 1))
    return [pad(ct, np.zeros((), dtype_of(ct)), config)]


def _slice_batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int],
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> Any:
    (x,), (dim,) = args, dims
    starts, limits = list(start_indices), list(limit_indices)
    starts.insert(dim, 0)
    limits.insert(dim, shape_of(x)[dim])
    if strides is not None:
        steps = list(strides)
        steps.insert(dim, 1)
        strides = tuple(steps)
    out = slice_p.bind_all(
        x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=strides
    )
    return out, [dim]


def _slice_lowering(
    ctx: Any,
    x: Any,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> Any:
    attributes = SliceAttributes(start_indices, limit_indices, strides or (1,) * len(start_indices))
    return ctx.builder.add(Opcode.SLICE, (x,), attributes, shape=ctx.shapes_out[0])


slice_p = define_primitive(
    "slice",
    abstract_eval=_slice_aval,
    jvp=_slice_jvp,
    transpose=_slice_transpose,
    batching=_slice_batching,
    lowering=_slice_lowering,
)


def _static_ints(name: str, values: Any) -> tuple[int, ...]:
    if isinstance(values, tuple) and all(type(v) is int for v in values):
        return values
    try:
        return tuple(checked_size(v) for v in values)
    except TypeError:
        fail(
            TypeError,
            f"lax.slice needs {name} to be a sequence of static integers, got {values!r}.",
            "the sizes of a slice are part of the result's shape.",
            "use lax.dynamic_slice where the start is computed.",
        )


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """operand[start:limit:stride] in every dimension, with static bounds.

    Args:
      start_indices, limit_indices: one int per dimension, 0 <= start <= limit <= size.
      strides: positive ints; None means 1 everywhere.
    Returns:
      array of sizes ceil((limit - start) / stride).
    Raises:
      TypeError: bounds outside the operand, or not one per dimension, or not static.

    >>> lax.slice(jnp.arange(6), (1,), (5,), (2,))
    Array([1, 3], dtype=int32)
    """
    return slice_p.bind1(
        operand,
        start_indices=_static_ints("start_indices", start_indices),
        limit_indices=_static_ints("limit_indices", limit_indices),
        strides=None if strides is None else _static_ints("strides", strides),
    )


def slice_in_dim(
    operand: Array,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """operand[..., start:limit:stride, ...] along `axis`; None and negative bounds as in Python.

    >>> lax.slice_in_dim(jnp.arange(6), 1, 4)
    Array([1, 2, 3], dtype=int32)
    """
    shape = shape_of(operand)
    axis = canonical_axis("slice_in_dim", axis, len(shape))
    size = shape[axis]
    start = 0 if start_index is None else checked_size(start_index)
    limit = size if limit_index is None else checked_size(limit_index)
    start, limit = (v + size if v < 0 else v for v in (start, limit))
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], steps[axis] = start, limit, operator.index(stride)
    return slice(operand, starts, limits, steps)


def index_in_dim(operand: Array, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """operand[..., index, ...] along `axis` for a static index; the axis stays with size 1 if
    keepdims.

    Raises:
      IndexError: the index is out of bounds.

    >>> lax.index_in_dim(jnp.arange(6).reshape(2, 3), 1, keepdims=False)
    Array([3, 4, 5], dtype=int32)
    """
    axis = canonical_axis("index_in_dim", axis, ndim_of(operand))
    index, size = operator.index(index), shape_of(operand)[axis]
    if not -size <= index < size:
        fail(
            IndexError,
            f"index {index} is out of bounds for axis {axis} with size {size}",
            fix=f"use an index in [{-size}, {size}).",
        )
    index = index + size if index < 0 else index
    result = slice_in_dim(operand, index, index + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


# -- dynamic_slice ---------------------------------------------------------------------------------


def _check_indices(name: str, rank: int, indices: Sequence[ShapedArray]) -> None:
    if len(indices) != rank:
        fail(
            TypeError,
            f"{name} needs one start index per operand dimension, got {len(indices)} for {rank} "
            "dimensions.",
        )
    kinds = {a.dtype for a in indices}
    if len(kinds) > 1 or not all(is_integer(d) for d in kinds):
        texts = ", ".join(str(a.dtype) for a in indices)
        fail(
            TypeError,
            f"index arguments to {name} must be integers of the same type, got: {texts}",
            fix="convert the indices, e.g. with jnp.asarray(i, jnp.int32).",
        )
    for aval in indices:
        if aval.shape:
            fail(
                TypeError,
                f"start indices of {name} must be scalars, got {aval.str_short()}.",
                fix=f"pass a sequence of scalars, or use jax.vmap around {name} for many starts.",
            )


def _dynamic_slice_aval(
    x: ShapedArray, *indices: ShapedArray, slice_sizes: tuple[int, ...]
) -> list[ShapedArray]:
    if len(slice_sizes) != len(x.shape):
        fail(
            TypeError,
            "slice slice_sizes must have length equal to the number of dimensions of the operand, "
            f"got slice_sizes {slice_sizes} for operand shape {x.shape}.",
        )
    if any(size > have for size, have in zip(slice_sizes, x.shape)):
        fail(
            TypeError,
            "slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{slice_sizes} for operand shape {x.shape}.",
        )
    _check_indices("dynamic_slice", len(x.shape), indices)
    return [x.update(shape=slice_sizes)]


def _dynamic_slice_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: tuple[int, ...]
) -> tuple[list[Any], list[Any]]:
    x, *starts = primals
    out = dynamic_slice_p.bind1(x, *starts, slice_sizes=slice_sizes)
    t = tangents[0]
    if type(t) is ad.Zero:
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    return [out], [dynamic_slice_p.bind1(t, *starts, slice_sizes=slice_sizes)]


def _dynamic_slice_transpose(
    cts: Sequence[Any], x: Any, *starts: Any, slice_sizes: tuple[int, ...]
) -> list[Any]:
    (ct,) = cts
    rest = [None] * len(starts)
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval), *rest]
    return [dynamic_update_slice_p.bind1(zeros_like_aval(x.aval), ct, *starts), *rest]


def _stack_starts(
    axis_size: int, starts: Sequence[Any], dims: Sequence[Any]
) -> tuple[Any, int | None]:
    """Start scalars as one index vector, [batch, n] with dim 0 if any is batched."""
    if all(d is not_mapped for d in dims):
        return concatenate([expand_dims(s, (0,)) for s in starts], 0), not_mapped
    columns = [expand_dims(bdim_at_front(s, d, axis_size), (1,)) for s, d in zip(starts, dims)]
    return concatenate(columns, 1), 0


def _dynamic_slice_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, slice_sizes: tuple[int, ...]
) -> Any:
    x, *starts = args
    x_dim, *start_dims = dims
    if all(d is not_mapped for d in start_dims):
        # Only the operand is batched: slice it whole along the batch dimension.
        index_dtype = dtype_of(starts[0]) if starts else np.dtype(np.int32)
        starts.insert(x_dim, np.zeros((), index_dtype))
        sizes = list(slice_sizes)
        sizes.insert(x_dim, axis_size)
        return dynamic_slice_p.bind_all(x, *starts, slice_sizes=tuple(sizes)), [x_dim]
    rank = len(slice_sizes)
    # Start indices known to be the constant 0 select a whole dimension; leave them out.
    used = [i for i, (s, d) in enumerate(zip(starts, start_dims)) if not _is_zero(s, d)]
    index, index_dim = _stack_starts(
        axis_size, [starts[i] for i in used], [start_dims[i] for i in used]
    )
    dnums = GatherDimensionNumbers(
        offset_dims=tuple(range(rank)), collapsed_slice_dims=(), start_index_map=tuple(used)
    )
    return gather_batching(
        axis_size,
        (x, index),
        (x_dim, index_dim),
        dimension_numbers=dnums,
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=mode_left_open(GatherScatterMode.CLIP),
        fill_value=None,
    )


def _is_zero(start: Any, dim: Any) -> bool:
    return dim is not_mapped and isinstance(start, (int, np.generic, np.ndarray)) and not start


def _dynamic_slice_lowering(ctx: Any, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
    return ctx.builder.add(
        Opcode.DYNAMIC_SLICE,
        (x, *starts),
        DynamicSliceAttributes(slice_sizes),
        shape=ctx.shapes_out[0],
    )


dynamic_slice_p = define_primitive(
    "dynamic_slice",
    abstract_eval=_dynamic_slice_aval,
    jvp=FullJvp(_dynamic_slice_jvp),
    transpose=_dynamic_slice_transpose,
    batching=_dynamic_slice_batching,
    lowering=_dynamic_slice_lowering,
)

# -- dynamic_update_slice --------------------------------------------------------------------------


def _dynamic_update_slice_aval(
    x: ShapedArray, update: ShapedArray, *indices: ShapedArray
) -> list[ShapedArray]:
    if len(x.shape) != len(update.shape):
        fail(
            TypeError,
            f"dynamic_update_slice update must have the same rank as operand, got update shape "
            f"{update.shape} for operand shape {x.shape}.",
            fix="add the missing dimensions with lax.expand_dims(update, (axis,)).",
        )
    if any(size > have for size, have in zip(update.shape, x.shape)):
        fail(
            TypeError,
            "dynamic_update_slice update shape must be smaller than operand shape, got update "
            f"shape {update.shape} for operand shape {x.shape}.",
        )
    if x.dtype != update.dtype:
        fail(
            TypeError,
            "lax.dynamic_update_slice requires arguments to have the same dtypes, got "
            f"{x.dtype}, {update.dtype}.",
            fix="convert the update with lax.convert_element_type(update, operand.dtype).",
        )
    _check_indices("dynamic_update_slice", len(x.shape), indices)
    return [x.update(weak_type=False)]


def _dynamic_update_slice_jvp(
    primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    x, update, *starts = primals
    out = dynamic_update_slice_p.bind1(x, update, *starts)
    t_x, t_update = tangents[:2]
    if type(t_x) is ad.Zero and type(t_update) is ad.Zero:
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    t_x, t_update = ad.instantiate_zeros(t_x), ad.instantiate_zeros(t_update)
    return [out], [dynamic_update_slice_p.bind1(t_x, t_update, *starts)]


def _dynamic_update_slice_transpose(
    cts: Sequence[Any], x: Any, update: Any, *starts: Any
) -> list[Any]:
    (ct,) = cts
    x_ct = update_ct = None
    zero = type(ct) is ad.Zero
    update_aval = update.aval if ad.is_undefined_primal(update) else aval_of(update)
    if ad.is_undefined_primal(x):
        x_ct = (
            ad.Zero(x.aval)
            if zero
            else dynamic_update_slice_p.bind1(ct, zeros_like_aval(update_aval), *starts)
        )
    if ad.is_undefined_primal(update):
        update_ct = (
            ad.Zero(update.aval)
            if zero
            else dynamic_slice_p.bind1(ct, *starts, slice_sizes=update_aval.shape)
        )
    return [x_ct, update_ct, *[None] * len(starts)]


def _dynamic_update_slice_batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    x, update, *starts = args
    x_dim, update_dim, *start_dims = dims
    x = bdim_at_front(x, x_dim, axis_size)
    update = bdim_at_front(update, update_dim, axis_size)
    if all(d is not_mapped for d in start_dims):
        index_dtype = dtype_of(starts[0]) if starts else np.dtype(np.int32)
        return dynamic_update_slice_p.bind_all(x, update, np.zeros((), index_dtype), *starts), [0]
    rank = len(starts)
    used = [i for i, (s, d) in enumerate(zip(starts, start_dims)) if not _is_zero(s, d)]
    index, index_dim = _stack_starts(
        axis_size, [starts[i] for i in used], [start_dims[i] for i in used]
    )
    dnums = ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, rank + 1)),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=tuple(i + 1 for i in used),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    assert index_dim == 0  # a start that is not batched at all does not come here
    out = scatter(
        x,
        index,
        update,
        dnums,
        indices_are_sorted=True,
        unique_indices=True,
        mode=mode_left_open(GatherScatterMode.CLIP),
    )
    return [out], [0]


def _dynamic_update_slice_lowering(ctx: Any, x: Any, update: Any, *starts: Any) -> Any:
    return ctx.builder.add(
        Opcode.DYNAMIC_UPDATE_SLICE, (x, update, *starts), shape=ctx.shapes_out[0]
    )


dynamic_update_slice_p = define_primitive(
    "dynamic_update_slice",
    abstract_eval=_dynamic_update_slice_aval,
    jvp=FullJvp(_dynamic_update_slice_jvp),
    transpose=_dynamic_update_slice_transpose,
    batching=_dynamic_update_slice_batching,
    lowering=_dynamic_update_slice_lowering,
)

# -- public functions ------------------------------------------------------------------------------


def _start_scalars(
    shape: tuple[int, ...], indices: Any, allow_negative: bool | Sequence[bool]
) -> list[Any]:
    """Start indices as scalars of one integer dtype, negative ones counted from the end."""
    if not isinstance(indices, (tuple, list)):
        if ndim_of(indices) != 1:
            fail(
                ValueError,
                "Indices argument must be a 1D array or a sequence of scalars, got "
                f"{aval_of(indices).str_short()}.",
            )
        count = shape_of(indices)[0]
        indices = [indices[i] for i in range(count)]
    rank = len(shape)
    if len(indices) != rank:
        fail(
            ValueError,
            "Length of slice indices must match number of operand dimensions "
            f"({len(indices)} vs {shape})",
            fix="give one start index for each dimension (0 for whole dimensions).",
        )
    wrap = (allow_negative,) * rank if isinstance(allow_negative, bool) else tuple(allow_negative)
    if len(wrap) != rank:
        fail(
            ValueError,
            f"allow_negative_indices has {len(wrap)} entries for {rank} dimensions.",
        )
    arrays = [i for i in indices if not isinstance(i, (int, np.integer))]
    dtype = dtypes.result_type(*arrays) if arrays else np.dtype(np.int32)
    if not is_integer(dtype) or not all(is_integer(dtype_of(i)) for i in arrays):
        texts = ", ".join(str(dtype_of(i)) for i in indices)
        fail(
            TypeError,
            f"index arguments to dynamic_slice must be integers of the same type, got: {texts}",
            fix="convert the start indices to an integer dtype, e.g. i.astype(jnp.int32).",
        )
    bits = dtypes.iinfo(dtype)
    known = [LARGEST if type(n) is SymbolicDim else n for n in shape]
    biggest = builtins.max(known, default=0)
    if biggest > bits.max:  # the dtype cannot even name the last position
        dtype = np.dtype(np.int32 if biggest <= np.iinfo(np.int32).max else np.int64)
    unsigned = np.issubdtype(dtype, np.unsignedinteger)
    result: list[ArrayLike] = []
    for index, size, negative in zip(indices, shape, wrap):
        if isinstance(index, (int, np.integer)):
            position = int(index) + size if negative and index < 0 else int(index)
            if type(position) is SymbolicDim:
                result.append(_as_scalar(position, dtype))
                continue
            bound = np.iinfo(dtype)
            result.append(
                np.asarray(builtins.min(builtins.max(position, bound.min), bound.max), dtype)
            )
        elif unsigned or not negative or np.issubdtype(dtype_of(index), np.unsignedinteger):
            result.append(convert_element_type(index, dtype))
        else:
            is_negative = lt(index, np.zeros((), dtype_of(index)))
            index = convert_element_type(index, dtype)
            result.append(select(is_negative, add(index, _as_scalar(size, dtype)), index))
    return result


def _as_scalar(size: Any, dtype: np.dtype) -> Any:
    if type(size) is SymbolicDim:
        return convert_element_type(size.value(), dtype)
    return np.asarray(size, dtype)


def dynamic_slice(
    operand: Array,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of static sizes that starts at computed indices.

    Args:
      start_indices: one integer scalar per dimension (or a 1D array). Starts are clamped so that
        the slice stays inside the operand.
      slice_sizes: static sizes, at most the operand's.
      allow_negative_indices: whether negative starts count from the end (per dimension, or for
        all).
    Returns:
      array of shape slice_sizes.
    Raises:
      TypeError: sizes exceed the operand, or an index is not an integer scalar.
      ValueError: not one start per dimension.

    >>> lax.dynamic_slice(jnp.arange(6), (2,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    starts = _start_scalars(shape_of(operand), start_indices, allow_negative_indices)
    return dynamic_slice_p.bind1(
        operand, *starts, slice_sizes=canonical_shape(slice_sizes, "slice_sizes")
    )


def dynamic_update_slice(
    operand: Array,
    update: ArrayLike,
    start_indices: Any,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A copy of operand with `update` written at computed start indices (clamped as in
    dynamic_slice).

    Raises:
      TypeError: ranks or dtypes differ, or the update is larger than the operand.

    >>> lax.dynamic_update_slice(jnp.zeros(4), jnp.array([7.0, 8.0]), (1,))
    Array([0., 7., 8., 0.], dtype=float32)
    """
    starts = _start_scalars(shape_of(operand), start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind1(operand, update, *starts)


def _along(axis: int, rank: int, start: Any) -> list[Any]:
    starts: list[Any] = [0] * rank
    starts[axis] = start
    return starts


def dynamic_slice_in_dim(
    operand: Array,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """dynamic_slice along one axis; the other dimensions are kept whole.

    >>> lax.dynamic_slice_in_dim(jnp.arange(6), 2, 3)
    Array([2, 3, 4], dtype=int32)
    """
    sizes = list(shape_of(operand))
    axis = canonical_axis("dynamic_slice_in_dim", axis, len(sizes))
    sizes[axis] = operator.index(slice_size)
    return dynamic_slice(
        operand,
        _along(axis, len(sizes), start_index),
        sizes,
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_index_in_dim(
    operand: Array,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """operand[..., index, ...] along `axis` for a computed index (clamped to the bounds).

    >>> lax.dynamic_index_in_dim(jnp.array([4, 5, 6]), 1, keepdims=False)
    Array(5, dtype=int32)
    """
    result = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    if keepdims:
        return result
    return squeeze(result, (canonical_axis("dynamic_index_in_dim", axis, ndim_of(operand)),))


def dynamic_update_slice_in_dim(
    operand: Array,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """dynamic_update_slice that starts at `start_index` of one axis and at 0 of the others.

    >>> lax.dynamic_update_slice_in_dim(jnp.zeros(4), jnp.ones(2), 1, 0)
    Array([0., 1., 1., 0.], dtype=float32)
    """
    rank = ndim_of(operand)
    axis = canonical_axis("dynamic_update_slice_in_dim", axis, rank)
    return dynamic_update_slice(
        operand,
        update,
        _along(axis, rank, start_index),
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_update_index_in_dim(
    operand: Array,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A copy of operand whose entry `index` along `axis` is `update` (that axis may be absent).

    >>> lax.dynamic_update_index_in_dim(jnp.zeros(3), 7.0, 1, 0)
    Array([0., 7., 0.], dtype=float32)
    """
    rank = ndim_of(operand)
    axis = canonical_axis("dynamic_update_index_in_dim", axis, rank)
    if ndim_of(update) != rank:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
