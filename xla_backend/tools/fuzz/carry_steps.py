"""Random loops and branches that are hard on the memory of what they carry: carries that nobody
reads, that change places, that two results share, that only the condition or the caller wants;
flags that the body computes for the condition; state in nested tuples; branches that exchange
their operands.

Every loop ends, because its counter does: a flag says that the counter has reached its bound, and
what else the condition looks at can only end the loop earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.attributes import (
    ConditionalAttributes,
    DimensionsAttributes,
    SliceAttributes,
    SortAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.tools.fuzz.control_steps import Grow, next_carry, unknown_start, updated_row
from xla_backend.tools.fuzz.reducers import comparator, monoid
from xla_backend.tools.fuzz.scope import ARRAYS, INTEGERS, MATH_FLOATS, NUMBERS, WIDE_FLOATS, Scope

_COUNTERS = (P.S32, P.S32, P.S32, P.S64, P.U8, P.F32)
_LAYOUTS = ("flat", "flat", "flat", "halves", "rest")


@dataclass(frozen=True)
class _Layout:
    """How the carries, flat, are packed into the state."""

    kind: str

    def pack(self, s: Scope, values: list[Instruction]) -> Instruction:
        b = s.builder
        if self.kind == "halves":
            at = len(values) // 2
            return b.tuple([b.tuple(values[:at]), b.tuple(values[at:])])
        if self.kind == "rest":
            return b.tuple([values[0], b.tuple(values[1:])])
        return b.tuple(values)

    def unpack(self, s: Scope, state: Instruction) -> list[Instruction]:
        members: list[Instruction] = []
        for i, shape in enumerate(state.shape.tuple_shapes):
            member = s.builder.get_tuple_element(state, i)
            members += [member] if not shape.is_tuple else _Layout("flat").unpack(s, member)
        return members


@dataclass(frozen=True)
class _Flag:
    """A carry that says whether the loop is over, or goes on; a scalar, or a vector all of whose
    elements say the same."""

    says_done: bool
    size: int | None

    def value(self, s: Scope, counter: Instruction, last: float) -> Instruction:
        """Of a counter that counts upwards to `last`."""
        bound = s.number(last, counter.shape.element_type)
        if self.size is not None:
            counter = s.builder.broadcast(counter, (self.size,), ())
            bound = s.builder.broadcast(bound, (self.size,), ())
        return s.builder.compare(counter, bound, D.GE if self.says_done else D.LT)

    def goes_on(self, s: Scope, flag: Instruction) -> Instruction:
        """Whether the loop goes on, computed in the condition."""
        if self.says_done:
            flag = s.add(O.NOT, (flag,))
        if self.size is None:
            return flag
        true = s.builder.constant(np.bool_(True))
        if s.chance(0.5):
            attributes = DimensionsAttributes((0,))
            return s.add(O.REDUCE, (flag, true), attributes, (monoid(O.AND, P.PRED),))
        return _element(s, flag)


def carrying_loop(s: Scope, grow: Grow) -> None:
    """A loop that ends by a counter or by a flag that its body computes."""
    kind = s.one_of(_COUNTERS)
    trips = s.one_of((0, 1, 2, 2, 3, 3, 4, 5))
    flag = _Flag(s.chance(0.6), s.one_of((None, None, None, 1, 3, 8))) if s.chance(0.7) else None
    starts = _starts(s)
    counter = s.number(0, kind)
    control = [counter] if flag is None else [counter, flag.value(s, counter, trips)]
    layout = _Layout(s.one_of(_LAYOUTS))
    # The control carries stand anywhere among the others.
    order = s.shuffled(range(len(control) + len(starts))) if s.chance(0.5) else None
    start = layout.pack(s, _ordered([*control, *starts], order))
    state = start.shape
    condition = _condition(s, state, layout, order, flag, trips)
    body = _body(s, grow, state, layout, order, flag, trips)
    result = s.add(O.WHILE, (start,), called=(condition, body), shape=state)
    s.keep(*s.subset(layout.unpack(s, result), least=1))


def _starts(s: Scope) -> list[Instruction]:
    """Initial values, several of one shape, now and then the same one twice."""
    values: list[Instruction] = []
    for _ in range(s.between(1, 3)):
        value = s.find(ARRAYS, most=3)
        values.append(value)
        for _ in range(s.one_of((0, 0, 1, 1, 2))):
            values.append(value if s.chance(0.25) else s.like(value.shape))
    return values


def _ordered(values: list[Instruction], order: list[int] | None) -> list[Instruction]:
    return values if order is None else [values[i] for i in order]


def _restored(values: list[Instruction], order: list[int] | None) -> list[Instruction]:
    if order is None:
        return values
    place = {number: at for at, number in enumerate(order)}
    return [values[place[number]] for number in range(len(values))]


def _element(s: Scope, x: Instruction) -> Instruction:
    """Some element of an array, as a scalar."""
    if not x.shape.rank:
        return x
    starts = tuple(s.between(0, d - 1) for d in x.shape.dimensions)
    limits = tuple(start + 1 for start in starts)
    ones = (1,) * x.shape.rank
    return s.builder.reshape(s.add(O.SLICE, (x,), SliceAttributes(starts, limits, ones)), ())


def _condition(
    s: Scope,
    state: Shape,
    layout: _Layout,
    order: list[int] | None,
    flag: _Flag | None,
    trips: int,
) -> Computation:
    c = s.nested("condition")
    members = layout.unpack(c, c.builder.parameter(0, state))
    carries = _restored(members, order)
    counter = carries[0]
    if flag is None:
        bound = c.number(trips, counter.shape.element_type)
        going = c.builder.compare(counter, bound, D.LT)
    else:
        going = flag.goes_on(c, carries[1])
    if c.chance(0.3):
        data = [v for v in carries[1:] if math.prod(v.shape.dimensions)]
        if data:
            going = c.add(O.AND, c.shuffled((going, _early_end(c, c.one_of(data)))))
    return c.builder.build(going)


def _early_end(s: Scope, x: Instruction) -> Instruction:
    """Something true or false about a carry, with temporaries of its size."""
    kind = x.shape.element_type
    if kind is P.PRED:
        return _element(s, s.add(O.NOT, (x,)) if s.chance(0.5) else x)
    if kind.is_complex:
        x = s.add(O.REAL, (x,))
        kind = x.shape.element_type
    if x.shape.rank and s.chance(0.5):
        x = s.add(O.REVERSE, (s.add(O.NEGATE, (x,)),), DimensionsAttributes((0,)))
    elif kind in INTEGERS or kind in MATH_FLOATS:
        x = s.add(s.one_of((O.ADD, O.SUBTRACT)), (x, s.full(1, x.shape)))
    bound = s.number(s.between(0, 1) if not kind.is_signed_integral else s.between(-3, 1), kind)
    direction = s.one_of((D.NE, D.GE, D.LE, D.GT))
    return s.builder.compare(_element(s, x), bound, direction)


def _body(
    s: Scope,
    grow: Grow,
    state: Shape,
    layout: _Layout,
    order: list[int] | None,
    flag: _Flag | None,
    trips: int,
) -> Computation:
    inner = s.nested("body")
    carries = _restored(layout.unpack(inner, inner.builder.parameter(0, state)), order)
    counter = carries[0]
    one = inner.number(1, counter.shape.element_type)
    following = inner.add(O.ADD, inner.shuffled((counter, one)))
    control = [following]
    if flag is not None:
        control.append(flag.value(inner, following, trips))
    data = carries[len(control) :]
    # What is not kept cannot be read by the steps: only some carries are.
    inner.keep(*inner.subset(data))
    inner.keep(*inner.subset([counter, *control, *carries[1 : len(control)]]))
    grow(inner, inner.between(0, 4))
    results = _next_data(inner, data, counter)
    return inner.builder.build(layout.pack(inner, _ordered([*control, *results], order)))


def _next_data(s: Scope, data: list[Instruction], counter: Instruction) -> list[Instruction]:
    """New values: a permutation of the old ones, one value for two carries, a constant, what a
    loop usually computes, or something that depends on no carry's own old value."""
    permuted = _permuted(s, data) if s.chance(0.35) else data
    results: list[Instruction] = []
    for old, moved in zip(data, permuted):
        same = [r for r in results if r.shape == old.shape]
        if moved is not old:
            results.append(s.add(O.COPY, (moved,)) if s.chance(0.1) else moved)
        elif same and s.chance(0.2):
            results.append(s.one_of(same))
        elif s.chance(0.15):
            results.append(s.full(1, old.shape))
        elif s.chance(0.2):
            results.append(_independent(s, old, counter))
        elif s.chance(0.25):
            results.append(_through_branches(s, old))
        else:
            small = counter.shape.element_type in (P.S32, P.S64)
            results.append(next_carry(s, old, data, counter if small else None))
    return results


def _permuted(s: Scope, data: list[Instruction]) -> list[Instruction]:
    """Carries of one shape change places."""
    moved = list(data)
    for shape in dict.fromkeys(v.shape for v in data):
        places = [i for i, v in enumerate(data) if v.shape == shape]
        for i, j in zip(places, s.shuffled(places)):
            moved[i] = data[j]
    return moved


def _independent(s: Scope, old: Instruction, counter: Instruction) -> Instruction:
    """Made of the counter: the old value is not read."""
    kind = old.shape.element_type
    if kind is P.PRED:
        two = s.number(2, counter.shape.element_type)
        value = s.builder.compare(counter, two, s.one_of((D.LT, D.EQ, D.GE)))
    else:
        value = s.builder.convert(counter, kind)
    if not old.shape.rank:
        return value
    wide = s.builder.broadcast(value, old.shape.dimensions, ())
    if kind in NUMBERS and s.chance(0.5):
        return s.add(O.ADD, (wide, s.builder.iota(old.shape, 0)))
    return wide


def _through_branches(s: Scope, old: Instruction) -> Instruction:
    """A branch that hands on one of two values, or changes it."""
    other = s.like(old.shape)
    return exchange(s, [old, other])[0]


# -- branches --------------------------------------------------------------------------------------


def exchange(s: Scope, values: list[Instruction]) -> list[Instruction]:
    """A conditional whose branches hand on their operands: as they are, in another order, one of
    them twice, changed, or replaced by a constant. They may get their operands in other orders."""
    indexed = s.chance(0.4)
    chooser = s.like(Shape(P.S32)) if indexed else s.like(Shape(P.PRED))
    count = s.between(1, 3) if indexed else 2
    inputs: list[Instruction] = []
    branches: list[Computation] = []
    shapes = [v.shape for v in values]
    for _ in range(count):
        given = _permuted(s, values) if s.chance(0.4) else values
        inputs.append(s.builder.tuple(given))
        inner = s.nested("branch")
        packed = inner.builder.parameter(0, inputs[-1].shape)
        old = [inner.builder.get_tuple_element(packed, i) for i in range(len(values))]
        results = [_handed_on(inner, old, shape) for shape in shapes]
        branches.append(inner.builder.build(inner.builder.tuple(results)))
    attributes = ConditionalAttributes(indexed)
    operands = (chooser, *inputs)
    result = s.add(O.CONDITIONAL, operands, attributes, branches, Shape.tuple(shapes))
    return [s.builder.get_tuple_element(result, i) for i in range(len(values))]


def _handed_on(s: Scope, old: list[Instruction], shape: Shape) -> Instruction:
    value = s.one_of([v for v in old if v.shape == shape])
    if s.chance(0.15):
        return s.full(1, shape)
    if s.chance(0.35):
        if shape.element_type is P.PRED:
            return s.add(O.NOT, (value,))
        if shape.rank and s.chance(0.5):
            return s.add(O.REVERSE, (value,), DimensionsAttributes((0,)))
        if shape.element_type in NUMBERS:
            return s.add(O.ADD, (value, s.full(1, shape)))
    return value


def exchanging_branches(s: Scope, grow: Grow) -> None:
    s.keep(*exchange(s, _starts(s)))


def dependent_branches(s: Scope, grow: Grow) -> None:
    """Branches with several results of one shape, of which one is computed from another: the first
    is still wanted when the second is there, and may not be written over by it."""
    x = s.find(NUMBERS - {P.C64, P.C128}, least=1, most=3)
    packed = s.builder.tuple([x, s.like(x.shape)])
    count = s.between(2, 3)
    branches: list[Computation] = []
    for _ in range(2):
        inner = s.nested("branch")
        parameter = inner.builder.parameter(0, packed.shape)
        chain = [inner.builder.get_tuple_element(parameter, s.between(0, 1))]
        while len(chain) <= count:
            chain.append(_changed(inner, chain[-1]))
        results = inner.shuffled(chain[1:])
        branches.append(inner.builder.build(inner.builder.tuple(results)))
    operands = (s.like(Shape(P.PRED)), packed, packed)
    shape = Shape.tuple([x.shape] * count)
    s.keep(s.add(O.CONDITIONAL, operands, ConditionalAttributes(False), branches, shape))


def _changed(s: Scope, x: Instruction) -> Instruction:
    """Another array of this shape: updated in place, sorted (which no fusion does), or computed."""
    kind = s.random.random()
    if kind < 0.35 and 0 not in x.shape.dimensions:
        return updated_row(s, x, None)
    if kind < 0.6:
        ascending = comparator([x.shape.element_type], 1, D.LT)
        attributes = SortAttributes(s.between(0, x.shape.rank - 1), False)
        return s.add(O.SORT, (s.ordinary(x),), attributes, (ascending,))
    return s.add(s.one_of((O.ADD, O.SUBTRACT, O.MAXIMUM)), (x, s.full(1, x.shape)))


# -- work that stays the same ----------------------------------------------------------------------


def rotating_loop(s: Scope, grow: Grow) -> None:
    """A counted loop that does the same expensive work in each turn, on a carry that changes places
    with others or stays: only what stays may be worked on before the loop."""
    x = s.find(WIDE_FLOATS, least=1, most=2, condition=lambda shape: shape.num_elements >= 16)
    steps = range(1, s.between(2, 3))
    others = [s.add(O.ADD, (x, s.full(step, x.shape))) for step in steps]
    total = s.full(s.between(0, 1), x.shape)
    start = s.builder.tuple([unknown_start(s), x, *others, total])
    state = start.shape
    c = s.nested("condition")
    counter = c.builder.get_tuple_element(c.builder.parameter(0, state), 0)
    last = c.builder.constant(np.int32(s.between(2, 4)))
    condition = c.builder.build(c.builder.compare(counter, last, D.LT))
    inner = s.nested("body")
    packed = inner.builder.parameter(0, state)
    counter, *data = [
        inner.builder.get_tuple_element(packed, i) for i in range(len(state.tuple_shapes))
    ]
    *rotated, total = data
    work = inner.add(O.TANH, (inner.add(O.SINE, (inner.one_of(rotated),)),))
    total = inner.add(s.one_of((O.ADD, O.MAXIMUM)), inner.shuffled((total, work)))
    following = inner.add(O.ADD, (counter, inner.builder.constant(np.int32(1))))
    moved = inner.shuffled(rotated) if s.chance(0.8) else rotated
    body = inner.builder.build(inner.builder.tuple([following, *moved, total]))
    result = s.add(O.WHILE, (start,), called=(condition, body), shape=state)
    members = [s.builder.get_tuple_element(result, i) for i in range(1, len(state.tuple_shapes))]
    s.keep(members[-1], *s.subset(members[:-1]))


STEPS: list[tuple[float, Callable[[Scope, Grow], None]]] = [
    (6, carrying_loop),
    (1.5, exchanging_branches),
    (1, dependent_branches),
    (1, rotating_loop),
]
