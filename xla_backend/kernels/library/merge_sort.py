"""Sorts of long rows by any comparator: stretches that fit into the memory of a block are sorted
there, and then merged, two and two, in a stage for each doubling.

A merge is cut into equal parts of its result. Where a part begins in the two stretches is found
by bisection ("merge path"): of the first d elements of the result, so many come from the left one
that nothing left out of them comes before anything taken. Each thread then merges its part.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, Value
from xla_backend.kernels.library.bitonic_sort import Sorted, longest, sort_stretches
from xla_backend.kernels.library.orders import Order
from xla_backend.kernels.library.places import (
    Places,
    both,
    either,
    for_each,
    guard_of,
    log2,
    negated,
    power_of_two,
)
from xla_backend.kernels.library.rows import Rows

P = PrimitiveType
# Results that one thread merges.
_PART = 8


def merge_sort(
    e: ElementalEmitter,
    order: Order,
    operands: Sequence[Buffer],
    rows: Rows,
    stretch: int | None = None,
) -> Buffer:
    """Stages that sort rows; returns a buffer of the numbers of their elements in order, row by
    row. `stretch`: the elements (a power of two) that are sorted at once, by default as many as fit
    into the memory of a block."""
    rows.check_numbered()
    b = e.builder
    size = stretch or min(longest(order), power_of_two(rows.n))
    source, target = (
        b.buffer(f"order{i}", P.S32, rows.elements, BufferRole.SCRATCH, i) for i in range(2)
    )

    def keep(element: Sorted) -> None:
        at = element.row * rows.n + element.place
        number = b.index_value(element.number, P.S32)
        b.store(source, at, (number,), element.guard)

    sort_stretches(e, order, operands, rows, size, keep)
    while size < rows.n:
        _Merge(e, order, operands, rows, size).emit(source, target)
        source, target = target, source
        size *= 2
    return source


class _Merge:
    """A stage that merges sorted stretches of `width` elements, two and two."""

    def __init__(
        self,
        e: ElementalEmitter,
        order: Order,
        operands: Sequence[Buffer],
        rows: Rows,
        width: int,
    ) -> None:
        self.e, self.b, self.order, self.operands, self.rows = e, e.builder, order, operands, rows
        self.width = width
        self.part = min(_PART, 2 * width)
        self.places = Places(self.b, rows.n + 2 * width)

    def emit(self, source: Buffer, target: Buffer) -> None:
        parts = -(-self.rows.n // self.part)
        with for_each(self.b, self.rows.count * parts) as at:
            self._part(source, target, at // parts, at % parts * self.part)

    def _part(self, source: Buffer, target: Buffer, row: Index, first: Index) -> None:
        """Results from number `first` of a row on."""
        b, places, n = self.b, self.places, self.rows.n
        base = first // (2 * self.width) * (2 * self.width)
        begin = places.of(base)
        middle = places.smaller(places.add(begin, self.width), n)
        end = places.smaller(places.add(begin, 2 * self.width), n)
        taken = places.of(first - base)
        left = self._taken_from_left(source, row, (begin, middle, end), taken)
        right = places.add(middle, places.subtract(taken, left))
        left = places.add(begin, left)
        step, (left, right) = b.open_loop(self.part, inits=(left, right))
        here = guard_of(b, b.in_range(first + step, 0, n))
        some_left, some_right = places.less(left, middle), places.less(right, end)
        x = self._number(source, row, left, guard_of(b, some_left, here))
        y = self._number(source, row, right, guard_of(b, some_right, here))
        compared = guard_of(b, some_left, some_right, here)
        before = self._comes_first(row, y, x, compared)
        take_right = both(b, some_right, either(b, negated(b, some_left), before))
        number = b.compute(Opcode.SELECT, P.S32, (take_right, y, x))
        b.store(target, row * n + first + step, (number,), here)
        nexts = (
            places.select(take_right, left, places.add(left, 1)),
            places.select(take_right, places.add(right, 1), right),
        )
        b.close_loop(nexts)

    def _taken_from_left(
        self, source: Buffer, row: Index, stretches: tuple[Value, Value, Value], taken: Value
    ) -> Value:
        """How many of the first `taken` results come from the left one of two stretches."""
        b, places = self.b, self.places
        begin, middle, end = stretches
        low = places.larger(places.subtract(taken, places.subtract(end, middle)), 0)
        high = places.smaller(taken, places.subtract(middle, begin))
        _, (low, high) = b.open_loop(log2(self.width) + 1, inits=(low, high))
        searching = places.less(low, high)
        half = places.down(places.add(low, high), 1)
        x = self._number(source, row, places.add(begin, half), searching)
        mirrored = places.subtract(places.subtract(taken, 1), half)
        y = self._number(source, row, places.add(middle, mirrored), searching)
        right_first = self._comes_first(row, y, x, searching)
        shrinks = both(b, searching, right_first)
        grows = both(b, searching, negated(b, right_first))
        nexts = (
            places.select(grows, places.add(half, 1), low),
            places.select(shrinks, half, high),
        )
        low, _ = b.close_loop(nexts)
        return low

    def _number(self, source: Buffer, row: Index, k: Value, guard: Value | None) -> Value:
        """The number of the element at place k of a row."""
        at = row * self.rows.n + self.places.index(k, (0, self.rows.n - 1))
        number = self.b.load(source, at, guard, mutable=True)
        number.bounds = (0, self.rows.n - 1)
        return number

    def _comes_first(self, row: Index, x: Value, y: Value, guard: Value | None) -> Value:
        keys = [
            self.order.keys_at(self.operands, self.rows.place(row, Index.of(number)), guard)
            for number in (x, y)
        ]
        return self.order.comes_first(*keys)
