"""Random steps that call computations: call, map, fusion, while, conditional.

Their bodies are grown by `grow`, which program.py gives to `Grower`: steps do not know the table
they stand in.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xla_backend.hlo.attributes import (
    CallAttributes,
    ConditionalAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    FusionAttributes,
    FusionKind,
    ScanAttributes,
)
from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.scope import ARRAYS, MATH_FLOATS, NUMBERS, Scope

Grow = Callable[[Scope, int], None]


def _arguments(s: Scope, most: int) -> list[Instruction]:
    return [s.find(ARRAYS) for _ in range(s.between(1, most))]


def _opened(s: Scope, name: str, shapes: list[Shape]) -> Scope:
    """A nested scope with these parameters as its first values."""
    inner = s.nested(name)
    inner.keep(*[inner.builder.parameter(i, shape) for i, shape in enumerate(shapes)])
    return inner


def call(s: Scope, grow: Grow) -> None:
    operands = _arguments(s, 3)
    inner = _opened(s, "callee", [o.shape for o in operands])
    grow(inner, s.between(1, 5))
    results = [s.one_of(inner.values[-4:]) for _ in range(s.between(1, 2))]
    root = results[0] if len(results) == 1 else inner.builder.tuple(results)
    body = inner.builder.build(root)
    for _ in range(s.one_of((1, 1, 2))):
        s.keep(s.add(O.CALL, operands, CallAttributes(), (body,)))


def map_(s: Scope, grow: Grow) -> None:
    x = s.find(MATH_FLOATS | {P.S32}, least=1, most=3)
    operands = [x, s.like(x.shape)]
    scalar = Shape(x.shape.element_type)
    inner = s.nested("mapped")
    a, b = (inner.builder.parameter(i, scalar) for i in range(2))
    opcodes = (O.ADD, O.MULTIPLY, O.MAXIMUM, O.SUBTRACT)
    value = inner.add(s.one_of(opcodes), (a, b))
    for _ in range(s.between(0, 3)):
        pair = s.shuffled((value, s.one_of((a, b, inner.constant(scalar)))))
        value = inner.add(s.one_of(opcodes), pair)
    attributes = DimensionsAttributes(tuple(range(x.shape.rank)))
    s.keep(s.add(O.MAP, operands, attributes, (inner.builder.build(value),)))


_FUSIBLE = (O.ADD, O.MULTIPLY, O.SUBTRACT, O.MAXIMUM)


def fusion(s: Scope, grow: Grow) -> None:
    """A loop fusion in the input: elementwise operations, one or two results."""
    x = s.find(NUMBERS - {P.C64, P.C128})
    operands = [x, s.like(x.shape)]
    inner = _opened(s, "fused", [x.shape, x.shape])
    for _ in range(s.between(1, 5)):
        pair = [s.one_of(inner.values) for _ in range(2)]
        inner.keep(inner.add(s.one_of(_FUSIBLE), pair))
    if s.chance(0.3):
        root = inner.builder.tuple(inner.values[-2:])
    else:
        root = inner.values[-1]
    body = inner.builder.build(root)
    s.keep(s.add(O.FUSION, operands, FusionAttributes(FusionKind.LOOP), (body,), root.shape))


# -- loops -----------------------------------------------------------------------------------------


def loop(s: Scope, grow: Grow) -> None:
    """A counted loop whose state is changed, swapped, kept, updated in place or stacked."""
    starts = _arguments(s, 4)
    trips = s.one_of((0, 1, 2, 3, 3, 4, 5))
    stacked = s.like(Shape.array(s.element_type(ARRAYS), (max(1, trips), s.between(1, 5))))
    if s.chance(0.4):
        starts.append(stacked)
    state = Shape.tuple([Shape(P.S32), *[v.shape for v in starts]])
    first, condition, step = _counter(s, state, trips)
    body = _loop_body(s, grow, state, step)
    operands = (s.builder.tuple([first, *starts]),)
    result = s.add(O.WHILE, operands, called=(condition, body), shape=state)
    members = [s.builder.get_tuple_element(result, i) for i in range(len(state.tuple_shapes))]
    s.keep(*s.subset(members, least=1))


def _counter(s: Scope, state: Shape, trips: int) -> tuple[Instruction, Computation, int]:
    """First value, condition and step of a counter; the bound is a constant or clamped data."""
    c = s.nested("condition")
    counter = c.builder.get_tuple_element(c.builder.parameter(0, state), 0)
    step = s.one_of((1, 1, 1, 2, -1))
    first = trips * 2 if step < 0 else s.one_of((0, 0, 0, -2, 1))
    direction = {1: D.LT, 2: D.LT, -1: D.GT}[step]
    if abs(step) == 1 and s.chance(0.2):
        direction = D.NE
    last = first + step * trips
    if step == 2 and s.chance(0.5):
        last -= trips > 0  # the counter passes it
    bound = c.builder.constant(np.int32(last))
    if step == 1 and direction is D.LT and s.chance(0.2):
        low = c.builder.constant(np.int32(first))
        bound = c.add(O.CLAMP, (low, c.constant(Shape(P.S32)), bound))
    pair, direction = (counter, bound), direction
    if s.chance(0.15):
        pair, direction = (bound, counter), _FLIPPED[direction]
    condition = c.builder.build(c.builder.compare(*pair, direction))
    start = s.builder.constant(np.int32(first))
    return start, condition, step


_FLIPPED = {D.LT: D.GT, D.GT: D.LT, D.NE: D.NE}


def unknown_start(s: Scope) -> Instruction:
    """Zero or one, as data say: a loop that counts from there is not unrolled."""
    return s.add(O.AND, (s.like(Shape(P.S32)), s.builder.constant(np.int32(1))))


def _loop_body(s: Scope, grow: Grow, state: Shape, step: int) -> Computation:
    inner = s.nested("body")
    b = inner.builder
    packed = b.parameter(0, state)
    counter, *carried = [b.get_tuple_element(packed, i) for i in range(len(state.tuple_shapes))]
    following = inner.add(O.ADD, (counter, b.constant(np.int32(step))))
    inner.keep(counter, *carried)
    grow(inner, s.between(0, 6))
    results = [next_carry(inner, value, carried, counter) for value in carried]
    return b.build(b.tuple([following, *results]))


def next_carry(
    s: Scope, old: Instruction, carried: list[Instruction], counter: Instruction | None
) -> Instruction:
    """What takes the place of `old` in the next turn; the counter, if it is an index."""
    kind = s.random.random()
    if kind < 0.15:
        return old
    if kind < 0.3:
        return s.one_of([v for v in carried if v.shape == old.shape])
    if kind < 0.55 and old.shape.rank and 0 not in old.shape.dimensions:
        return updated_row(s, old, counter)
    if kind < 0.75 and old.shape.element_type in NUMBERS:
        return s.add(s.one_of((O.ADD, O.SUBTRACT)), (old, s.like(old.shape)))
    return s.like(old.shape)


def updated_row(s: Scope, old: Instruction, counter: Instruction | None) -> Instruction:
    """One row written in place, at the counter or elsewhere; it may depend on the old one."""
    row = (1, *old.shape.dimensions[1:])
    zero = s.builder.constant(np.int32(0))
    if counter is not None and s.chance(0.8):
        at, zero = counter, s.number(0, counter.shape.element_type)
    else:
        at = s.builder.constant(np.int32(s.between(-1, 3)))
    starts = [at, *[zero] * (old.shape.rank - 1)]
    update = s.like(old.shape.with_dimensions(row))
    if old.shape.element_type in NUMBERS and s.chance(0.4):
        read = s.add(O.DYNAMIC_SLICE, (old, *starts), DynamicSliceAttributes(row))
        update = s.add(O.ADD, (read, update))
    return s.add(O.DYNAMIC_UPDATE_SLICE, (old, update, *starts))


def scan(s: Scope, grow: Grow) -> None:
    """The scan opcode: slices of one operand, one carry, results stacked along any dimension."""
    x = s.find(NUMBERS, least=1, most=3)
    axis = s.between(0, x.shape.rank - 1)
    slice_shape = x.shape.with_dimensions(
        [d for i, d in enumerate(x.shape.dimensions) if i != axis]
    )
    inner = _opened(s, "scanned", [slice_shape, slice_shape])
    taken, carry = inner.values
    following = inner.add(s.one_of((O.ADD, O.SUBTRACT, O.MULTIPLY)), s.shuffled((carry, taken)))
    output = s.one_of((carry, following, inner.add(O.ADD, (taken, following))))
    body = inner.builder.build(inner.builder.tuple([output, following]))
    attributes = ScanAttributes(axis, 1, s.chance(0.4))
    s.keep(s.add(O.SCAN, (x, s.like(slice_shape)), attributes, (body,)))


# -- branches --------------------------------------------------------------------------------------


def conditional(s: Scope, grow: Grow) -> None:
    """By a predicate, or by a number that may be out of range; branches share operands."""
    indexed = s.chance(0.5)
    if indexed:
        chooser, count = s.like(Shape(P.S32)), s.between(1, 4)
    else:
        chooser, count = s.like(Shape(P.PRED)), 2
    operands = _arguments(s, 3)
    packed = s.builder.tuple(operands)
    shapes = [s.one_of(operands).shape for _ in range(s.between(1, 2))]
    branches = [_branch(s, grow, packed.shape, shapes) for _ in range(count)]
    attributes = ConditionalAttributes(indexed)
    shape = Shape.tuple(shapes)
    inputs = (chooser, *[packed] * count)
    s.keep(s.add(O.CONDITIONAL, inputs, attributes, branches, shape))


def _branch(s: Scope, grow: Grow, argument: Shape, results: list[Shape]) -> Computation:
    inner = s.nested("branch")
    inner.keep(inner.builder.parameter(0, argument))
    if s.chance(0.7):
        grow(inner, s.between(1, 5))
    return inner.builder.build(inner.builder.tuple([inner.like(shape) for shape in results]))


STEPS: list[tuple[float, Callable[[Scope, Grow], None]]] = [
    (1, call),
    (0.7, map_),
    (1, fusion),
    (4, loop),
    (0.5, scan),
    (2, conditional),
]
