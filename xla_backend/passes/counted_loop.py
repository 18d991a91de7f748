"""Building a while loop that counts from 0 to a constant, for passes that make loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.attributes import ComparisonDirection, DynamicSliceAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.emit import Emit

COUNTER = Shape.array(PrimitiveType.S32)

# (builder inside the body, counter, values) -> the next values
Body = Callable[[Emit, Instruction, list[Instruction]], Sequence[Instruction]]


def counted_loop(
    b: Emit, name: str, rounds: int, values: Sequence[Instruction], body: Body
) -> list[Instruction]:
    """The values after `rounds` rounds of `body`. The caller's module must `adopt` the result."""
    initial = b.tuple([b.splat(COUNTER, 0), *values])
    computations = [
        _condition(f"{name}_condition", initial.shape, rounds),
        _body(f"{name}_body", initial.shape, body, b),
    ]
    loop = b.add(Opcode.WHILE, (initial,), called=computations, shape=initial.shape)
    return [b.gte(loop, i + 1) for i in range(len(values))]


def _condition(name: str, state: Shape, rounds: int) -> Computation:
    b = Emit.into(Computation(name))
    counter = b.gte(b.parameter(0, state), 0)
    return b.build(b.compare(counter, b.splat(COUNTER, rounds), ComparisonDirection.LT))


def _body(name: str, state: Shape, body: Body, outer: Emit) -> Computation:
    b = Emit.into(Computation(name), outer.metadata)
    parameter = b.parameter(0, state)
    counter, *values = [b.gte(parameter, i) for i in range(len(state.tuple_shapes))]
    following = body(b, counter, values)
    advanced = b.binary(Opcode.ADD, counter, b.splat(COUNTER, 1))
    return b.build(b.tuple([advanced, *following]))


def row(b: Emit, x: Instruction, position: Instruction, dimension: int) -> Instruction:
    """`x` at a run-time position along a dimension, which is dropped."""
    sizes = list(x.shape.dimensions)
    sizes[dimension] = 1
    thin = b.add(
        Opcode.DYNAMIC_SLICE,
        (x, *_starts(b, x, position, dimension)),
        DynamicSliceAttributes(tuple(sizes)),
        shape=x.shape.with_dimensions(sizes),
    )
    return b.reshape(thin, [n for d, n in enumerate(sizes) if d != dimension])


def with_row(
    b: Emit, x: Instruction, update: Instruction, position: Instruction, dimension: int
) -> Instruction:
    """`x` with `update` at a run-time position along a dimension that `update` lacks."""
    sizes = list(update.shape.dimensions)
    sizes.insert(dimension, 1)
    starts = _starts(b, x, position, dimension)
    return b.add(Opcode.DYNAMIC_UPDATE_SLICE, (x, b.reshape(update, sizes), *starts), shape=x.shape)


def _starts(b: Emit, x: Instruction, position: Instruction, dimension: int) -> list[Instruction]:
    zero = b.splat(position.shape, 0)
    return [position if d == dimension else zero for d in range(x.shape.rank)]
