"""Local forms of what moves elements along a cut dimension: slices, paddings, concatenations,
reversals."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    ComparisonDirection,
    DimensionsAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.spmd.halo import Along, beginning_at, positions, stretch_around
from xla_backend.spmd.on_parts import OnParts
from xla_backend.spmd.specs import Axes
from xla_backend.spmd.stretches import rotation


def slice_(x: OnParts) -> Instruction:
    a, whole = x.node.attributes, x.node.operands[0].shape.dimensions
    assert isinstance(a, SliceAttributes)
    taken = []
    for d, (start, limit, stride) in enumerate(zip(a.starts, a.limits, a.strides)):
        axes, own = x.results[0].dims[d], x.specs[0].dims[d]
        if (start, limit, stride) == (0, whole[d], 1):
            taken.append((0, x.operands[0].shape.dimensions[d], 1))
            continue
        if axes or own:
            size = x.size(d, axes)
            start, limit = 0, (size - 1) * stride + 1
            x.bring(0, d, axes, x.starts(axes, size * stride, a.starts[d]), limit)
        taken.append((start, limit, stride))
    (given,) = x.operands
    if all(each == (0, size, 1) for each, size in zip(taken, given.shape.dimensions)):
        return given
    starts, limits, strides = zip(*taken)
    return x.written(SliceAttributes(starts, limits, strides))


def pad(x: OnParts) -> Instruction:
    a = x.node.attributes
    assert isinstance(a, PadAttributes)
    padding = list(zip(a.low, a.high, a.interior))
    for d, (low, high, interior) in enumerate(padding):
        axes = x.results[0].dims[d]
        if (low, high, interior) == (0, 0, 0):
            continue
        if not axes:
            x.set_cut(0, d, ())
            continue
        size = x.size(d, axes)
        bring_dilated(x, 0, d, axes, x.starts(axes, size, -low), size, interior + 1, x.operands[1])
        padding[d] = (0, 0, 0)
    if not any(map(any, padding)):
        return x.operands[0]
    return x.written(PadAttributes(*zip(*padding)))


def bring_dilated(
    x: OnParts,
    k: int,
    dimension: int,
    axes: Axes,
    begins: list[int],
    length: int,
    step: int,
    value: Instruction | None,
) -> None:
    """Bring [begin, begin + length) of a dimension of an operand whose elements are `step` apart,
    with a scalar (zero) between them and where there are none."""
    first = [begin // step for begin in begins]
    offsets = [begin - f * step for begin, f in zip(begins, first)]
    count = (max(offsets) + length - 1) // step + 1
    x.bring(k, dimension, axes, first, count)
    x.fill_outside(k, dimension, axes, first, value)
    if step == 1:
        return
    spread = x.b.pad(x.operands[k], dimension, 0, step - 1, value, step - 1)
    size = x.node.operands[k].shape.dimensions[dimension]
    x.operands[k] = beginning_at(x.b, spread, Along(dimension, size, axes), offsets, length)


def concatenate(x: OnParts) -> Instruction:
    a = x.node.attributes
    assert isinstance(a, DimensionsAttributes)
    (d,) = a.dimensions
    axes = x.results[0].dims[d]
    if not axes:
        for k in range(len(x.operands)):
            x.set_cut(k, d, ())
        return x.written()
    size, end = x.size(d, axes), 0
    turned, whole = rotation(x.node), x.node.shape.dimensions[d]
    if turned is not None and size * x.b.mesh.count(axes) == whole:
        part = x.cut_as(turned.source, x.results[0])
        if part is not None:
            starts = x.starts(axes, size, turned.start)
            return stretch_around(x.b, part, Along(d, whole, axes), starts)
    numbers = positions(x.b, size, x.b.position(axes, size))
    found: Instruction | None = None
    for k, operand in enumerate(x.node.operands):
        x.bring(k, d, axes, x.starts(axes, size, -end), size)
        behind = x.b.compare(numbers, x.b.full(numbers.shape, end), ComparisonDirection.GE)
        end += operand.shape.dimensions[d]
        own = x.operands[k]
        if found is not None:
            mask = x.b.broadcast(behind, own.shape.dimensions, (d,))
            own = x.b.add(Opcode.SELECT, (mask, own, found), shape=own.shape)
        found = own
    assert found is not None
    return found


def reverse(x: OnParts) -> Instruction:
    a = x.node.attributes
    assert isinstance(a, DimensionsAttributes)
    for d in a.dimensions:
        axes, whole = x.results[0].dims[d], x.node.shape.dimensions[d]
        if axes:
            size = x.size(d, axes)
            x.bring(0, d, axes, x.starts(axes, -size, whole - size), size)
        else:
            x.set_cut(0, d, ())
    return x.written()
