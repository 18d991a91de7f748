"""Random steps of vectorized maps: arrays that each lane updates at a place of its own, in loops
and without, and that are kept, lane by lane, where a predicate says so.

The predicate comes from anywhere: from outside, from the loop that updates the array, or from a
loop that started with the same tuple. Whoever moves it into the updates, or a loop out of dead
lanes, must see who else looks at them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    GatherAttributes,
    ScatterAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.tools.fuzz.control_steps import Grow, unknown_start
from xla_backend.tools.fuzz.reducers import binary_computation, monoid
from xla_backend.tools.fuzz.scope import INTEGERS, MATH_FLOATS, Scope

_LAST = 4  # loops end before this place


@dataclass(frozen=True)
class _Lanes:
    """Arrays of one vectorized map: `lanes` are the leading dimensions of all, `width` elements
    of type `kind` belong to each."""

    lanes: tuple[int, ...]
    width: int
    kind: P

    @property
    def places(self) -> tuple[int, ...]:
        """The leading dimensions."""
        return tuple(range(len(self.lanes)))

    def shape(self, *rest: int, kind: P | None = None) -> Shape:
        return Shape.array(kind or self.kind, (*self.lanes, *rest))

    def spread(self, s: Scope, x: Instruction, *rest: int) -> Instruction:
        """One value of each lane, copied."""
        return s.builder.broadcast(x, (*self.lanes, *rest), self.places)

    @property
    def are_square(self) -> bool:
        return len(self.lanes) > 1 and len(set(self.lanes)) == 1

    def crossed(self, s: Scope, x: Instruction) -> Instruction:
        """One value of each lane, copied to the elements of a lane that is another."""
        places = self.places[::-1]
        return s.builder.broadcast(x, (*self.lanes, self.width), places)

    def scatter(
        self, s: Scope, x: Instruction, at: Instruction, new: Instruction, reducer: Computation
    ) -> Instruction:
        """One new element for each lane."""
        d = len(self.lanes)
        attributes = ScatterAttributes(
            update_window_dims=(),
            inserted_window_dims=(d,),
            scatter_dims_to_operand_dims=(d,),
            index_vector_dim=d,
            input_batching_dims=self.places,
            scatter_indices_batching_dims=self.places,
        )
        return s.add(O.SCATTER, (x, at, new), attributes, (reducer,))

    def gather(self, s: Scope, x: Instruction, at: Instruction) -> Instruction:
        """One element of each lane."""
        d = len(self.lanes)
        attributes = GatherAttributes(
            offset_dims=(),
            collapsed_slice_dims=(d,),
            start_index_map=(d,),
            index_vector_dim=d,
            slice_sizes=(1,) * (d + 1),
            operand_batching_dims=self.places,
            start_indices_batching_dims=self.places,
        )
        return s.add(O.GATHER, (x, at), attributes)

    def updated(self, s: Scope, x: Instruction, at: Instruction, new: Instruction) -> Instruction:
        """An element of each lane replaced, or added to."""
        if s.chance(0.4):
            replace = binary_computation(self.kind, lambda b, old, new: new, "replace")
            return self.scatter(s, x, at, new, replace)
        opcode = s.one_of((O.ADD, O.ADD, O.MAXIMUM))
        return self.scatter(s, x, at, new, monoid(opcode, self.kind))

    def column_updated(
        self, s: Scope, x: Instruction, at: Instruction, new: Instruction
    ) -> Instruction:
        """The same element of every lane, at the scalar `at`."""
        column = s.builder.reshape(new, (*self.lanes, 1))
        zero = s.number(0, at.shape.element_type)
        return s.add(O.DYNAMIC_UPDATE_SLICE, (x, column, *[zero] * len(self.lanes), at))

    def following(self, s: Scope, c: Instruction, y: Instruction, at: Instruction) -> Instruction:
        """What a lane remembers of a step: of its own elements, mostly."""
        kind = s.random.random()
        if kind < 0.45:
            return self.gather(s, y, at)
        if kind < 0.6 and (self.kind.is_signed_integral or self.kind in MATH_FLOATS):
            return s.add(O.NEGATE, (c,))
        if kind < 0.9:
            return s.add(s.one_of((O.ADD, O.MAXIMUM)), (c, self.gather(s, y, at)))
        flipped = DimensionsAttributes((s.between(0, len(self.lanes) - 1),))
        return s.add(O.REVERSE, (c,), flipped)  # lanes meet


def _drawn(s: Scope) -> tuple[_Lanes, Instruction]:
    """Lanes, and an array of them: now and then one that is there."""
    rank = s.one_of((1, 1, 2))
    kinds = MATH_FLOATS | INTEGERS - {P.S2, P.U2}
    x = s.find(kinds, least=rank + 1, most=rank + 1)
    lanes, width = x.shape.dimensions[:-1], x.shape.dimensions[-1]
    if rank == 1 and 0 not in lanes and 4 <= width and x.shape.num_elements <= s.scale.elements:
        return _Lanes(lanes, width, x.shape.element_type), x
    size = s.between(1, 4) if rank == 1 else s.between(2, 4)
    drawn = _Lanes((size,) * rank, s.one_of((6, 8, 10, 17)), s.element_type(kinds))
    return drawn, s.like(drawn.shape(drawn.width))


# -- loops that run the same number of times for all lanes -----------------------------------------


def _counted_start(s: Scope, x: Instruction, c: Instruction) -> list[Instruction]:
    return [unknown_start(s) if s.chance(0.6) else s.builder.constant(np.int32(0)), x, c]


def _counted_loop(s: Scope, lanes: _Lanes, start: Instruction) -> Instruction:
    state = start.shape
    inner = s.nested("condition")
    counter = inner.builder.get_tuple_element(inner.builder.parameter(0, state), 0)
    last = inner.builder.constant(np.int32(s.between(1, _LAST)))
    condition = inner.builder.build(inner.builder.compare(counter, last, D.LT))
    inner = s.nested("body")
    b = inner.builder
    packed = b.parameter(0, state)
    n, y, c = (b.get_tuple_element(packed, i) for i in range(3))
    at = b.broadcast(n, (*lanes.lanes, 1), ())
    if inner.chance(0.75):
        new = lanes.updated(inner, y, at, c)
    else:
        new = lanes.column_updated(inner, y, n, c)
    if inner.chance(0.25):
        elsewhere = lanes.spread(inner, inner.like(lanes.shape(kind=P.S32)), 1)
        new = lanes.updated(inner, new, elsewhere, c)
    following = lanes.following(inner, c, inner.one_of((y, new)), at)
    n = inner.add(O.ADD, (n, b.constant(np.int32(1))))
    body = b.build(b.tuple([n, new, following]))
    return s.add(O.WHILE, (start,), called=(condition, body), shape=state)


# -- loops that end lane by lane -------------------------------------------------------------------


def _flagged_start(
    s: Scope, lanes: _Lanes, x: Instruction, c: Instruction, predicate: Instruction
) -> list[Instruction]:
    at = s.like(lanes.shape(kind=P.S32))
    at = s.add(O.AND, (at, s.full(3, at.shape)))
    goes = s.builder.compare(at, s.full(_LAST, at.shape), D.LT)
    if s.chance(0.5):
        goes = s.add(O.AND, s.shuffled((goes, predicate)))
    return [goes, at, x, c]


def _flagged_loop(s: Scope, lanes: _Lanes, start: Instruction) -> Instruction:
    """The loop goes on while any lane does; the others keep what they have."""
    state = start.shape
    inner = s.nested("condition")
    flag = inner.builder.get_tuple_element(inner.builder.parameter(0, state), 0)
    false = inner.builder.constant(np.bool_(False))
    attributes = DimensionsAttributes(lanes.places)
    any_lane = inner.add(O.REDUCE, (flag, false), attributes, (monoid(O.OR, P.PRED),))
    condition = inner.builder.build(any_lane)
    inner = s.nested("body")
    b = inner.builder
    packed = b.parameter(0, state)
    goes, at, y, c = (b.get_tuple_element(packed, i) for i in range(4))
    place = b.reshape(at, (*lanes.lanes, 1))
    changed = lanes.updated(inner, y, place, c)
    following = lanes.following(inner, c, inner.one_of((y, changed)), place)
    new_at = inner.add(O.ADD, (at, inner.full(1, at.shape)))
    below = b.compare(new_at, inner.full(_LAST, at.shape), D.LT)
    wide = lanes.spread(inner, goes, lanes.width)
    kept = [
        inner.add(O.AND, inner.shuffled((goes, below))),
        inner.add(O.SELECT, (goes, new_at, at)),
        inner.add(O.SELECT, (wide, changed, y)),
        inner.add(O.SELECT, (goes, following, c)),
    ]
    body = b.build(b.tuple(kept))
    return s.add(O.WHILE, (start,), called=(condition, body), shape=state)


# -- selects ---------------------------------------------------------------------------------------


def kept_updates(s: Scope, grow: Grow) -> None:
    """Loops from one and the same start, and updates without a loop; selects by lane between what
    they give, under predicates that may come from them."""
    lanes, x = _drawn(s)
    c = s.like(lanes.shape())
    outside = s.like(lanes.shape(kind=P.PRED))
    arrays, values, masks = [x], [c], [outside]
    if s.chance(0.35):
        arrays.append(_update_before(s, lanes, arrays, values))
    flagged = s.chance(0.6 if lanes.are_square else 0.4)
    members = (
        _flagged_start(s, lanes, arrays[-1], c, outside)
        if flagged
        else _counted_start(s, arrays[-1], c)
    )
    start = s.builder.tuple(members)
    loops: list[Instruction] = []
    for _ in range(s.one_of((1, 1, 2, 2, 3))):
        # Equal tuples become one, if not before.
        start = s.builder.tuple(members) if s.chance(0.3) else start
        made = _flagged_loop(s, lanes, start) if flagged else _counted_loop(s, lanes, start)
        *_, y, last = (s.builder.get_tuple_element(made, i) for i in range(len(members)))
        loops.append(y)
        arrays.append(y)
        values.append(last)
        if s.chance(0.5):
            masks.append(_compared(s, last, c))
    if s.chance(0.35):
        arrays.append(_update_before(s, lanes, arrays, values))
    way = s.random.random()
    if way < 0.3:
        # Two branches from one array, of which the one reads what the other gives.
        at = s.integers((*lanes.lanes, 1))
        other = lanes.updated(s, members[-2], at, values[-1])
        wide = lanes.spread(s, outside, lanes.width)
        results = [s.add(O.SELECT, (wide, *s.shuffled((other, loops[-1]))))]
    elif way < 0.75 and lanes.are_square:
        results = [s.add(O.SELECT, (lanes.crossed(s, outside), loops[-1], members[-2]))]
    else:
        results = [_chosen(s, lanes, arrays, masks) for _ in range(s.one_of((1, 1, 2)))]
    if s.chance(0.3):
        mask = s.one_of(masks)
        results.append(s.add(O.SELECT, (mask, s.one_of(values), s.one_of(values))))
    # What else reads an array shows its dead lanes: then nothing may change.
    seen = s.subset([*arrays[1:], *values[1:]], most=2) if s.chance(0.4) else []
    s.keep(*results, *seen)


def _update_before(
    s: Scope, lanes: _Lanes, arrays: list[Instruction], values: list[Instruction]
) -> Instruction:
    """An update outside of the loops, of something a loop gave or may start with."""
    at = s.integers((*lanes.lanes, 1))
    return lanes.updated(s, s.one_of(arrays), at, s.one_of(values))


def _compared(s: Scope, value: Instruction, other: Instruction) -> Instruction:
    """Something true or false about what a loop gave for each lane; exact in floats that are."""
    return s.builder.compare(value, other, s.one_of((D.GE, D.NE, D.LT)))


def _chosen(
    s: Scope, lanes: _Lanes, arrays: list[Instruction], masks: list[Instruction]
) -> Instruction:
    """A select between two of the arrays, as a rule the last and the first."""
    mask = masks[0] if s.chance(0.4) else s.one_of(masks)
    crossed = lanes.are_square and s.chance(0.3)
    wide = lanes.crossed(s, mask) if crossed else lanes.spread(s, mask, lanes.width)
    arms = [s.one_of(arrays[1:]), arrays[0] if s.chance(0.6) else s.one_of(arrays)]
    return s.add(O.SELECT, (wide, *(arms if s.chance(0.7) else arms[::-1])))


STEPS: list[tuple[float, Callable[[Scope, Grow], None]]] = [(5, kept_updates)]
