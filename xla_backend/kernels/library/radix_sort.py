"""Sorts of long rows by numbers that stand for their elements: digit by digit, the last one first.

What an element is sorted by is a column of unsigned integers, in the order of the elements. A pass
takes one digit of eight bits: a stage counts how often each digit occurs in each tile of a row, a
scan of these counts says where in the row the elements of a tile with that digit begin, and a stage
takes them there. In that one a block sorts its tile in its own memory first, by four bits and then
by four more, so that neighbours are written to neighbouring places. All steps are stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import BY_NAME, PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind, Value
from xla_backend.kernels.library.places import THREADS, guard_of
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.scan_parts import WARP, Part, Scanned
from xla_backend.kernels.library.scans import Group, scan
from xla_backend.process.light_dataclasses import dataclass

P = PrimitiveType
RADIX_TYPES = frozenset(
    {P.PRED, P.S8, P.U8, P.S16, P.U16, P.S32, P.U32, P.S64, P.U64, P.BF16, P.F16, P.F32, P.F64}
)
_DIGIT, _SMALL_DIGIT = 8, 4
_DIGITS, _SMALL_DIGITS = 1 << _DIGIT, 1 << _SMALL_DIGIT
# Neighbouring elements of one thread.
_ELEMENTS = 8
_TILE = THREADS * _ELEMENTS
_PADDED_TILE = _TILE + THREADS
# Of small digits, for each thread.
_COUNTS = _SMALL_DIGITS * THREADS


@dataclass(frozen=True)
class Column:
    """What rows are sorted by: `bits(place, guard)` is that of the element at a place of the array,
    an unsigned integer of 32 or 64 bits of which the lowest `width` say something."""

    bits: Callable[[Index, Value | None], Value]
    width: int

    @property
    def type(self) -> PrimitiveType:
        return P.U32 if self.width <= 32 else P.U64


def ordered_bits(b: LoopBuilder, value: Value, *, descending: bool) -> Value:
    """An unsigned integer in the place of a number, in the same order or (`descending`) in the
    opposite one. Zeros are equal, and so are all NaN, which come last of all numbers."""
    type = value.type
    wide = P.U64 if type.bits > 32 else P.U32
    if type is P.PRED:
        bits = b.compute(Opcode.CONVERT, wide, (value,))
        return _mirrored(b, bits, 1) if descending else bits
    unsigned = BY_NAME[f"u{type.bits}"]
    if type.is_floating:
        value = _canonical(b, value)
    if type is not unsigned:
        value = b.compute(Opcode.BITCAST_CONVERT, unsigned, (value,))
    bits = value
    top = b.constant(unsigned, 1 << (type.bits - 1))
    if type.is_floating:
        negative = _compare(b, bits, top, ComparisonDirection.GE)
        flipped = b.compute(Opcode.NOT, unsigned, (bits,))
        raised = b.compute(Opcode.OR, unsigned, (bits, top))
        bits = b.compute(Opcode.SELECT, unsigned, (negative, flipped, raised))
    elif type.is_signed_integral:
        bits = b.compute(Opcode.XOR, unsigned, (bits, top))
    if unsigned is not wide:
        bits = b.compute(Opcode.CONVERT, wide, (bits,))
    return _mirrored(b, bits, type.bits) if descending else bits


def _mirrored(b: LoopBuilder, bits: Value, width: int) -> Value:
    return b.compute(Opcode.XOR, bits.type, (bits, b.constant(bits.type, (1 << width) - 1)))


def _canonical(b: LoopBuilder, value: Value) -> Value:
    zero, nan = b.constant(value.type, 0), b.constant(value.type, np.nan)
    is_zero = _compare(b, value, zero, ComparisonDirection.EQ)
    value = b.compute(Opcode.SELECT, value.type, (is_zero, zero, value))
    is_nan = _compare(b, value, value, ComparisonDirection.NE)
    return b.compute(Opcode.SELECT, value.type, (is_nan, nan, value))


def _compare(b: LoopBuilder, x: Value, y: Value, direction: ComparisonDirection) -> Value:
    return b.compute(Opcode.COMPARE, P.PRED, (x, y), CompareAttributes(direction))


def _padded(place: Index) -> Index:
    """Where an element of a tile lies in shared memory: those of one thread, and those beside each
    other, are in different banks."""
    return place + place // _ELEMENTS


def _spread(number: Index) -> Index:
    """Where a count of small digits lies: those that threads of a warp walk along are in different
    banks."""
    return number + number // WARP


def width_of(type: PrimitiveType) -> int:
    """Bits that `ordered_bits` gives a type."""
    return 1 if type is P.PRED else type.bits


def radix_sort(b: LoopBuilder, rows: Rows, columns: Sequence[Column]) -> Buffer:
    """Stages that sort rows by columns, the most significant one first; returns a buffer of the
    numbers of their elements in order, row by row."""
    rows.check_numbered()
    passes = [
        (column, shift) for column in reversed(columns) for shift in range(0, column.width, _DIGIT)
    ]
    sort = _Sort(b, rows, max((c.type for c in columns), key=lambda t: t.bits))
    source = None
    for number, (column, shift) in enumerate(passes):
        last = number + 1 == len(passes) or passes[number + 1][0] is not column
        source = sort.run(column, shift, source, is_last=last)
    assert source is not None
    return source


class _Sort:
    """Passes over rows; elements are moved as their numbers, and their bits in a column while that
    is sorted by."""

    def __init__(self, b: LoopBuilder, rows: Rows, widest: PrimitiveType) -> None:
        self.b, self.rows = b, rows
        self.tiles = -(-rows.n // _TILE)
        scratch, shared = BufferRole.SCRATCH, BufferRole.SHARED
        self.numbers = [b.buffer(f"numbers{i}", P.S32, rows.elements, scratch, i) for i in range(2)]
        self.bits = {
            type: [b.buffer(f"{type}_bits{i}", type, rows.elements, scratch, i) for i in range(2)]
            for type in (P.U32, P.U64)
            if type.bits <= widest.bits
        }
        self.counts, self.begins = (
            b.buffer(name, P.S32, rows.count * _DIGITS * self.tiles, scratch)
            for name in ("counts", "begins")
        )
        self.histogram = b.buffer("histogram", P.S32, _DIGITS, shared)
        self.first = b.buffer("first", P.S32, _DIGITS, shared)
        self.small_counts = b.buffer("small_counts", P.S32, _COUNTS + _COUNTS // WARP, shared)
        self.tile_numbers = b.buffer("tile_numbers", P.S32, _PADDED_TILE, shared)
        self.tile_bits = {
            type: b.buffer(f"tile_{type}", type, _PADDED_TILE, shared) for type in self.bits
        }
        self.group = Group(b, self._sums(), THREADS // WARP)

    def _sums(self) -> Scanned:
        """Counts in global memory, and where what is counted begins."""
        b = self.b

        def element(at: Index, guard: Value | None) -> list[Value]:
            return [b.load(self.counts, at, guard)]

        def keep(at: Index, values: Sequence[Value], guard: Value | None) -> None:
            before = self._minus(values[0], b.load(self.counts, at, guard))
            b.store(self.begins, at, (before,), guard)

        return Scanned([P.S32], self._plus, lambda: [b.constant(P.S32, 0)], element, keep)

    def _plus(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return [self.b.compute(Opcode.ADD, P.S32, (x[0], y[0]))]

    def _minus(self, x: Value, y: Value) -> Value:
        return self.b.compute(Opcode.SUBTRACT, P.S32, (x, y))

    def run(self, column: Column, shift: int, source: Buffer | None, *, is_last: bool) -> Buffer:
        """One pass. `source`: the numbers of elements in order so far. In the first pass by a
        column their bits are fetched."""
        b = self.b
        target = self.numbers[1 if source is self.numbers[0] else 0]
        with b.loop(self.rows.count * self.tiles, LoopKind.GRID) as block:
            with b.loop(THREADS, LoopKind.THREAD) as thread:
                self._count(block, thread, column, shift, source)
        counted = Rows((self.rows.count, _DIGITS * self.tiles), 1)
        scan(b, counted, self._sums())
        with b.loop(self.rows.count * self.tiles, LoopKind.GRID) as block:
            with b.loop(THREADS, LoopKind.THREAD) as thread:
                self._sort_tile(block, thread, column, shift, source)
                self._write(block, thread, column, shift, target, is_last=is_last)
        return target

    def _where(self, block: Index, place: Index) -> tuple[Index, Index, Value | None]:
        """The row of a tile, the place in the row of an element of it, and where there is one."""
        k = block % self.tiles * _TILE + place
        return block // self.tiles, k, guard_of(self.b, self.b.in_range(k, 0, self.rows.n))

    def _number(self, block: Index, place: Index, source: Buffer | None) -> Index:
        """The number of the element at a place of a tile."""
        row, k, guard = self._where(block, place)
        if source is None:
            return k
        number = self.b.load(source, row * self.rows.n + k, guard)
        number.bounds = (0, self.rows.n - 1)
        return Index.of(number)

    def _bits(
        self, block: Index, place: Index, column: Column, shift: int, source: Buffer | None
    ) -> Value:
        """Those of the element at a place of a tile; beyond the end of the row such as come
        last."""
        b = self.b
        row, k, guard = self._where(block, place)
        if shift:
            which = 0 if source is self.numbers[0] else 1
            bits = b.load(self.bits[column.type][which], row * self.rows.n + k, guard)
        else:
            number = self._number(block, place, source)
            bits = column.bits(self.rows.place(row, number), guard)
        if guard is not None:
            ones = b.constant(column.type, (1 << column.type.bits) - 1)
            bits = b.compute(Opcode.SELECT, column.type, (guard, bits, ones))
        return bits

    def _digit(self, bits: Value, shift: int, digits: int) -> Value:
        b = self.b
        if shift:
            bits = b.compute(
                Opcode.SHIFT_RIGHT_LOGICAL, bits.type, (bits, b.constant(bits.type, shift))
            )
        digit = b.compute(Opcode.AND, bits.type, (bits, b.constant(bits.type, digits - 1)))
        return b.compute(Opcode.CONVERT, P.S32, (digit,), bounds=(0, digits - 1))

    # -- counting ----------------------------------------------------------------------------------

    def _count(
        self, block: Index, thread: Index, column: Column, shift: int, source: Buffer | None
    ) -> None:
        """How often each digit occurs in a tile."""
        b = self.b
        one = b.constant(P.S32, 1)
        b.store(self.histogram, thread, (b.constant(P.S32, 0),))
        b.barrier()
        with b.loop(_ELEMENTS) as turn:
            place = turn * THREADS + thread
            bits = self._bits(block, place, column, shift, source)
            digit = self._digit(bits, shift, _DIGITS)
            _, _, guard = self._where(block, place)
            b.atomic(self.histogram, Index.of(digit), Opcode.ADD, one, guard)
        b.barrier()
        count = b.load(self.histogram, thread, mutable=True)
        b.store(self.counts, self._counted(block, thread), (count,))

    def _counted(self, block: Index, digit: Index) -> Index:
        """Where the count of a digit in a tile lies: those of one digit lie side by side."""
        row, tile = block // self.tiles, block % self.tiles
        return (row * _DIGITS + digit) * self.tiles + tile

    # -- moving ------------------------------------------------------------------------------------

    def _sort_tile(
        self, block: Index, thread: Index, column: Column, shift: int, source: Buffer | None
    ) -> None:
        """Sort a tile by its digits, in shared memory."""
        b = self.b
        bits = self.tile_bits[column.type]
        with b.loop(_ELEMENTS) as turn:
            place = turn * THREADS + thread
            value = self._bits(block, place, column, shift, source)
            number = b.index_value(self._number(block, place, source), P.S32)
            b.store(bits, _padded(place), (value,))
            b.store(self.tile_numbers, _padded(place), (number,))
        b.barrier()
        for small_shift in (shift, shift + _SMALL_DIGIT):
            self._by_small_digit(thread, bits, small_shift)

    def _by_small_digit(self, thread: Index, bits: Buffer, shift: int) -> None:
        """Each thread counts its digits; a scan says where the elements of each thread with that
        digit begin."""
        b = self.b
        places = [_padded(thread * _ELEMENTS + i) for i in range(_ELEMENTS)]
        elements = [
            [b.load(buffer, place, mutable=True) for buffer in (bits, self.tile_numbers)]
            for place in places
        ]
        counts, one = self.small_counts, b.constant(P.S32, 1)
        with b.loop(_SMALL_DIGITS) as digit:
            b.store(counts, _spread(digit * THREADS + thread), (b.constant(P.S32, 0),))
        own = [
            _spread(Index.of(self._digit(value, shift, _SMALL_DIGITS)) * THREADS + thread)
            for value, _ in elements
        ]
        for at in own:
            (more,) = self._plus([b.load(counts, at, mutable=True)], [one])
            b.store(counts, at, (more,))
        b.barrier()

        def keep(number: Index, values: Sequence[Value]) -> None:
            before = self._minus(values[0], count(number))
            b.store(counts, _spread(number), (before,))

        def count(number: Index) -> Value:
            return b.load(counts, _spread(number), mutable=True)

        part = Part(lambda number: [count(number)], keep)
        tiles = _COUNTS // self.group.tile
        assert tiles > 1  # so that a barrier comes last
        self.group.walk(thread, tiles, part, [b.constant(P.S32, 0)])
        for at, (value, number) in zip(own, elements):
            place = b.load(counts, at, mutable=True)
            place.bounds = (0, _TILE - 1)
            (more,) = self._plus([place], [one])
            b.store(counts, at, (more,))
            b.store(bits, _padded(Index.of(place)), (value,))
            b.store(self.tile_numbers, _padded(Index.of(place)), (number,))
        b.barrier()

    def _write(
        self,
        block: Index,
        thread: Index,
        column: Column,
        shift: int,
        target: Buffer,
        *,
        is_last: bool,
    ) -> None:
        """Take the elements of a sorted tile where they belong."""
        b, rows = self.b, self.rows
        bits = self.tile_bits[column.type]
        with b.loop(_ELEMENTS) as turn:
            place = turn * THREADS + thread
            digit = self._digit(b.load(bits, _padded(place), mutable=True), shift, _DIGITS)
            later = guard_of(b, b.in_range(place, 1, _TILE))
            before = self._digit(
                b.load(bits, _padded(place - 1), later, mutable=True), shift, _DIGITS
            )
            differs = _compare(b, digit, before, ComparisonDirection.NE)
            is_first = b.in_range(place, 0, 1)
            if isinstance(is_first, Value):
                differs = b.compute(Opcode.OR, P.PRED, (differs, is_first))
            b.store(self.first, Index.of(digit), (b.index_value(place, P.S32),), differs)
        b.barrier()
        with b.loop(_ELEMENTS) as turn:
            place = turn * THREADS + thread
            value = b.load(bits, _padded(place), mutable=True)
            own = Index.of(self._digit(value, shift, _DIGITS))
            row, _, guard = self._where(block, place)
            begin = b.load(self.begins, self._counted(block, own), guard)
            behind = self._minus(b.index_value(place, P.S32), b.load(self.first, own, mutable=True))
            (to,) = self._plus([begin], [behind])
            to.bounds = (0, rows.n - 1)
            at = row * rows.n + Index.of(to)
            number = b.load(self.tile_numbers, _padded(place), mutable=True)
            b.store(target, at, (number,), guard)
            if not is_last:
                which = 0 if target is self.numbers[0] else 1
                b.store(self.bits[column.type][which], at, (value,), guard)
