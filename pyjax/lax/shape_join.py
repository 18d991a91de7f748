"""Primitives that put arrays together: concatenate, and pad (also with negative and interior
widths).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.structural import reduce_sum_p
from pyjax.core.symbolic_dims import SymbolicDim, checked_size
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.rules import LINEAR, define_primitive
from pyjax.lax.arithmetic import sub
from pyjax.lax.common import nary_operands, scalar_like, shape_of
from pyjax.lax.compare import select_n_p
from pyjax.lax.nary import expand_to
from pyjax.lax.shape import reshape, squeeze
from xla_backend.hlo.attributes import DimensionsAttributes, PadAttributes, SliceAttributes
from xla_backend.hlo.opcode import Opcode

# -- concatenate -----------------------------------------------------------------------------------


def _concatenate_aval(*avals: ShapedArray, dimension: int) -> list[ShapedArray]:
    first = avals[0]
    shapes = ", ".join(str(a.shape) for a in avals)
    if len({len(a.shape) for a in avals}) > 1:
        fail(
            TypeError,
            f"Cannot concatenate arrays with different numbers of dimensions: got {shapes}.",
            fix="reshape or lax.expand_dims the smaller ones.",
        )
    if not 0 <= dimension < len(first.shape):
        fail(
            TypeError,
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}.",
        )
    total = 0
    for aval in avals:
        total += aval.shape[dimension]
        if any(i != dimension and a != b for i, (a, b) in enumerate(zip(aval.shape, first.shape))):
            fail(
                TypeError,
                "Cannot concatenate arrays with shapes that differ in dimensions other than the "
                f"one being concatenated: concatenating along dimension {dimension} for shapes "
                f"{shapes}.",
                "Along all others they have one size.",
                "Join them along that dimension, or pad or slice one of them.",
            )
        if aval.dtype != first.dtype:
            fail(
                TypeError,
                "lax.concatenate requires arguments to have the same dtypes, got "
                f"{', '.join(str(a.dtype) for a in avals)}.",
                fix="jnp.concatenate promotes types.",
            )
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    return [ShapedArray(shape, first.dtype, all(a.weak_type for a in avals))]


def cut(x: Array, start: int, limit: int, dimension: int) -> Array:
    """x[start:limit] along one dimension, as a pad with negative widths."""
    shape = shape_of(x)
    if start == 0 and limit == shape[dimension]:
        return x
    config = [(0, 0, 0)] * len(shape)
    config[dimension] = (-start, limit - shape[dimension], 0)
    return pad_p.bind1(x, scalar_like(0, x), padding_config=tuple(config))


def _concatenate_transpose(cts: Sequence[Any], *operands: Any, dimension: int) -> list[Any]:
    (ct,) = cts
    result: list[Any] = []
    start = 0
    for x in operands:
        linear = ad.is_undefined_primal(x)
        size = (x.aval.shape if linear else shape_of(x))[dimension]
        if not linear:
            result.append(None)
        elif type(ct) is ad.Zero:
            result.append(ad.Zero(x.aval))
        else:
            result.append(cut(ct, start, start + size, dimension))
        start += size
    return result


def _concatenate_batching(axis_size: int, args: Any, dims: Any, *, dimension: int) -> Any:
    moved = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
    return concatenate_p.bind_all(*moved, dimension=dimension + 1), [0]


concatenate_p = define_primitive(
    "concatenate",
    abstract_eval=_concatenate_aval,
    jvp=LINEAR,
    transpose=_concatenate_transpose,
    batching=_concatenate_batching,
    lowering=lambda ctx, *xs, dimension: ctx.builder.add(
        Opcode.CONCATENATE, xs, DimensionsAttributes((dimension,)), shape=ctx.shapes_out[0]
    ),
)


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays of one dtype along an existing dimension.

    Raises:
      ValueError: no operands.   TypeError: ranks, dtypes or the other dimensions differ.

    >>> lax.concatenate([jnp.arange(2), jnp.arange(3)], 0)
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    if len(operands) == 0:
        fail(ValueError, "concatenate requires a non-empty sequences of arrays")
    first = operands[0]
    if len(operands) == 1 and isinstance(first, Array):
        return first
    return concatenate_p.bind1(*operands, dimension=operator.index(dimension))


# -- pad -------------------------------------------------------------------------------------------


def _pad_aval(x: ShapedArray, value: ShapedArray, *, padding_config: Any) -> list[ShapedArray]:
    if x.dtype != value.dtype:
        fail(
            TypeError,
            "lax.pad requires operand and padding_value to have the same dtypes, got "
            f"{x.dtype}, {value.dtype}.",
        )
    if value.shape:
        fail(TypeError, f"lax.pad padding_value must be a scalar, got shape {value.shape}.")
    if len(padding_config) != len(x.shape):
        fail(
            ValueError,
            "length of padding_config must equal the number of axes of operand, got padding_config "
            f"{padding_config} for operand shape {x.shape}",
            fix="give one (low, high, interior) triple per axis.",
        )
    if any(interior < 0 for _, _, interior in padding_config):
        fail(
            ValueError,
            "interior padding in padding_config must be nonnegative, got padding_config "
            f"{padding_config}",
        )
    shape = tuple(
        lo + hi + n + (max(0, n - 1) * inner if inner else 0)
        for n, (lo, hi, inner) in zip(x.shape, padding_config)
    )
    if any(n < 0 for n in shape):
        fail(
            ValueError,
            f"Dimension size after padding is not at least 0, got result shape {shape}, for "
            f"padding_config {padding_config} operand shape {x.shape}",
        )
    return [ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)]


def _unpad(ct: Array, shape: tuple[int, ...], padding_config: Any) -> Array:
    """What of `ct` an operand of this shape fills: undo low and high, then keep every
    (interior+1)-th element.
    """
    negated = tuple((-lo, -hi, 0) for lo, hi, _ in padding_config)
    if any(w != (0, 0, 0) for w in negated):
        ct = pad_p.bind1(ct, scalar_like(0, ct), padding_config=negated)
    for axis, (_, _, inner) in enumerate(padding_config):
        n = shape[axis]
        if inner and n > 1:
            # A strided slice, written with reshape and pad: slices belong to slicing.py, above this
            # file.
            stride = inner + 1
            fill = [(0, 0, 0)] * len(shape)
            fill[axis] = (0, inner, 0)
            ct = pad_p.bind1(ct, scalar_like(0, ct), padding_config=tuple(fill))
            have = shape_of(ct)
            ct = reshape(ct, (*have[:axis], n, stride, *have[axis + 1 :]))
            ct = squeeze(cut(ct, 0, 1, axis + 1), (axis + 1,))
    return ct


def _pad_transpose(cts: Sequence[Any], x: Any, value: Any, *, padding_config: Any) -> list[Any]:
    (ct,) = cts
    x_linear, value_linear = ad.is_undefined_primal(x), ad.is_undefined_primal(value)
    if type(ct) is ad.Zero:
        return [ad.Zero(v.aval) if ad.is_undefined_primal(v) else None for v in (x, value)]
    shape = x.aval.shape if x_linear else shape_of(x)
    to_x = _unpad(ct, shape, padding_config)
    to_value = None
    if value_linear:
        axes = tuple(range(len(shape)))
        total = reduce_sum_p.bind1(ct, axes=axes, out_sharding=None)
        # What fell on operand positions was not the padding value's.
        mine = reduce_sum_p.bind1(to_x, axes=axes, out_sharding=None)
        to_value = sub(total, mine)
    return [to_x if x_linear else None, to_value]


def _pad_batching(axis_size: int, args: Any, dims: Any, *, padding_config: Any) -> Any:
    (x, value), (x_dim, value_dim) = args, dims
    if value_dim is not_mapped:
        x = move_bdim(x, x_dim, 0)
        return pad_p.bind_all(x, value, padding_config=((0, 0, 0), *padding_config)), [0]
    x = bdim_at_front(x, x_dim, axis_size)
    config = ((0, 0, 0), *padding_config)
    # A value for each example: pad with anything, then put the values where a padded mask is False.
    padded = pad_p.bind1(x, scalar_like(0, x), padding_config=config)
    mask = pad_p.bind1(
        expand_to(np.asarray(True), shape_of(x), ()), np.asarray(False), padding_config=config
    )
    return [select_n_p.bind1(mask, expand_to(value, shape_of(padded), (0,)), padded)], [0]


def _pad_lowering(ctx: Any, x: Any, value: Any, *, padding_config: Any) -> Any:
    builder, shape = ctx.builder, ctx.shapes_out[0]
    is_known = not any(type(n) is SymbolicDim for entry in padding_config for n in entry)
    only_cuts = is_known and all(
        lo <= 0 and hi <= 0 and (inner == 0 or n <= 1)
        for n, (lo, hi, inner) in zip(x.shape.dimensions, padding_config)
    )
    if only_cuts:
        if shape == x.shape:
            return x
        starts = tuple(-lo for lo, _, _ in padding_config)
        limits = tuple(s + n for s, n in zip(starts, shape.dimensions))
        attributes = SliceAttributes(starts, limits, (1,) * len(starts))
        return builder.add(Opcode.SLICE, (x,), attributes, shape=shape)
    low, high, interior = (tuple(c[i] for c in padding_config) for i in range(3))
    return builder.add(Opcode.PAD, (x, value), PadAttributes(low, high, interior), shape=shape)


pad_p = define_primitive(
    "pad",
    abstract_eval=_pad_aval,
    jvp=LINEAR,
    transpose=_pad_transpose,
    batching=_pad_batching,
    lowering=_pad_lowering,
)


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Put `padding_value` before, after and between the elements of each dimension.

    Args:
      operand: array.  padding_value: scalar of the same dtype.
      padding_config: for each dimension (low, high, interior); negative low or high remove
        elements, interior >= 0 separates neighbours. Interior padding comes first.
    Raises:
      ValueError: wrong number of triples, negative interior, or a negative resulting size.
      TypeError: dtypes differ, or the padding value is not a scalar.

    >>> lax.pad(jnp.array([1, 2]), 0, [(1, 2, 1)])
    Array([0, 1, 0, 2, 0, 0], dtype=int32)
    """
    operand, padding_value = nary_operands("pad", operand, padding_value)
    config = tuple(
        (checked_size(lo), checked_size(hi), operator.index(inner))
        for lo, hi, inner in padding_config
    )
    return pad_p.bind1(operand, padding_value, padding_config=config)
