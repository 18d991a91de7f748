"""Halo exchange: from the parts of a dimension to stretches of it, which may overlap.

  y = stretch(b, x, Along(1, 12, axes), starts, 5)      # each device: [start, start + 5)
  y = filled(b, y, Along(1, 12, axes), starts, value)   # what lies outside of the array

Windows, slices, paddings and concatenations of cut dimensions are made of that. Each device gets
what it lacks from those who have it, by collective-permutes of as little as serves all; where that
would be more than all there is, it is an all-gather.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_backend.hlo.attributes import ComparisonDirection, Value
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.spmd.exchange import PartBuilder
from xla_backend.spmd.specs import Axes

Pair = tuple[int, int]  # positions along axes: who gives, who takes


class Along(Value):
    """A dimension of an array that is cut.

    Fields:
      dimension: its number.
      size: that of the whole.
      axes: along which devices have other parts, or want other stretches.
    """

    dimension: int
    size: int
    axes: Axes


def stretch(
    b: PartBuilder, x: Instruction, along: Along, starts: Sequence[int], length: int
) -> Instruction:
    """Elements [start, start + length) of a dimension; what lies outside of it is anything.

    Args:
      x: a device's part.
      starts: of each position along the axes.
    """
    plan = _Plan(x.shape.dimensions[along.dimension], along.size, starts, length)
    d = along.dimension
    if plan.moved >= (len(starts) - 1) * plan.part:
        gathered = b.all_gather(x, d, along.axes)
        return stretch_of_whole(b, gathered, along, starts, length)
    return _joined(b, x, along, plan, length)


def moved_elements(part: int, size: int, starts: Sequence[int], length: int) -> int:
    """How many elements of the dimension a device takes part in moving for such stretches."""
    plan = _Plan(part, size, starts, length)
    return min(plan.moved, (len(starts) - 1) * part)


def stretch_around(
    b: PartBuilder, x: Instruction, along: Along, starts: Sequence[int]
) -> Instruction:
    """As many elements as a part has from each start on, of a dimension that is cut evenly and
    whose first element follows its last one."""
    part = x.shape.dimensions[along.dimension]
    return _joined(b, x, along, _PlanAround(part, along.size, starts, part), part)


def _joined(b: PartBuilder, x: Instruction, along: Along, plan: _Plan, length: int) -> Instruction:
    d, starts = along.dimension, plan.starts
    pieces = []
    for number, (low, high) in enumerate(plan.pieces):
        piece = _cut(b, x, d, low, high)
        pieces.append(_brought(b, piece, along.axes, plan.pairs(number), len(starts)))
    joined = pieces[0] if len(pieces) == 1 else b.concatenate(pieces, d)
    return beginning_at(b, joined, along, plan.offsets, length)


def stretch_of_whole(
    b: PartBuilder, x: Instruction, along: Along, starts: Sequence[int], length: int
) -> Instruction:
    """The same where every device has all of the dimension, or more."""
    low = max(0, -min(starts))
    high = max(0, max(starts) + length - x.shape.dimensions[along.dimension])
    x = b.pad(x, along.dimension, low, high)
    return beginning_at(b, x, along, [start + low for start in starts], length)


def filled(
    b: PartBuilder, x: Instruction, along: Along, starts: Sequence[int], value: Instruction | None
) -> Instruction:
    """A stretch with a scalar (zero) where it lies outside of the array."""
    length = x.shape.dimensions[along.dimension]
    tests = []
    if min(starts) < 0:
        tests.append((ComparisonDirection.GE, 0))
    if max(starts) + length > along.size:
        tests.append((ComparisonDirection.LT, along.size))
    if not tests or length == 0:
        return x
    numbers = positions(b, length, b.table(along.axes, starts))
    inside = [b.compare(numbers, b.full(numbers.shape, limit), test) for test, limit in tests]
    mask = inside[0] if len(inside) == 1 else b.binary(Opcode.AND, *inside)
    value = b.zero(x.shape.element_type) if value is None else value
    return masked(b, x, along.dimension, mask, value)


def positions(b: PartBuilder, length: int, start: Instruction) -> Instruction:
    """s32[length]: start, start + 1, ..."""
    numbers = b.iota(Shape.array(PrimitiveType.S32, (length,)), 0)
    return b.binary(Opcode.ADD, numbers, b.broadcast(start, (length,), ()))


def masked(
    b: PartBuilder, x: Instruction, dimension: int, mask: Instruction, value: Instruction
) -> Instruction:
    """With a scalar in those places of a dimension where a mask is not set."""
    mask = b.broadcast(mask, x.shape.dimensions, (dimension,))
    other = b.broadcast(value, x.shape.dimensions, ())
    return b.add(Opcode.SELECT, (mask, x, other), shape=x.shape)


def without_padding(
    b: PartBuilder, x: Instruction, along: Along, value: Instruction | None
) -> Instruction:
    """A part with a scalar (zero) in the place of its padding."""
    part = x.shape.dimensions[along.dimension]
    return filled(b, x, along, range(0, part * b.mesh.count(along.axes), part), value)


# -- who gives what to whom ------------------------------------------------------------------------


class _Plan:
    """From parts to stretches.

    A device's pieces are those of the parts that its stretch touches, in order: of all but the
    first and the last everything, of these what some device wants.

    Attributes:
      part: the size of the parts.
      pieces: of each piece where it begins and ends in the part that it is of.
      offsets: where in its joined pieces the stretch of each device begins.
    """

    def __init__(self, part: int, size: int, starts: Sequence[int], length: int) -> None:
        self.part = part
        self.starts = starts
        self._size, self._length = size, length
        self._first = [start // part for start in starts]
        inside = [start - first * part for start, first in zip(starts, self._first)]
        begin, end = min(inside), max(inside) + length
        numbers = range(-(-end // part))
        self.pieces = [
            (max(n * part, begin) - n * part, min((n + 1) * part, end) - n * part) for n in numbers
        ]
        self.offsets = [offset - begin for offset in inside]

    def pairs(self, number: int) -> list[Pair]:
        """Who has a piece that somebody wants."""
        low, high = self.pieces[number]
        found = []
        for target, (start, first) in enumerate(zip(self.starts, self._first)):
            source = self._who(first + number)
            begin = (first + number) * self.part
            wanted = max(begin + low, start), min(begin + high, start + self._length)
            if source is not None and wanted[0] < self._bound(wanted[1]):
                found.append((source, target))
        return found

    def _who(self, part: int) -> int | None:
        """Who has the part of that number."""
        return part if 0 <= part < len(self.starts) else None

    def _bound(self, end: int) -> int:
        """Where elements that were asked for up to there end."""
        return min(end, self._size)

    @property
    def moved(self) -> int:
        """How many elements a device takes part in moving, at most."""
        return sum(
            (high - low) * len(list(_rounds(self.pairs(number))))
            for number, (low, high) in enumerate(self.pieces)
            if any(s != t for s, t in self.pairs(number))
        )


class _PlanAround(_Plan):
    """With the first part behind the last one."""

    def _who(self, part: int) -> int:
        return part % len(self.starts)

    def _bound(self, end: int) -> int:
        return end


def _rounds(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Such that in each nobody gives twice."""
    left = list(pairs)
    while left:
        gives: set[int] = set()
        now: list[Pair] = []
        later: list[Pair] = []
        for pair in left:
            (later if pair[0] in gives else now).append(pair)
            gives.add(pair[0])
        yield now
        left = later


def _brought(
    b: PartBuilder, x: Instruction, axes: Axes, pairs: Sequence[Pair], count: int
) -> Instruction:
    """On each device what the one has that gives to it."""
    if all(source == target for source, target in pairs):
        return x
    found: Instruction | None = None
    for now in _rounds(pairs):
        own = all(source == target for source, target in now)
        got = x if own else b.permute(x, axes, now)
        if found is not None:
            takes = {target for _, target in now}
            chosen = b.table(axes, [int(k in takes) for k in range(count)])
            mask = b.broadcast(b.convert(chosen, PrimitiveType.PRED), x.shape.dimensions, ())
            got = b.add(Opcode.SELECT, (mask, got, found), shape=x.shape)
        found = got
    assert found is not None
    return found


def _cut(b: PartBuilder, x: Instruction, dimension: int, low: int, high: int) -> Instruction:
    dims = x.shape.dimensions
    if (low, high) == (0, dims[dimension]):
        return x
    starts = [low if d == dimension else 0 for d in range(len(dims))]
    limits = [high if d == dimension else size for d, size in enumerate(dims)]
    return b.slice(x, starts, limits)


def beginning_at(
    b: PartBuilder, x: Instruction, along: Along, offsets: Sequence[int], length: int
) -> Instruction:
    """From each device's offset on."""
    if len(set(offsets)) == 1:
        return _cut(b, x, along.dimension, offsets[0], offsets[0] + length)
    sizes = list(x.shape.dimensions)
    sizes[along.dimension] = length
    return b.slice_at(x, {along.dimension: b.table(along.axes, offsets)}, sizes)
