"""Sorts of rows, or of equal stretches of them, each in the memory of one block: a bitonic network.

The same sorts find the first few of each row: the first of each stretch are candidates, of which
another stage takes the first, until a stretch holds all of them.

Elements are moved as their keys and their numbers in the row; the number decides where the
comparator does not, so the sort is stable. A stretch is filled up to a power of two with numbers
from the row's length on, which come last. All exchanges of the network go the same way: of each
pair the smaller element comes to lie first, and a step that merges two halves begins with pairs
that mirror each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind, Value
from xla_backend.kernels.library.orders import Order
from xla_backend.kernels.library.places import (
    SHARED_BYTES,
    Places,
    both,
    dealt,
    either,
    guard_of,
    log2,
    negated,
    power_of_two,
)
from xla_backend.kernels.library.rows import Rows
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType
_MOST_THREADS = 512
_NUMBER_BYTES = P.S32.byte_size
# Short rows share a block, up to so many elements in all.
_ENOUGH = 512


def longest(order: Order) -> int:
    """The most elements, a power of two, that fit into the memory of a block."""
    room = SHARED_BYTES // (order.key_bytes + _NUMBER_BYTES)
    return min(1 << room.bit_length() - 1, 8 * _MOST_THREADS)


@dataclass(frozen=True)
class Sorted:
    """An element of a sorted stretch: the keys, the number in its row, and the place in the row (or
    among its candidates) that it came to; `guard`: where there is such an element."""

    row: Index
    place: Index
    keys: list[Element]
    number: Index
    guard: Value | None


@dataclass(frozen=True)
class Candidates:
    """`count` elements of each row: their numbers, row by row."""

    numbers: Buffer
    count: int


def sort_stretches(
    e: ElementalEmitter,
    order: Order,
    operands: Sequence[Buffer],
    rows: Rows,
    size: int,
    finish: Callable[[Sorted], None],
    candidates: Candidates | None = None,
) -> None:
    """A stage that sorts each stretch of `size` (a power of two) elements of every row, or of the
    candidates of a row, and hands over its elements one by one, each in a thread."""
    _Stretches(e, order, operands, rows, size, candidates).emit(finish)


def first_of_rows(
    e: ElementalEmitter,
    order: Order,
    operands: Sequence[Buffer],
    rows: Rows,
    size: int,
    first: int,
    finish: Callable[[Sorted], None],
) -> None:
    """Stages that hand over the `first` elements of rows in order; stretches of `size` elements are
    sorted. Of longer rows no more than half as many may be wanted."""
    assert rows.n <= size or 2 * first <= size
    candidates: Candidates | None = None
    length, level = rows.n, 0

    def stage(keep: Callable[[Sorted], None], size: int) -> None:
        def first_ones(element: Sorted) -> None:
            within = e.builder.in_range(element.place % size, 0, first)
            keep(replace(element, guard=guard_of(e.builder, element.guard, within)))

        sort_stretches(e, order, operands, rows, size, first_ones, candidates)

    while length > size:
        whole, rest = divmod(length, size)
        count = whole * first + min(rest, first)
        kept = e.builder.buffer(
            f"candidates{level}", P.S32, rows.count * count, BufferRole.SCRATCH, level
        )

        def keep(element: Sorted, kept: Buffer = kept, count: int = count) -> None:
            place = element.place // size * first + element.place % size
            number = e.builder.index_value(element.number, P.S32)
            e.builder.store(kept, element.row * count + place, (number,), element.guard)

        stage(keep, size)
        candidates, length, level = Candidates(kept, count), count, level + 1
    stage(finish, power_of_two(length))


class _Stretches:
    def __init__(
        self,
        e: ElementalEmitter,
        order: Order,
        operands: Sequence[Buffer],
        rows: Rows,
        size: int,
        candidates: Candidates | None,
    ) -> None:
        self.e, self.b, self.order, self.operands, self.rows = e, e.builder, order, operands, rows
        self.size, self.candidates = size, candidates
        self.length = rows.n if candidates is None else candidates.count
        self.per_row = -(-self.length // size)
        self.stretches = rows.count * self.per_row
        together = max(1, min(_ENOUGH // size, power_of_two(self.stretches)))
        self.total = together * size
        self.blocks = -(-self.stretches // together)
        self.together = together
        self.threads = max(1, min(_MOST_THREADS, self.total // 2))
        self.places = Places(self.b, self.total)
        b = self.b
        made = sum(buffer.role is BufferRole.SHARED for buffer in b.kernel.buffers)
        self.keys = [
            b.buffer(f"key{made + n}", order.types[i], self.total, BufferRole.SHARED)
            for n, i in enumerate(order.keys)
        ]
        self.numbers = b.buffer(f"number{made}", P.S32, self.total, BufferRole.SHARED)

    def emit(self, finish: Callable[[Sorted], None]) -> None:
        b = self.b
        with b.loop(self.blocks, LoopKind.GRID) as block:
            with b.loop(self.threads, LoopKind.THREAD) as thread:
                with dealt(b, self.total, self.threads, thread) as at:
                    self._fill(block, at)
                b.barrier()
                if self.size > 1:
                    self._network(thread)
                with dealt(b, self.total, self.threads, thread) as at:
                    self._hand_over(block, at, finish)

    def _where(self, block: Index, at: Index) -> tuple[Index, Index, Index, Value | None]:
        """The place in shared memory, the row and the place in it of what a thread moves; the guard
        says whether there is such an element. Where rows lie side by side, so do the threads."""
        if self.rows.inner > 1:
            stretch, within = at % self.together, at // self.together
        else:
            stretch, within = at // self.size, at % self.size
        shared = stretch * self.size + within
        stretch = block * self.together + stretch
        row = stretch // self.per_row
        k = stretch % self.per_row * self.size + within
        b = self.b
        guard = guard_of(b, b.in_range(stretch, 0, self.stretches), b.in_range(k, 0, self.length))
        return shared, row, k, guard

    def _fill(self, block: Index, at: Index) -> None:
        shared, row, k, guard = self._where(block, at)
        number, value = k, self.b.index_value(k, P.S32)
        if self.candidates is not None:
            value = self.b.load(self.candidates.numbers, row * self.length + k, guard)
            value.bounds = (0, self.rows.n - 1)
            number = Index.of(value)
            if guard is not None:
                behind = self.b.index_value(k + self.rows.n, P.S32)
                value = self.b.compute(Opcode.SELECT, P.S32, (guard, value, behind))
        elements = self.order.keys_at(self.operands, self.rows.place(row, number), guard)
        for buffer, element in zip(self.keys, elements):
            self.e.store(buffer, shared, element)
        self.b.store(self.numbers, shared, (value,))

    def _hand_over(self, block: Index, at: Index, finish: Callable[[Sorted], None]) -> None:
        shared, row, k, guard = self._where(block, at)
        number = self.b.load(self.numbers, shared, mutable=True)
        number.bounds = (0, self.rows.n - 1)
        finish(Sorted(row, k, self._keys(shared), Index.of(number), guard))

    def _keys(self, at: Index) -> list[Element]:
        return [
            self.e.load(buffer, at, self.order.types[i], mutable=True)
            for buffer, i in zip(self.keys, self.order.keys)
        ]

    def _network(self, thread: Index) -> None:
        b, places = self.b, self.places
        rounds = log2(self.size)
        pairs = self.total // 2
        stage, _ = b.open_loop(rounds)
        step, _ = b.open_loop(rounds, limits=() if rounds == 1 else (stage + 1,))
        shift = places.of(stage - step)
        distance = places.up(1, shift)
        mirror = places.subtract(places.up(distance, 1), 1)
        mask = places.select(self._is_first(step), mirror, distance)
        with dealt(b, pairs, self.threads, thread) as pair:
            number = places.of(pair)
            group = places.up(places.down(number, shift), shift)
            low = places.add(number, group)
            high = places.flipped(low, mask)
            bounds = (0, self.total - 1)
            self._exchange(places.index(low, bounds), places.index(high, bounds))
        b.barrier()
        b.close_loop()
        b.close_loop()

    def _is_first(self, step: Index) -> Value:
        first = self.b.in_range(step, 0, 1)
        return self.b.constant(P.PRED, first) if isinstance(first, bool) else first

    def _exchange(self, low: Index, high: Index) -> None:
        b = self.b
        x, y = self._keys(low), self._keys(high)
        i, j = (b.load(self.numbers, at, mutable=True) for at in (low, high))
        swap = self._follows(x, y, i, j)
        for buffer, first, second in zip(self.keys, x, y):
            self.e.store(buffer, low, second, swap)
            self.e.store(buffer, high, first, swap)
        b.store(self.numbers, low, (j,), swap)
        b.store(self.numbers, high, (i,), swap)

    def _follows(self, x: list[Element], y: list[Element], i: Value, j: Value) -> Value:
        """Whether element i comes after element j."""
        b, places = self.b, Places(self.b, self.rows.n)
        later = places.less(j, i)
        after, before = self.order.comes_first(y, x), self.order.comes_first(x, y)
        result = either(b, after, both(b, negated(b, before), later))
        if self.length % self.size == 0:
            return result
        present = both(b, places.less(i, self.rows.n), places.less(j, self.rows.n))
        return b.compute(Opcode.SELECT, P.PRED, (present, result, later))
