"""Lowering of scan: a while with a step counter, a dynamic-slice of each x and a dynamic-update-
slice of each y in place. Short scans, and `unroll` steps of long ones, are written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.symbolic_dims import SymbolicDim
from pyjax.lax.control_flow.tracing import split_list
from pyjax.lax.control_flow.while_loop import emit_jaxpr, emit_while
from xla_backend.hlo.attributes import (
    ComparisonDirection,
    DimensionsAttributes,
    DynamicSliceAttributes,
    SliceAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType


def _s32(builder: HloBuilder, value: Any) -> Instruction:
    if type(value) is SymbolicDim:
        dimensions: Any = (value,)
        sized = builder.full(Shape(PrimitiveType.S32, dimensions), 0)
        return builder.add(Opcode.GET_DIMENSION_SIZE, (sized,), DimensionsAttributes((0,)))
    return builder.constant(np.asarray(value, np.int32))


def _read_static(builder: HloBuilder, x: Instruction, position: int) -> Instruction:
    dims = x.shape.dimensions
    attributes = SliceAttributes(
        (position, *[0] * (len(dims) - 1)), (position + 1, *dims[1:]), (1,) * len(dims)
    )
    shape = x.shape.with_dimensions((1, *dims[1:]))
    if dims[0] != 1:
        x = builder.add(Opcode.SLICE, (x,), attributes, shape=shape)
    return builder.reshape(x, dims[1:])


def _starts(builder: HloBuilder, position: Instruction, rank: int) -> list[Instruction]:
    zero = _s32(builder, 0)
    return [position, *[zero] * (rank - 1)]


def _read(builder: HloBuilder, x: Instruction, position: Instruction) -> Instruction:
    dims = x.shape.dimensions
    sizes = (1, *dims[1:])
    piece = builder.add(
        Opcode.DYNAMIC_SLICE,
        (x, *_starts(builder, position, len(dims))),
        DynamicSliceAttributes(sizes),
        shape=x.shape.with_dimensions(sizes),
    )
    return builder.reshape(piece, dims[1:])


def _write(
    builder: HloBuilder, ys: Instruction, y: Instruction, position: Instruction
) -> Instruction:
    piece = builder.reshape(y, (1, *y.shape.dimensions))
    return builder.add(
        Opcode.DYNAMIC_UPDATE_SLICE,
        (ys, piece, *_starts(builder, position, ys.shape.rank)),
        shape=ys.shape,
    )


def scan_lowering(
    ctx: Any,
    *operands: Instruction,
    jaxpr: ClosedJaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    unroll: int,
) -> list[Instruction]:
    consts, carry, xs = split_list(operands, num_consts, num_carry)
    builder = ctx.builder
    ys_shapes = ctx.shapes_out[num_carry:]
    is_known = type(length) is int
    if is_known and length <= max(unroll, 1):
        return _written_out(ctx, jaxpr, length, consts, carry, xs, ys_shapes, reverse)
    n_state = [len(consts), len(carry), len(xs)]
    steps = length - length % unroll

    def one_step(
        b: HloBuilder,
        c: Sequence[Instruction],
        state: list[Instruction],
        inputs: Sequence[Instruction],
        ys: list[Instruction],
        position: Instruction,
    ) -> tuple[list[Instruction], list[Instruction]]:
        slices = [_read(b, x, position) for x in inputs]
        outs = emit_jaxpr(ctx, b, jaxpr, [*c, *state, *slices])
        new, pieces = split_list(outs, num_carry)
        return new, [_write(b, y, piece, position) for y, piece in zip(ys, pieces)]

    def position_of(b: HloBuilder, step: Instruction) -> Instruction:
        if not reverse:
            return step
        last = _s32(b, length - 1)
        return b.add(Opcode.SUBTRACT, (last, step), shape=step.shape)

    def condition(b: HloBuilder, values: list[Instruction]) -> Instruction:
        return b.compare(values[0], _s32(b, steps), ComparisonDirection.LT)

    def body(b: HloBuilder, values: list[Instruction]) -> list[Instruction]:
        step, *rest = values
        c, state, inputs, ys = split_list(rest, *n_state)
        counter = step
        for k in range(unroll):
            if k:
                counter = b.add(Opcode.ADD, (step, _s32(b, k)), shape=step.shape)
            state, ys = one_step(b, c, state, inputs, ys, position_of(b, counter))
        following = b.add(Opcode.ADD, (step, _s32(b, unroll)), shape=step.shape)
        return [following, *c, *state, *inputs, *ys]

    ys = [builder.full(shape, 0) for shape in ys_shapes]
    start = [_s32(builder, 0), *consts, *carry, *xs, *ys]
    _, *rest = emit_while(ctx, start, condition, body)
    _, carry, _, ys = split_list(rest, *n_state)
    for k in range(steps, length) if is_known else ():
        position = _s32(builder, length - 1 - k if reverse else k)
        carry, ys = one_step(builder, consts, carry, xs, ys, position)
    return [*carry, *ys]


def _written_out(
    ctx: Any,
    jaxpr: ClosedJaxpr,
    length: int,
    consts: Sequence[Instruction],
    carry: list[Instruction],
    xs: Sequence[Instruction],
    ys_shapes: Sequence[Shape],
    reverse: bool,
) -> list[Instruction]:
    """No loop: the body once for each step."""
    builder = ctx.builder
    rows: list[list[Instruction]] = []
    for k in range(length):
        position = length - 1 - k if reverse else k
        slices = [_read_static(builder, x, position) for x in xs]
        outs = emit_jaxpr(ctx, builder, jaxpr, [*consts, *carry, *slices])
        carry, pieces = split_list(outs, len(carry))
        rows.append([builder.reshape(y, (1, *y.shape.dimensions)) for y in pieces])
    if reverse:
        rows.reverse()
    stacked = []
    for i, shape in enumerate(ys_shapes):
        column = [row[i] for row in rows]
        if not column:
            stacked.append(builder.full(shape, 0))
        elif len(column) == 1:
            stacked.append(column[0])
        else:
            joined = builder.add(
                Opcode.CONCATENATE, column, DimensionsAttributes((0,)), shape=shape
            )
            stacked.append(joined)
    return [*carry, *stacked]
