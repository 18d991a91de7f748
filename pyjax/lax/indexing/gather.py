"""gather: slices of one operand taken at many start indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.structural import zeros_like_aval
from pyjax.interpreters import ad
from pyjax.interpreters.batching import move_bdim, not_mapped
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import FullJvp, define_rules
from pyjax.lax.arithmetic import add, rem
from pyjax.lax.bitwise import bitwise_and
from pyjax.lax.common import (
    aval_of,
    canonical_axis,
    canonical_dims,
    canonical_shape,
    dtype_of,
    is_inexact,
    ndim_of,
    shape_of,
)
from pyjax.lax.compare import full_value, ge, le, lt, select
from pyjax.lax.indexing.gather_scatter_types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    bounds_like,
    check_dims,
    check_index_operand,
    combiner_jaxpr,
    gather_p,
    scatter_add_p,
    shifted,
    window_bounds,
)
from pyjax.lax.nary import expand_to
from pyjax.lax.reduce import reduce_and
from pyjax.lax.reshard import cotangent_as
from pyjax.lax.shape import expand_dims
from pyjax.lax.shape_join import concatenate
from xla_backend.hlo.attributes import GatherAttributes
from xla_backend.hlo.opcode import Opcode


def _gather_aval(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    **params: Any,
) -> list[ShapedArray]:
    check_index_operand("Gather", indices)
    dn = dimension_numbers
    rank = len(x.shape)
    batch = indices.shape[:-1]
    out_rank = len(batch) + len(dn.offset_dims)
    check_dims("gather", "offset_dims", dn.offset_dims, out_rank)
    check_dims("gather", "collapsed_slice_dims", dn.collapsed_slice_dims, rank)
    check_dims("gather", "operand_batching_dims", dn.operand_batching_dims, rank)
    check_dims("gather", "start_index_map", dn.start_index_map, rank, ascending=False)
    check_dims(
        "gather",
        "start_indices_batching_dims",
        dn.start_indices_batching_dims,
        len(batch),
        ascending=False,
    )
    if len(dn.start_index_map) != indices.shape[-1]:
        fail(
            TypeError,
            f"Gather op has {len(dn.start_index_map)} elements in start_index_map and the bound of "
            f"dimension {len(batch)} of indices is {indices.shape[-1]}. These two numbers must be "
            "equal.",
        )
    if len(slice_sizes) != rank:
        fail(
            TypeError,
            "Gather op must have one slice size for every input dimension; got "
            f"{len(slice_sizes)} sizes for {x.str_short()}.",
        )
    dropped = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    if len(dn.offset_dims) + len(dropped) != rank:
        fail(
            TypeError,
            "All components of the offset index in a gather op must either be an offset "
            f"dimension, be explicitly collapsed or be batching; got {dn} for {x.str_short()}.",
        )
    for d, (size, have) in enumerate(zip(slice_sizes, x.shape)):
        if not 0 <= size <= have:
            fail(
                TypeError,
                f"Slice size at index {d} in gather op is out of range, must be within [0, {have} "
                f"+ 1), got {size}.",
            )
        if d in dropped and size > 1:
            fail(
                TypeError,
                f"Gather op can only collapse slice dims (or batch dims) of size 1, got {size} at "
                f"dimension {d}.",
            )
    for a, b in zip(dn.operand_batching_dims, dn.start_indices_batching_dims):
        if x.shape[a] != indices.shape[b]:
            fail(
                TypeError,
                f"Gather op batching dimensions {a} of the operand and {b} of the indices must "
                f"have the same size, got {x.shape[a]} and {indices.shape[b]}.",
            )
    offsets = iter([s for d, s in enumerate(slice_sizes) if d not in dropped])
    batches = iter(batch)
    is_offset = set(dn.offset_dims)
    shape = tuple(next(offsets) if i in is_offset else next(batches) for i in range(out_rank))
    return [x.update(shape=shape)]


def _gather_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    x, indices = primals
    out = gather_p.bind1(x, indices, **params)
    t = tangents[0]
    if type(t) is ad.Zero:
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    filled = params["mode"] is GatherScatterMode.FILL_OR_DROP
    params["fill_value"] = 0 if filled else params["fill_value"]
    return [out], [gather_p.bind1(t, indices, **params)]


def _gather_transpose(
    cts: Sequence[Any],
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval), None]
    dn = dimension_numbers
    scatter_numbers = ScatterDimensionNumbers(
        update_window_dims=dn.offset_dims,
        inserted_window_dims=dn.collapsed_slice_dims,
        scatter_dims_to_operand_dims=dn.start_index_map,
        operand_batching_dims=dn.operand_batching_dims,
        scatter_indices_batching_dims=dn.start_indices_batching_dims,
    )

    def scattered(indices: Array, ct: Array) -> Array:
        return scatter_add_p.bind1(
            zeros_like_aval(x.aval.with_split(None)),
            indices,
            ct,
            dimension_numbers=scatter_numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            update_jaxpr=combiner_jaxpr(add, dtype_of(ct)),
            update_consts=(),
        )

    return [cotangent_as(x.aval, scattered, indices, ct), None]


def gather_batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    **params: Any,
) -> Any:
    """Batching: a batched operand adds a slice dimension, batched indices a batch dimension; both
    add a pair of batching dimensions."""
    (x, indices), (x_dim, index_dim) = args, dims
    dn = dimension_numbers
    offsets, collapsed = shifted(dn.offset_dims), dn.collapsed_slice_dims
    if index_dim is not_mapped:
        x = move_bdim(x, x_dim, 0)
        numbers = GatherDimensionNumbers(
            (0, *offsets),
            shifted(collapsed),
            shifted(dn.start_index_map),
            shifted(dn.operand_batching_dims),
            dn.start_indices_batching_dims,
        )
        sizes = (axis_size, *slice_sizes)
    elif x_dim is not_mapped:
        indices = move_bdim(indices, index_dim, 0)
        numbers = dn._replace(
            offset_dims=offsets,
            start_indices_batching_dims=shifted(dn.start_indices_batching_dims),
        )
        sizes = slice_sizes
    else:
        x, indices = move_bdim(x, x_dim, 0), move_bdim(indices, index_dim, 0)
        numbers = GatherDimensionNumbers(
            offsets,
            shifted(collapsed),
            shifted(dn.start_index_map),
            (0, *shifted(dn.operand_batching_dims)),
            (0, *shifted(dn.start_indices_batching_dims)),
        )
        sizes = (1 if axis_size else 0, *slice_sizes)
    out = gather_p.bind1(x, indices, dimension_numbers=numbers, slice_sizes=sizes, **params)
    return [out], [0]


def _gather_filled(
    x: Array,
    indices: Array,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    fill_value: Any,
    **params: Any,
) -> Array:
    """FILL_OR_DROP in terms of CLIP: out-of-bounds slices are replaced by the fill value."""
    dn = dimension_numbers
    params["mode"] = GatherScatterMode.CLIP
    out = gather_p.bind1(
        x,
        indices,
        dimension_numbers=dn,
        slice_sizes=slice_sizes,
        fill_value=None,
        **params,
    )
    upper = window_bounds(shape_of(x), slice_sizes, dn.start_index_map)
    inside = bitwise_and(
        ge(indices, full_value(indices, 0)), le(indices, bounds_like(indices, upper))
    )
    inside = reduce_and(inside, (ndim_of(indices) - 1,))
    shape = shape_of(out)
    batch_positions = tuple(i for i in range(len(shape)) if i not in dn.offset_dims)
    return select(expand_to(inside, shape, batch_positions), out, full_value(out, fill_value))


_lower_filled = lower_fun(_gather_filled)


def _gather_lowering(
    ctx: Any,
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> Any:
    if mode in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT):
        return _lower_filled(
            ctx,
            x,
            indices,
            dimension_numbers=dimension_numbers,
            slice_sizes=slice_sizes,
            unique_indices=unique_indices,
            indices_are_sorted=indices_are_sorted,
            mode=mode,
            fill_value=0 if mode is GatherScatterMode.ONE_HOT else fill_value,
        )
    dn = dimension_numbers
    attributes = GatherAttributes(
        offset_dims=dn.offset_dims,
        collapsed_slice_dims=dn.collapsed_slice_dims,
        start_index_map=dn.start_index_map,
        index_vector_dim=indices.shape.rank - 1,
        slice_sizes=slice_sizes,
        operand_batching_dims=dn.operand_batching_dims,
        start_indices_batching_dims=dn.start_indices_batching_dims,
        indices_are_sorted=indices_are_sorted,
    )
    # HLO's gather clamps the indices itself.
    return ctx.builder.add(Opcode.GATHER, (x, indices), attributes, shape=ctx.shapes_out[0])


define_rules(
    gather_p,
    exact_params=True,
    abstract_eval=_gather_aval,
    jvp=FullJvp(_gather_jvp),
    transpose=_gather_transpose,
    batching=gather_batching,
    lowering=_gather_lowering,
)


def default_fill(dtype: Any) -> Any:
    """What FILL_OR_DROP gathers out of bounds: nan, the most negative int, the largest unsigned
    (also in the words of a random key), True.
    """
    if dtypes.issubdtype(dtype, dtypes.extended):
        dtype = dtype.physical_dtype
    if is_inexact(dtype):
        return np.nan
    if dtype == np.bool_:
        return True
    info = dtypes.iinfo(dtype)
    return int(info.min) if info.min < 0 else int(info.max)


def gather_numbers(numbers: Any) -> GatherDimensionNumbers:
    """Dimension numbers with plain tuples of Python ints."""
    return GatherDimensionNumbers(*(canonical_dims("gather", d) for d in numbers))


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Slices of `operand` at the given start indices: HLO's gather.

    Args:
      start_indices: integers [batch..., n]; the last dimension holds index vectors.
      dimension_numbers: GatherDimensionNumbers.
      slice_sizes: size of every slice, one entry per operand dimension.
      unique_indices: promise that no two indices are equal (helps the gradient).
      indices_are_sorted: promise that indices ascend.
      mode: what happens out of bounds, see GatherScatterMode; None means
        "promise_in_bounds".
      fill_value: the value for "fill"; None: nan, the smallest signed, the largest unsigned
      integer, True.
    Returns:
      array whose offset_dims run inside slices and whose other dimensions are the indices' batch.
    Raises:
      TypeError: dimension numbers, sizes and operands do not fit.   ValueError: indices not
        integer.

    >>> where = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> lax.gather(jnp.arange(5), jnp.array([[3]]), where, (1,))
    Array([3], dtype=int32)
    """
    # As in JAX: without a mode, indices are taken to be in bounds (and clamped by HLO).
    parsed = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    if parsed is GatherScatterMode.FILL_OR_DROP:
        if fill_value is None:
            fill_value = default_fill(dtype_of(operand))
        elif isinstance(fill_value, (np.ndarray, np.generic)) or hasattr(fill_value, "aval"):
            fill_value = np.asarray(fill_value).item()
    else:
        fill_value = None
    return gather_p.bind1(
        operand,
        start_indices,
        dimension_numbers=gather_numbers(dimension_numbers),
        slice_sizes=canonical_shape(slice_sizes, "slice_sizes"),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=parsed,
        fill_value=fill_value,
    )


def index_take(src: Array, idxs: Sequence[Array], axes: Sequence[int]) -> Array:
    """src indexed by one integer vector per axis in `axes`; these axes become one leading
    dimension.

    Indices are taken modulo the size of their axis.

    >>> lax.index_take(jnp.arange(6).reshape(2, 3), (jnp.array([1]),), (0,))
    Array([[3, 4, 5]], dtype=int32)
    """
    shape = shape_of(src)
    axes = tuple(canonical_axis("index_take", a, len(shape)) for a in axes)
    columns = []
    for index, axis in zip(idxs, axes):
        size = np.asarray(shape[axis], dtype_of(index))
        remainder = rem(index, size)
        negative = lt(remainder, full_value(remainder, 0))
        wrapped = select(negative, add(remainder, size), remainder)
        columns.append(expand_dims(wrapped, (1,)))
    offsets = tuple(range(1, len(shape) - len(axes) + 1))
    sizes = tuple(1 if d in axes else s for d, s in enumerate(shape))
    dnums = GatherDimensionNumbers(offsets, tuple(sorted(axes)), axes)
    return gather(
        src, concatenate(columns, 1), dnums, sizes, mode=GatherScatterMode.PROMISE_IN_BOUNDS
    )
