"""Random steps: operations that move data."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.tools.fuzz.scope import ARRAYS, NUMBERS, Scope


def broadcast(s: Scope) -> None:
    x = s.find(ARRAYS, most=3)
    dims = list(x.shape.dimensions)
    places = list(range(len(dims)))
    for _ in range(s.between(1, 2)):
        size = s.size()
        if math.prod(dims) * size > s.scale.elements * 2:
            size = 2
        at = s.between(0, len(dims))
        dims.insert(at, size)
        places = [p + (p >= at) for p in places]
    s.keep(s.builder.broadcast(x, dims, places))


def outer_product(s: Scope) -> None:
    """Two vectors broadcast against each other."""
    x = s.find(NUMBERS, least=1, most=1)
    y = s.find(frozenset({x.shape.element_type}), least=1, most=1)
    dims = (*x.shape.dimensions, *y.shape.dimensions)
    if math.prod(dims) > s.scale.elements * 2:
        return
    pair = (s.builder.broadcast(x, dims, (0,)), s.builder.broadcast(y, dims, (1,)))
    s.keep(s.add(s.one_of((O.MULTIPLY, O.ADD, O.SUBTRACT)), pair))


def reshape(s: Scope) -> None:
    x = s.find(ARRAYS)
    count = x.shape.num_elements
    if count == 0:
        s.keep(s.builder.reshape(x, s.one_of(((0,), (2, 0), (0, 3), (1, 0, 1)))))
        return
    dims: list[int] = []
    while count > 1 and len(dims) < 4:
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        dims.append(s.one_of(divisors))
        count //= dims[-1]
    dims = s.shuffled([*dims, count] if count > 1 or s.chance(0.3) else dims)
    s.keep(s.builder.reshape(x, dims))


def transpose(s: Scope) -> None:
    x = s.find(ARRAYS, least=2)
    s.keep(s.builder.transpose(x, s.shuffled(range(x.shape.rank))))


def reverse(s: Scope) -> None:
    x = s.find(ARRAYS, least=1)
    dims = tuple(s.subset(range(x.shape.rank), least=1))
    s.keep(s.add(O.REVERSE, (x,), DimensionsAttributes(dims)))


def slice_(s: Scope) -> None:
    x = s.find(ARRAYS, least=1)
    starts, limits, strides = [], [], []
    for size in x.shape.dimensions:
        if s.chance(0.4):
            start, limit = 0, size
        else:
            start = s.between(0, max(0, size - 1))
            limit = (
                s.between(start, size) if s.chance(0.1) else s.between(min(start + 1, size), size)
            )
        starts.append(start)
        limits.append(limit)
        strides.append(s.one_of((1, 1, 1, 2, 3)))
    s.keep(s.add(O.SLICE, (x,), SliceAttributes(tuple(starts), tuple(limits), tuple(strides))))


def pad(s: Scope) -> None:
    x = s.find(ARRAYS, least=1, most=3)
    low, high, interior = [], [], []
    for size in x.shape.dimensions:
        inner = s.one_of((0, 0, 0, 1, 2))
        total = size + max(0, size - 1) * inner
        before = s.between(-2, 3) if s.chance(0.7) else 0
        after = s.between(-2, 3) if s.chance(0.7) else 0
        if total + before + after < 0:
            before = after = 0
        low.append(before)
        high.append(after)
        interior.append(inner)
    value = s.like(Shape(x.shape.element_type))
    s.keep(s.add(O.PAD, (x, value), PadAttributes(tuple(low), tuple(high), tuple(interior))))


def concatenate(s: Scope) -> None:
    x = s.find(ARRAYS, least=1, most=4)
    axis = s.between(0, x.shape.rank - 1)
    parts = [x]
    for _ in range(s.between(0, 3)):
        dims = list(x.shape.dimensions)
        if s.chance(0.4):
            dims[axis] = s.between(0, 4)
        parts.append(x if s.chance(0.1) else s.like(x.shape.with_dimensions(dims)))
    s.keep(s.add(O.CONCATENATE, s.shuffled(parts), DimensionsAttributes((axis,))))


def roll(s: Scope) -> None:
    """The end of an array before its beginning, as `roll` lowers."""
    x = s.find(ARRAYS, least=1, most=3)
    axis = s.between(0, x.shape.rank - 1)
    at = s.between(0, x.shape.dimensions[axis])

    def part(start: int, limit: int) -> Instruction:
        starts, limits = [0] * x.shape.rank, list(x.shape.dimensions)
        starts[axis], limits[axis] = start, limit
        ones = (1,) * x.shape.rank
        return s.add(O.SLICE, (x,), SliceAttributes(tuple(starts), tuple(limits), ones))

    parts = (part(at, x.shape.dimensions[axis]), part(0, at))
    s.keep(s.add(O.CONCATENATE, parts, DimensionsAttributes((axis,))))


def iota(s: Scope) -> None:
    shape = Shape.array(s.element_type(NUMBERS), s.dimensions(1, 3))
    s.keep(s.builder.iota(shape, s.between(0, shape.rank - 1)))


def starts_for(s: Scope, x: Instruction) -> list[Instruction]:
    """Start indices of a dynamic slice: constants and computed values, some out of range."""
    if x.shape.rank == 0:
        return []
    kind = s.integers(()).shape
    return [
        s.like(kind) if s.chance(0.6) else s.number(s.between(0, 4), kind.element_type)
        for _ in x.shape.dimensions
    ]


def dynamic_slice(s: Scope) -> None:
    x = s.find(ARRAYS, most=4)
    sizes = tuple(s.between(min(1, d), d) for d in x.shape.dimensions)
    s.keep(s.add(O.DYNAMIC_SLICE, (x, *starts_for(s, x)), DynamicSliceAttributes(sizes)))


def dynamic_update_slice(s: Scope) -> None:
    """Alone, or with the read and the change of the same window, as an in-place update."""
    x = s.find(ARRAYS, most=4)
    dims = tuple(s.between(min(1, d), d) for d in x.shape.dimensions)
    starts = starts_for(s, x)
    update = s.like(x.shape.with_dimensions(dims))
    if x.shape.element_type in NUMBERS and s.chance(0.4):
        old = s.add(O.DYNAMIC_SLICE, (x, *starts), DynamicSliceAttributes(dims))
        update = s.add(O.ADD, (old, update))
    s.keep(s.add(O.DYNAMIC_UPDATE_SLICE, (x, update, *starts)))


def copy(s: Scope) -> None:
    s.keep(s.add(O.COPY, (s.find(ARRAYS),)))


def barrier(s: Scope) -> None:
    """An optimisation barrier around a few values."""
    values = [s.find(ARRAYS) for _ in range(s.between(1, 3))]
    packed = s.builder.tuple(values)
    s.keep(s.add(O.OPT_BARRIER, (packed,), shape=packed.shape))


STEPS = [
    (4, broadcast),
    (1.5, outer_product),
    (4, reshape),
    (4, transpose),
    (2, reverse),
    (4, slice_),
    (3, pad),
    (3, concatenate),
    (1, roll),
    (1.5, iota),
    (3, dynamic_slice),
    (3, dynamic_update_slice),
    (0.5, copy),
    (0.3, barrier),
]
