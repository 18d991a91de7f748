"""Primitives that move or repeat elements of one array: broadcast_in_dim, reshape, transpose, rev,
squeeze.

concatenate and pad are in shape_join.py, split, tile, stack and the compositions in shape_extra.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray, Split, sharding_of_split
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.structural import broadcast_in_dim_p, reduce_sum_p, transpose_p
from pyjax.core.traced_sizes import FIX, TracedSize, is_known
from pyjax.interpreters import ad
from pyjax.interpreters.batching import move_bdim
from pyjax.interpreters.rules import LINEAR, define_rules
from pyjax.lax.common import (
    aval_of,
    canonical_axis,
    canonical_dims,
    canonical_shape,
    shape_of,
)
from pyjax.lax.nary import define, expand_to
from pyjax.lax.out_sharding import batched_sharding, out_sharding_of
from pyjax.lax.sharding_lowering import lay_out
from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.opcode import Opcode

# -- broadcast_in_dim ------------------------------------------------------------------------------


def _broadcast_in_dim_aval(
    x: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], sharding: Any
) -> list[ShapedArray]:
    have, dims = x.shape, broadcast_dimensions
    if len(dims) != len(have):
        fail(
            TypeError,
            f"broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; got "
            f"broadcast_dimensions {dims} for operand ndim {len(have)}.",
        )
    if len(dims) > 1 and any(dims[i] >= dims[i + 1] for i in range(len(dims) - 1)):
        fail(
            TypeError,
            f"broadcast_in_dim broadcast_dimensions must be strictly increasing; got {dims}.",
            fix="transpose the operand first.",
        )
    if dims and any(not 0 <= d < len(shape) for d in dims):
        fail(
            TypeError,
            "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, got "
            f"{dims} for operand ndim {len(have)} and shape {shape}.",
        )
    if dims and any(n not in (1, shape[d]) for n, d in zip(have, dims)):
        fail(
            TypeError,
            "broadcast_in_dim operand dimension sizes must either be 1, or be equal to their "
            "corresponding dimensions in the target broadcast shape; got operand of shape "
            f"{have}, target broadcast shape {shape}, broadcast_dimensions {dims}.",
        )
    return [ShapedArray(shape, x.dtype, x.weak_type, sharding=sharding)]


def _broadcast_in_dim_transpose(
    cts: Sequence[Any], x: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
) -> list[Any]:
    (ct,) = cts
    have = x.aval.shape
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    unit = [i for i, n in enumerate(have) if n == 1]
    kept = {d for i, d in enumerate(broadcast_dimensions) if i not in unit}
    axes = tuple(i for i in range(len(shape)) if i not in kept)
    summed = reduce_sum_p.bind1(ct, axes=axes, out_sharding=None) if axes else ct
    if unit:
        summed = expand_to(summed, have, tuple(i for i in range(len(have)) if i not in unit))
    return [summed]


def _broadcast_in_dim_batching(
    axis_size: int,
    args: Sequence[Array],
    dims: Sequence[int],
    *,
    shape: tuple[int, ...],
    broadcast_dimensions: tuple[int, ...],
    sharding: Any,
) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    out = broadcast_in_dim_p.bind_all(
        x,
        shape=(axis_size, *shape),
        broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions)),
        sharding=batched_sharding(sharding, 0, len(shape)),
    )
    return out, [0]


def _broadcast_in_dim_lowering(
    ctx: Any, x: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
) -> Any:
    builder, out = ctx.builder, ctx.shapes_out[0]
    have = x.shape.dimensions
    if have == out.dimensions:
        return lay_out(ctx, x, sharding)
    dims = broadcast_dimensions
    if math.prod(have) == math.prod(out.dimensions):
        return lay_out(ctx, builder.reshape(x, out.dimensions), sharding)
    stretched = [i for i, d in enumerate(dims) if have[i] != out.dimensions[d]]
    if stretched:
        kept = [i for i in range(len(have)) if i not in stretched]
        x = builder.reshape(x, [have[i] for i in kept])
        dims = [dims[i] for i in kept]
    return lay_out(ctx, builder.broadcast(x, out.dimensions, dims), sharding)


define_rules(
    broadcast_in_dim_p,
    abstract_eval=_broadcast_in_dim_aval,
    jvp=LINEAR,
    transpose=_broadcast_in_dim_transpose,
    batching=_broadcast_in_dim_batching,
    lowering=_broadcast_in_dim_lowering,
)


def broadcast_in_dim(
    operand: ArrayLike,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Array:
    """Broadcast so that operand dimension i becomes output dimension broadcast_dimensions[i].

    Sizes must agree or be 1 in the operand; the other output dimensions repeat the operand.

    Raises:
      TypeError: sizes or dimension numbers do not fit (both shapes are printed).

    >>> lax.broadcast_in_dim(jnp.arange(2), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    dims = canonical_dims("broadcast_in_dim", broadcast_dimensions)
    target = canonical_shape(shape, "broadcast_in_dim shape")
    sharding = None
    if out_sharding is not None:
        sharding = out_sharding_of("broadcast_in_dim", out_sharding)
    if sharding is None and dims == tuple(range(len(target))) and shape_of(operand) == target:
        if isinstance(operand, Array):
            return operand
    return broadcast_in_dim_p.bind1(
        operand, shape=target, broadcast_dimensions=dims, sharding=sharding
    )


# -- reshape ---------------------------------------------------------------------------------------


def _reshape_aval(
    x: ShapedArray, *, new_sizes: tuple[int, ...], dimensions: Any, sharding: Any
) -> list[ShapedArray]:
    if not (is_known(x.shape) and is_known(new_sizes)):
        return [ShapedArray(_reshaped_by_units(x, new_sizes, dimensions), x.dtype, x.weak_type)]
    if any(d < 0 for d in new_sizes):
        fail(
            TypeError,
            f"reshape new_sizes must all be positive, got {new_sizes}.",
            fix="lax.reshape has no -1; jnp.reshape infers a size.",
        )
    if math.prod(x.shape) != math.prod(new_sizes):
        fail(
            TypeError,
            f"reshape total size must be unchanged, got new_sizes {new_sizes} (total size "
            f"{math.prod(new_sizes)}) for shape {x.shape} (total size {math.prod(x.shape)}).",
        )
    if dimensions is not None and sorted(dimensions) != list(range(len(x.shape))):
        fail(
            TypeError,
            "reshape dimensions must be a permutation of operand dimensions, got dimensions "
            f"{dimensions} for shape {x.shape}.",
        )
    return [ShapedArray(new_sizes, x.dtype, x.weak_type, sharding=sharding)]


def _reshaped_by_units(x: ShapedArray, new_sizes: tuple[Any, ...], dimensions: Any) -> Any:
    """The sizes, where they are those of `x` but for dimensions of size 1: with traced sizes, more
    is not known."""
    old, new = ([d for d in sizes if d != 1] for sizes in (x.shape, new_sizes))
    if dimensions is None and len(old) == len(new):
        if all(a is b or (type(a) is type(b) is int and a == b) for a, b in zip(old, new)):
            return new_sizes
    fail(
        TypeError,
        f"reshape of {x.str_short()} to sizes {new_sizes}.",
        "Whether the numbers of elements agree is not known while sizes are traced: only "
        "dimensions of size 1 can be added and dropped.",
        FIX,
    )


def _reshape_transpose(
    cts: Sequence[Any], x: Any, *, new_sizes: Any, dimensions: Any, sharding: Any
) -> list:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    if dimensions is None:
        return [_reshape_back(ct, x.aval)]
    permuted = reshape(ct, tuple(x.aval.shape[d] for d in dimensions))
    return [transpose(permuted, np.argsort(dimensions).tolist())]


def _reshape_back(ct: Any, aval: ShapedArray) -> Any:
    split, have = aval.cotangent_split(), aval_of(ct).split
    if split is None:
        if have is None:
            return reshape(ct, aval.shape)
        split = Split(have.mesh, (None,) * aval.ndim)
    sharding = sharding_of_split(split)
    return reshape_p.bind1(ct, new_sizes=aval.shape, dimensions=None, sharding=sharding)


def _reshape_batching(
    axis_size: int,
    args: Sequence[Array],
    dims: Sequence[int],
    *,
    new_sizes: Any,
    dimensions: Any,
    sharding: Any,
) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    if dimensions is not None:
        dimensions = (0, *(d + 1 for d in dimensions))
    return reshape_p.bind_all(
        x,
        new_sizes=(axis_size, *new_sizes),
        dimensions=dimensions,
        sharding=batched_sharding(sharding, 0, len(new_sizes)),
    ), [0]


def _reshape_lowering(ctx: Any, x: Any, *, new_sizes: Any, dimensions: Any, sharding: Any) -> Any:
    if dimensions is not None:
        x = ctx.builder.transpose(x, dimensions)
    return lay_out(ctx, ctx.builder.reshape(x, new_sizes), sharding)


reshape_p: Primitive = define(
    "reshape",
    abstract_eval=_reshape_aval,
    jvp=LINEAR,
    transpose=_reshape_transpose,
    batching=_reshape_batching,
    lowering=_reshape_lowering,
)


def reshape(
    operand: ArrayLike,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """The same elements, in row-major order, with another shape; `dimensions` permutes the operand
    first.

    Raises:
      TypeError: the number of elements differs, or a size is negative (jnp.reshape accepts -1).

    >>> lax.reshape(jnp.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if isinstance(new_sizes, tuple) and all(type(d) is int for d in new_sizes):
        sizes = new_sizes
    elif isinstance(new_sizes, tuple) and any(
        isinstance(d, (TracedSize, Array)) for d in new_sizes
    ):
        sizes = canonical_shape(new_sizes)
    else:
        sizes = canonical_dims("reshape", new_sizes)
    if dimensions is not None:
        dimensions = canonical_dims("reshape", dimensions)
        if dimensions == tuple(range(len(shape_of(operand)))):
            dimensions = None
    sharding = None if out_sharding is None else out_sharding_of("reshape", out_sharding)
    if dimensions is None and shape_of(operand) == sizes and isinstance(operand, Array):
        if sharding is None:
            return operand
    return reshape_p.bind1(operand, new_sizes=sizes, dimensions=dimensions, sharding=sharding)


# -- transpose, rev --------------------------------------------------------------------------------


def _transpose_aval(x: ShapedArray, *, permutation: tuple[int, ...]) -> list[ShapedArray]:
    if sorted(permutation) != list(range(len(x.shape))):
        fail(
            TypeError,
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{permutation} for operand shape {x.shape}.",
            fix=f"give each of 0..{len(x.shape) - 1} once; jnp.transpose accepts negative axes.",
        )
    return [ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype, x.weak_type)]


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return tuple(inverse)


def _transpose_batching(
    axis_size: int, args: Any, dims: Any, *, permutation: tuple[int, ...]
) -> Any:
    (x,), (d,) = args, dims
    moved = (d, *(p + (p >= d) for p in permutation))
    return transpose_p.bind_all(x, permutation=moved), [0]


define_rules(
    transpose_p,
    abstract_eval=_transpose_aval,
    jvp=LINEAR,
    transpose=lambda cts, x, *, permutation: [
        ad.Zero(x.aval) if type(cts[0]) is ad.Zero else transpose(cts[0], _inverse(permutation))
    ],
    batching=_transpose_batching,
    lowering=lambda ctx, x, *, permutation: ctx.builder.transpose(x, permutation),
)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Output dimension i is operand dimension permutation[i].

    Raises:
      TypeError: `permutation` is not a permutation of the operand's dimensions.

    >>> lax.transpose(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    perm = canonical_dims("transpose", permutation)
    if perm == tuple(range(len(shape_of(operand)))) and isinstance(operand, Array):
        return operand
    return transpose_p.bind1(operand, permutation=perm)


def _rev_aval(x: ShapedArray, *, dimensions: tuple[int, ...]) -> list[ShapedArray]:
    if len(set(dimensions)) != len(dimensions):
        fail(TypeError, f"rev dimensions must be unique, got {dimensions}.")
    if any(not 0 <= d < len(x.shape) for d in dimensions):
        fail(
            TypeError,
            f"rev dimensions must all be less than operand ndim, got dimensions {dimensions} for "
            f"operand ndim {len(x.shape)}.",
        )
    return [x]


def _rev_lowering(ctx: Any, x: Any, *, dimensions: tuple[int, ...]) -> Any:
    if not dimensions:
        return x
    return ctx.builder.add(Opcode.REVERSE, (x,), DimensionsAttributes(dimensions), shape=x.shape)


rev_p: Primitive = define(
    "rev",
    abstract_eval=_rev_aval,
    jvp=LINEAR,
    transpose=lambda cts, x, *, dimensions: [
        ad.Zero(x.aval) if type(cts[0]) is ad.Zero else rev(cts[0], dimensions)
    ],
    batching=lambda axis_size, args, dims, *, dimensions: (
        rev_p.bind_all(args[0], dimensions=tuple(i + (i >= dims[0]) for i in dimensions)),
        [dims[0]],
    ),
    lowering=_rev_lowering,
)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along each of `dimensions`.

    >>> lax.rev(jnp.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return rev_p.bind1(operand, dimensions=canonical_dims("rev", dimensions))


# -- squeeze, expand_dims --------------------------------------------------------------------------


def _squeeze_aval(x: ShapedArray, *, dimensions: tuple[int, ...]) -> list[ShapedArray]:
    if any(x.shape[d] != 1 for d in dimensions):
        fail(
            ValueError,
            "cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={x.shape} and dimensions={dimensions}",
        )
    kept = tuple(n for i, n in enumerate(x.shape) if i not in dimensions)
    return [ShapedArray(kept, x.dtype, x.weak_type)]


def _squeeze_batching(axis_size: int, args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    return squeeze_p.bind_all(x, dimensions=tuple(d + 1 for d in dimensions)), [0]


squeeze_p: Primitive = define(
    "squeeze",
    abstract_eval=_squeeze_aval,
    jvp=LINEAR,
    transpose=lambda cts, x, *, dimensions: [
        ad.Zero(x.aval) if type(cts[0]) is ad.Zero else reshape(cts[0], x.aval.shape)
    ],
    batching=_squeeze_batching,
    lowering=lambda ctx, x, *, dimensions: ctx.builder.reshape(x, ctx.shapes_out[0].dimensions),
)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop dimensions of size 1; negative ones count from the end.

    Raises:
      ValueError: a dimension is repeated, out of range or not of size 1.

    >>> lax.squeeze(jnp.ones((1, 3)), (0,)).shape
    (3,)
    """
    ndim = len(shape_of(array))
    dims = tuple(
        sorted(canonical_axis("squeeze", d, ndim) for d in canonical_dims("squeeze", dimensions))
    )
    if len(set(dims)) != len(dims):
        fail(ValueError, f"dimensions are not unique: {dims}")
    if not dims and isinstance(array, Array):
        return array
    return squeeze_p.bind1(array, dimensions=dims)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert dimensions of size 1 at these positions of the result.

    >>> lax.expand_dims(jnp.arange(3), (0,)).shape
    (1, 3)
    """
    given = canonical_dims("expand_dims", dimensions)
    shape = shape_of(array)
    ndim = len(shape) + len(set(given))
    dims = {canonical_axis("expand_dims", d, ndim) for d in given}
    if len(dims) != len(given):
        fail(ValueError, f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    kept = tuple(i for i in range(ndim) if i not in dims)
    sizes = [1] * ndim
    for i, n in zip(kept, shape):
        sizes[i] = n
    return broadcast_in_dim(array, tuple(sizes), kept)
