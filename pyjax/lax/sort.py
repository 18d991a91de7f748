"""Sorting and selecting the largest: sort, sort_key_val, top_k, approx_max_k, approx_min_k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim
from pyjax.interpreters.rules import FullJvp, Unsupported
from pyjax.lax.arithmetic import imag, real
from pyjax.lax.bitwise import bitwise_and, bitwise_or
from pyjax.lax.common import (
    ORDERED,
    aval_of,
    canonical_axis,
    check_dtype,
    is_complex,
    is_floating,
    scalar_like,
    shape_of,
)
from pyjax.lax.compare import eq, eq_to_p, lt_to_p, ne, select
from pyjax.lax.creation import iota_like
from pyjax.lax.indexing.gather import gather
from pyjax.lax.indexing.gather_scatter_types import GatherDimensionNumbers, GatherScatterMode
from pyjax.lax.nary import define
from pyjax.lax.shape import expand_dims
from xla_backend.hlo.attributes import SliceAttributes, SortAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape


def take_along(x: Array, indices: Array, dimension: int) -> Array:
    """x gathered along one dimension by integer indices of the same rank, known to be in range."""
    others = tuple(d for d in range(len(shape_of(x))) if d != dimension)
    numbers = GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )
    return gather(
        x,
        expand_dims(indices, (len(shape_of(x)),)),
        numbers,
        (1,) * len(shape_of(x)),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


# The first and the end of the places that a sort must put in order; none for all of them.
Places = tuple[int, ...]

# -- sort ------------------------------------------------------------------------------------------


def _canonical_float(x: Array) -> Array:
    """One zero and one nan, so that the total order has -0 == 0 and every nan last."""
    x = select(eq(x, scalar_like(0, x)), scalar_like(0, x), x)
    return select(ne(x, x), scalar_like(np.nan, x), x)


def _comparable(x: Array) -> list[Array]:
    """Keys of one operand, most significant first, for the total order."""
    dtype = aval_of(x).dtype
    if is_complex(dtype):
        return [_canonical_float(real(x)), _canonical_float(imag(x))]
    return [_canonical_float(x)] if is_floating(dtype) else [x]


def _comparator(num_keys: int) -> Any:
    """(a0, b0, a1, b1, ...) -> does the tuple a sort before the tuple b, comparing the
    first keys.
    """

    def less(*operands: Array) -> Array:
        left = [k for x in operands[0 : 2 * num_keys : 2] for k in _comparable(x)]
        right = [k for x in operands[1 : 2 * num_keys : 2] for k in _comparable(x)]
        result = lt_to_p.bind1(left[-1], right[-1])
        for a, b in zip(left[-2::-1], right[-2::-1]):
            same = bitwise_and(eq_to_p.bind1(a, b), result)
            result = bitwise_or(lt_to_p.bind1(a, b), same)
        return result

    return less


def _greater(*operands: Array) -> Array:
    """By bits, other than sorts: -0.0 is less than 0.0, and nans differ by sign and payload."""
    return lt_to_p.bind1(operands[1], operands[0])


def _sort_aval(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int, places: Places = ()
) -> list[ShapedArray]:
    if any(a.shape != avals[0].shape for a in avals):
        fail(
            TypeError,
            "Arguments to sort must have equal shapes, got: "
            f"{' '.join(str(a.shape) for a in avals)}",
        )
    return list(avals)


def _hlo_sort(
    ctx: Any, operands: Sequence[Any], avals: Any, attributes: SortAttributes, less: Any
) -> list:
    builder = ctx.builder
    scalars = [ShapedArray((), a.dtype) for a in avals for _ in range(2)]
    shapes = [x.shape for x in operands]
    out = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    result = builder.add(
        Opcode.SORT,
        operands,
        attributes,
        (ctx.computation_of(less, *scalars),),
        shape=out,
    )
    if len(shapes) == 1:
        return [result]
    return [builder.get_tuple_element(result, i) for i in range(len(shapes))]


def _sort_lowering(
    ctx: Any,
    *operands: Any,
    dimension: int,
    is_stable: bool,
    num_keys: int,
    places: Places = (),
) -> list[Any]:
    attributes = SortAttributes(dimension, is_stable, places)
    return _hlo_sort(ctx, operands, ctx.avals_in, attributes, _comparator(num_keys))


def _sort_jvp(
    primals: Sequence[Array],
    tangents: Sequence[Any],
    *,
    dimension: int,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    order = iota_like(primals[0], np.dtype(np.int32), dimension)
    *outs, order = sort_p.bind(*primals, order, dimension=dimension, **params)
    return outs, [t if type(t) is ad.Zero else take_along(t, order, dimension) for t in tangents]


def _sort_batching(axis_size: int, args: Any, dims: Any, *, dimension: int, **params: Any) -> Any:
    if len(set(dims)) == 1:
        d = dims[0]
        outs = sort_p.bind(*args, dimension=dimension + (dimension >= d), **params)
        return outs, [d] * len(outs)
    moved = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
    outs = sort_p.bind(*moved, dimension=dimension + 1, **params)
    return outs, [0] * len(outs)


sort_p: Primitive = define(
    "sort",
    multiple_results=True,
    abstract_eval=_sort_aval,
    jvp=FullJvp(_sort_jvp),
    transpose=Unsupported("sort is not linear"),
    batching=_sort_batching,
    lowering=_sort_lowering,
)


def sort(
    operand: ArrayLike | Sequence[ArrayLike],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Any:
    """Sort along a dimension, ascending.

    Args:
      operand: an array, or arrays of one shape that are all permuted alike.
      num_keys: how many of them are compared, the first being most significant.
    Returns:
      The sorted array, or a tuple of them. -0 equals 0, nan comes last, complex numbers are ordered
      by real part, then imaginary part.
    Raises:
      TypeError: shapes differ.   ValueError: dimension or num_keys is out of range, or no operand.

    >>> lax.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    many = isinstance(operand, Sequence)
    operands = tuple(operand) if isinstance(operand, Sequence) else (operand,)
    if not operands:
        fail(TypeError, "Sort requires at least one operand")
    if not 1 <= num_keys <= len(operands):
        fail(ValueError, f"num_keys={num_keys} must be between 1 and len(operand)={len(operands)}")
    axis = canonical_axis("sort", dimension, len(shape_of(operands[0])))
    outs = sort_p.bind(*operands, dimension=axis, is_stable=bool(is_stable), num_keys=int(num_keys))
    return tuple(outs) if many else outs[0]


def partition(operands: Sequence[ArrayLike], dimension: int, place: int) -> tuple[Array, ...]:
    """Arrays permuted alike so that `place` along a dimension has what sorting by the first of them
    would put there, nothing larger before it and nothing smaller behind."""
    outs = sort_p.bind(
        *operands, dimension=dimension, is_stable=False, num_keys=1, places=(place, place + 1)
    )
    return tuple(outs)


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort `keys` along a dimension and permute `values` alike.

    >>> lax.sort_key_val(jnp.array([3, 1, 2]), jnp.array([30, 10, 20]))[1]
    Array([10, 20, 30], dtype=int32)
    """
    first, second = sort((keys, values), dimension, is_stable, num_keys=1)
    return first, second


# -- top_k -----------------------------------------------------------------------------------------


def _top_k_shape(x: ShapedArray, k: int, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], k, *x.shape[axis + 1 :])


def _top_k_aval(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    check_dtype("top_k", x, ORDERED)
    if k < 0:
        fail(ValueError, f"k argument to top_k must be nonnegative, got {k}")
    if x.shape[axis] < k:
        fail(
            ValueError,
            f"k argument to top_k must be no larger than size along axis; got k={k} with "
            f"shape={list(x.shape)} and axis={axis}",
        )
    shape = _top_k_shape(x, k, axis)
    return [x.update(shape=shape), x.update(shape=shape, dtype=np.dtype(np.int32))]


def _largest_lowering(ctx: Any, x: Any, axis: int, less: Any) -> list[Any]:
    """Sort with an index, and keep the first k."""
    builder = ctx.builder
    index_shape = x.shape.with_type(ctx.shapes_out[1].element_type)
    indices = builder.iota(index_shape, axis)
    avals = [ctx.avals_in[0], ctx.avals_out[1]]
    ordered = _hlo_sort(ctx, (x, indices), avals, SortAttributes(axis, True), less)
    limits = ctx.shapes_out[0].dimensions
    attributes = SliceAttributes((0,) * len(limits), limits, (1,) * len(limits))
    return [
        builder.add(Opcode.SLICE, (v,), attributes, shape=s)
        for v, s in zip(ordered, ctx.shapes_out)
    ]


def _top_k_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, k: int, axis: int
) -> tuple[list[Any], list[Any]]:
    values, indices = top_k_p.bind(*primals, k=k, axis=axis)
    (t,) = tangents
    no_index_tangent = ad.Zero(aval_of(indices).to_tangent_aval())
    if type(t) is ad.Zero:
        return [values, indices], [ad.Zero(aval_of(values).to_tangent_aval()), no_index_tangent]
    return [values, indices], [take_along(t, indices, axis), no_index_tangent]


top_k_p: Primitive = define(
    "top_k",
    multiple_results=True,
    abstract_eval=_top_k_aval,
    jvp=FullJvp(_top_k_jvp),
    transpose=Unsupported("top_k is not linear"),
    batching=lambda axis_size, args, dims, *, k, axis: (
        top_k_p.bind(move_bdim(args[0], dims[0], 0), k=k, axis=axis + 1),
        [0, 0],
    ),
    lowering=lambda ctx, x, *, k, axis: _largest_lowering(ctx, x, axis, _greater),
)


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list[Array]:
    """The k largest elements along `axis`, largest first, and their indices (int32).

    Equal elements come in order of index. Floating-point numbers are in total order, as in JAX: nan
    is above all numbers, nan with a sign below all (`0.0 / 0.0` has one on x86-64), 0.0 above -0.0.

    Raises:
      ValueError: k is negative or exceeds the axis.   TypeError: complex operand.

    >>> lax.top_k(jnp.array([1, 5, 3]), 2)
    [Array([5, 3], dtype=int32), Array([1, 2], dtype=int32)]
    """
    ndim = len(shape_of(operand))
    if ndim == 0:
        fail(TypeError, "top_k operand must have >= 1 dimension, got a scalar.")
    return top_k_p.bind(operand, k=int(k), axis=canonical_axis("top_k", axis, ndim))


# -- approx_top_k ----------------------------------------------------------------------------------


def _partial_size(n: int, ndim: int, k: int, recall_target: float, input_size: int) -> int:
    """How many of `n` elements `aggregate_to_topk=False` leaves, as JAX has it.

    Where TPUs reduce, each of the elements that are left is the largest of those that a power of
    two of tiles have in its place. As many places are left as let no two of the k largest meet in
    one, with the probability `recall_target` (Chern et al., TPU-KNN, 2022). `input_size`: of all
    devices that share the dimension, each of which has `n`.
    """
    tile = 1024 if ndim == 1 else 128
    if n <= tile:
        return n
    if k == 1:
        return tile
    places = (1 - k) / math.log(recall_target) if recall_target < 1 else input_size
    reduction = int(math.log2(max(input_size / max(tile, int(places)), 1)))
    if reduction == 0:
        return n
    reduction = min(reduction, (n // tile - 1).bit_length())
    return min(n, -(-n // (tile << reduction)) * tile)


def _approx_aval(
    x: ShapedArray,
    *,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
    is_max_k: bool,
) -> list[ShapedArray]:
    axis = reduction_dimension % len(x.shape)
    avals = _top_k_aval(x, k=k, axis=axis)
    if aggregate_to_topk:
        return avals
    n, override = x.shape[axis], reduction_input_size_override
    if 0 <= override < n:
        fail(
            ValueError,
            f"reduction_input_size_override is {override}, less than the {n} elements of "
            f"dimension {axis}.",
            "it is the size of the dimension over all devices that share it.",
            "Pass that, or -1.",
        )
    left = _partial_size(n, len(x.shape), k, recall_target, override if override >= 0 else n)
    return _top_k_aval(x, k=left, axis=axis)


def _approx_lowering(
    ctx: Any, x: Any, *, reduction_dimension: int, is_max_k: bool, **params: Any
) -> Any:
    axis = reduction_dimension % x.shape.rank
    return _largest_lowering(ctx, x, axis, _greater if is_max_k else _comparator(1))


def _approx_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    values, indices = approx_top_k_p.bind(*primals, **params)
    (t,) = tangents
    no_index_tangent = ad.Zero(aval_of(indices).to_tangent_aval())
    if type(t) is ad.Zero:
        return [values, indices], [ad.Zero(aval_of(values).to_tangent_aval()), no_index_tangent]
    axis = params["reduction_dimension"] % len(shape_of(t))
    return [values, indices], [take_along(t, indices, axis), no_index_tangent]


def _approx_batching(
    axis_size: int, args: Any, dims: Any, *, reduction_dimension: int, **params: Any
) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    axis = reduction_dimension % (len(shape_of(x)) - 1) + 1
    return approx_top_k_p.bind(x, reduction_dimension=axis, **params), [0, 0]


approx_top_k_p: Primitive = define(
    "approx_top_k",
    multiple_results=True,
    exact_params=True,
    abstract_eval=_approx_aval,
    jvp=FullJvp(_approx_jvp),
    transpose=Unsupported("approx_top_k is not linear"),
    batching=_approx_batching,
    lowering=_approx_lowering,
)


def _approx(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
    is_max_k: bool,
) -> list[Array]:
    check_dtype("approx_max_k" if is_max_k else "approx_min_k", aval_of(operand), ORDERED)
    if not 0 < recall_target <= 1:
        fail(ValueError, f"recall_target must be in (0, 1], got {recall_target}.")
    canonical_axis("approx_max_k", reduction_dimension, len(shape_of(operand)))
    return approx_top_k_p.bind(
        operand,
        k=int(k),
        reduction_dimension=int(reduction_dimension),
        recall_target=float(recall_target),
        is_max_k=is_max_k,
        reduction_input_size_override=int(reduction_input_size_override),
        aggregate_to_topk=bool(aggregate_to_topk),
    )


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k largest along a dimension, and their indices. Exact here: `recall_target` is always
    met. Without `aggregate_to_topk` they are among more, as many as TPUs leave.

    >>> lax.approx_max_k(jnp.array([1.0, 5.0, 3.0]), 2)[0]
    Array([5., 3.], dtype=float32)
    """
    return _approx(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        True,
    )


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The k smallest along a dimension, and their indices. Exact here: `recall_target` is always
    met. Without `aggregate_to_topk` they are among more, as many as TPUs leave.

    >>> lax.approx_min_k(jnp.array([1.0, 5.0, 3.0]), 2)[0]
    Array([1., 3.], dtype=float32)
    """
    return _approx(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        False,
    )
