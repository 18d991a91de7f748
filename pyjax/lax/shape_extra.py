"""Rearrangements of whole arrays: split, tile, stack, unstack, collapse, broadcast, and shape
arithmetic.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.trace import Tracer
from pyjax.core.traced_sizes import TracedSize
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim
from pyjax.interpreters.rules import LINEAR
from pyjax.lax.common import canonical_axis, canonical_dims, canonical_shape, shape_of
from pyjax.lax.convert import convert
from pyjax.lax.nary import define, expand_to
from pyjax.lax.out_sharding import out_sharding_of
from pyjax.lax.reduce import reduce_sum
from pyjax.lax.shape import broadcast_in_dim, expand_dims, reshape
from pyjax.lax.shape_join import concatenate
from xla_backend.hlo.attributes import DimensionsAttributes, SliceAttributes
from xla_backend.hlo.opcode import Opcode

# -- split -----------------------------------------------------------------------------------------


def _split_aval(x: ShapedArray, *, sizes: tuple[int, ...], axis: int) -> list[ShapedArray]:
    if sum(sizes) != x.shape[axis] or any(n < 0 for n in sizes):
        fail(
            ValueError,
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape "
            f"{list(x.shape)}",
            f"sizes are {sizes}.",
        )
    return [x.update(shape=(*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes]


def _split_transpose(cts: Sequence[Any], x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
    if all(type(ct) is ad.Zero for ct in cts):
        return [ad.Zero(x.aval)]
    return [concatenate([ad.instantiate_zeros(ct) for ct in cts], axis)]


def _split_batching(
    axis_size: int, args: Any, dims: Any, *, sizes: tuple[int, ...], axis: int
) -> Any:
    (x,), (d,) = args, dims
    outs = split_p.bind(x, sizes=sizes, axis=axis + (axis >= d))
    return outs, [d] * len(outs)


def _split_lowering(ctx: Any, x: Any, *, sizes: tuple[int, ...], axis: int) -> list[Any]:
    rank = x.shape.rank
    outs, start = [], 0
    for shape, n in zip(ctx.shapes_out, sizes):
        starts, limits = [0] * rank, list(x.shape.dimensions)
        starts[axis], limits[axis] = start, start + n
        attributes = SliceAttributes(tuple(starts), tuple(limits), (1,) * rank)
        outs.append(ctx.builder.add(Opcode.SLICE, (x,), attributes, shape=shape))
        start += n
    return outs


split_p: Primitive = define(
    "split",
    multiple_results=True,
    abstract_eval=_split_aval,
    jvp=LINEAR,
    transpose=_split_transpose,
    batching=_split_batching,
    lowering=_split_lowering,
)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> Sequence[Array]:
    """Cut into pieces of the given sizes along `axis`.

    Raises:
      ValueError: the sizes do not add up to the axis, or the axis is out of range.

    >>> [part.tolist() for part in lax.split(jnp.arange(5), (2, 3))]
    [[0, 1], [2, 3, 4]]
    """
    axis = canonical_axis("split", axis, len(shape_of(operand)))
    return split_p.bind(operand, sizes=canonical_dims("split", tuple(sizes)), axis=axis)


# -- tile ------------------------------------------------------------------------------------------


def _tile_aval(x: ShapedArray, *, reps: tuple[int, ...]) -> list[ShapedArray]:
    if len(reps) != len(x.shape):
        fail(
            ValueError,
            f"tile reps must have one entry per dimension, got {reps} for {x.str_short()}.",
        )
    return [x.update(shape=tuple(n * r for n, r in zip(x.shape, reps)))]


def _tile_transpose(cts: Sequence[Any], x: Any, *, reps: tuple[int, ...]) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    split_shape = tuple(n for pair in zip(reps, x.aval.shape) for n in pair)
    return [reduce_sum(reshape(ct, split_shape), tuple(range(0, 2 * len(reps), 2)))]


def _tile_lowering(ctx: Any, x: Any, *, reps: tuple[int, ...]) -> Any:
    interleaved = [n for pair in zip(reps, x.shape.dimensions) for n in pair]
    wide = ctx.builder.broadcast(x, interleaved, tuple(range(1, 2 * len(reps), 2)))
    return ctx.builder.reshape(wide, ctx.shapes_out[0].dimensions)


tile_p: Primitive = define(
    "tile",
    abstract_eval=_tile_aval,
    jvp=LINEAR,
    transpose=_tile_transpose,
    batching=lambda axis_size, args, dims, *, reps: (
        tile_p.bind_all(move_bdim(args[0], dims[0], 0), reps=(1, *reps)),
        [0],
    ),
    lowering=_tile_lowering,
)


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat the whole array reps[i] times along dimension i.

    >>> lax.tile(jnp.arange(2), (3,))
    Array([0, 1, 0, 1, 0, 1], dtype=int32)
    """
    counts = canonical_shape(tuple(reps), "tile reps")
    return tile_p.bind1(operand, reps=counts)


# -- stack, unstack --------------------------------------------------------------------------------


def _stack_aval(*avals: ShapedArray, axis: int) -> list[ShapedArray]:
    first = avals[0]
    for aval in avals:
        if aval.shape != first.shape:
            fail(
                TypeError,
                f"stack: all operands must have the same shape, got {[a.shape for a in avals]}.",
            )
        if aval.dtype != first.dtype:
            fail(
                TypeError,
                "lax.stack requires arguments to have the same dtypes, got "
                f"{[str(a.dtype) for a in avals]}.",
                fix="jnp.stack promotes types.",
            )
    shape = (*first.shape[:axis], len(avals), *first.shape[axis:])
    return [ShapedArray(shape, first.dtype, all(a.weak_type for a in avals))]


def _stack_transpose(cts: Sequence[Any], *operands: Any, axis: int) -> list[Any]:
    (ct,) = cts
    linear = [ad.is_undefined_primal(x) for x in operands]
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval) if lin else None for x, lin in zip(operands, linear)]
    pieces = unstack_p.bind(ct, axis=axis)
    return [piece if lin else None for piece, lin in zip(pieces, linear)]


def _stack_lowering(ctx: Any, *operands: Any, axis: int) -> Any:
    dims = list(ctx.shapes_out[0].dimensions)
    dims[axis] = 1
    columns = [ctx.builder.reshape(x, dims) for x in operands]
    if len(columns) == 1:
        return columns[0]
    return ctx.builder.add(
        Opcode.CONCATENATE, columns, DimensionsAttributes((axis,)), shape=ctx.shapes_out[0]
    )


stack_p: Primitive = define(
    "stack",
    abstract_eval=_stack_aval,
    jvp=LINEAR,
    transpose=_stack_transpose,
    batching=lambda axis_size, args, dims, *, axis: (
        stack_p.bind_all(
            *[bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)], axis=axis + 1
        ),
        [0],
    ),
    lowering=_stack_lowering,
)


def _unstack_aval(x: ShapedArray, *, axis: int) -> list[ShapedArray]:
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [x.update(shape=shape)] * x.shape[axis]


def _unstack_transpose(cts: Sequence[Any], x: Any, *, axis: int) -> list[Any]:
    if all(type(ct) is ad.Zero for ct in cts):
        return [ad.Zero(x.aval)]
    return [stack_p.bind1(*[ad.instantiate_zeros(ct) for ct in cts], axis=axis)]


def _unstack_batching(axis_size: int, args: Any, dims: Any, *, axis: int) -> Any:
    outs = unstack_p.bind(move_bdim(args[0], dims[0], 0), axis=axis + 1)
    return outs, [0] * len(outs)


def _unstack_lowering(ctx: Any, x: Any, *, axis: int) -> list[Any]:
    builder, rank, outs = ctx.builder, x.shape.rank, []
    for i, shape in enumerate(ctx.shapes_out):
        starts, limits = [0] * rank, list(x.shape.dimensions)
        starts[axis], limits[axis] = i, i + 1
        attributes = SliceAttributes(tuple(starts), tuple(limits), (1,) * rank)
        dims = [b - a for a, b in zip(starts, limits)]
        piece = builder.add(Opcode.SLICE, (x,), attributes, shape=x.shape.with_dimensions(dims))
        outs.append(builder.reshape(piece, shape.dimensions))
    return outs


unstack_p: Primitive = define(
    "unstack",
    multiple_results=True,
    abstract_eval=_unstack_aval,
    jvp=LINEAR,
    transpose=_unstack_transpose,
    batching=_unstack_batching,
    lowering=_unstack_lowering,
)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new axis.

    >>> lax.stack([jnp.array([1, 2]), jnp.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    if len(operands) == 0:
        fail(ValueError, "stack requires a non-empty sequence of arrays")
    axis = canonical_axis("stack", axis, len(shape_of(operands[0])) + 1)
    return stack_p.bind1(*operands, axis=axis)


def unstack(x: ArrayLike, axis: int = 0) -> Sequence[Array]:
    """The sub-arrays along `axis`, as a tuple.

    >>> lax.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    axis = canonical_axis("unstack", axis, len(shape_of(x)))
    return tuple(unstack_p.bind(x, axis=axis))


# -- compositions ----------------------------------------------------------------------------------


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge dimensions start_dimension .. stop_dimension - 1 into one; negative numbers count from
    the end.

    >>> lax.collapse(jnp.ones((2, 3, 4)), 0, 2).shape
    (6, 4)
    """
    shape = shape_of(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if stop < start:
        fail(
            ValueError,
            "Invalid dimension range passed to collapse: "
            f"{shape}[{start_dimension}:{stop_dimension}]",
        )
    return reshape(
        operand, (*shape[:start], int(np.prod(shape[start:stop], dtype=int)), *shape[stop:])
    )


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Add leading dimensions of the given sizes.

    >>> lax.broadcast(jnp.arange(2), (3,))
    Array([[0, 1],
           [0, 1],
           [0, 1]], dtype=int32)
    """
    sizes = canonical_shape(sizes, "broadcast sizes")
    shape = shape_of(operand)
    if not sizes and isinstance(operand, Array) and out_sharding is None:
        return operand
    sharding = None if out_sharding is None else out_sharding_of("broadcast", out_sharding)
    dims = tuple(range(len(sizes), len(sizes) + len(shape)))
    return expand_to(operand, (*sizes, *shape), dims, sharding)


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Broadcast to another array's shape, aligning trailing dimensions.

    >>> lax.broadcast_like(1.0, jnp.zeros(3))
    Array([1., 1., 1.], dtype=float32, weak_type=True)
    """
    shape, target = shape_of(arr), shape_of(like_arr)
    offset = len(target) - len(shape)
    return broadcast_in_dim(arr, target, tuple(range(offset, len(target))))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Add leading dimensions of size 1 until the rank is `rank`.

    >>> lax.broadcast_to_rank(jnp.arange(3), 2).shape
    (1, 3)
    """
    ndim = len(shape_of(x))
    if ndim > rank:
        fail(ValueError, f"broadcast_to_rank: array of rank {ndim} cannot have rank {rank}.")
    return expand_dims(x, tuple(range(rank - ndim)))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that NumPy's broadcasting gives.

    Raises:
      ValueError: the shapes do not broadcast.

    >>> lax.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    tuples = [canonical_shape(s) for s in shapes]
    try:
        return np.broadcast_shapes(*tuples)
    except ValueError:
        fail(ValueError, f"Incompatible shapes for broadcasting: shapes={tuples}")


def shape_as_value(shape: Sequence[Any]) -> np.ndarray | Array:
    """The sizes of a shape as int32[rank]: a NumPy array, or a traced one if a size is traced.

    Raises:
      TypeError: a size is not an integer, or has no number (a symbolic size in an export).

    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    if any(isinstance(d, (Tracer, TracedSize)) for d in shape):
        return stack([convert(d, np.dtype(np.int32)) for d in shape])
    return np.array([operator.index(d) for d in shape], np.int32)
