"""Prefix reductions along one axis, by any associative combination.

Short rows, and rows that lie side by side, are walked by one thread each. Others are walked by the
threads of a warp or of a block together: each takes some neighbouring elements, and what they come
to is passed on by shuffles within a warp and through shared memory between warps. Few long rows are
cut into spans: a stage for what each span comes to, one for the prefixes of these, and one that
scans each span from there on. How elements are grouped is a matter of shapes alone, so the bits of
a sum are always the same. No neutral element is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import ZERO, Index, constant
from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind, ShuffleMode, Value
from xla_backend.kernels.library.places import THREADS, for_each, guard_of
from xla_backend.kernels.library.rows import Rows

P = PrimitiveType
WARP = 32
_WARPS = THREADS // WARP
# Neighbouring elements of one thread.
_ELEMENTS = 4
_TILE = THREADS * _ELEMENTS
# Rows of fewer elements are walked by a thread each, or by a warp.
_SHORT, _SHORT_FOR_A_WARP = 16, 256
# So many rows keep a GPU busy with a thread, a warp, a block for each.
_MANY, _MANY_WARPS, _MANY_BLOCKS = 2048, 512, 256
# About so many spans are enough for a GPU.
_SPANS = 4096


@dataclass(frozen=True)
class Scanned:
    """What is scanned, in terms of lists of values that belong together.

    Fields:
      types: of the values.
      combine: (what comes before, what comes after) -> both together.
      start: what is before the first element.
      element: the element at a place of the array, to be read where a guard holds.
      keep: (place, values, guard): puts a result where it belongs.
    """

    types: Sequence[PrimitiveType]
    combine: Callable[[Sequence[Value], Sequence[Value]], list[Value]]
    start: Callable[[], list[Value]]
    element: Callable[[Index, Value | None], list[Value]]
    keep: Callable[[Index, Sequence[Value], Value | None], None]


@dataclass(frozen=True)
class Part:
    """The elements of a part of a row, by their number in it; where there is none, nothing is read
    and nothing kept.

    Fields:
      element: (number) -> values; keep: (number, values). Where there are vectors, a lane of the
        one that begins at the number comes last.
      vectors: `_ELEMENTS` neighbours are neighbours in memory, all there or none.
      backwards: the last lane comes first.
    """

    element: Callable[..., list[Value]]
    keep: Callable[..., None]
    vectors: bool = False
    backwards: bool = False


def scan(b: LoopBuilder, rows: Rows, scanned: Scanned, *, reverse: bool = False) -> None:
    """Stages that keep, for each element of a row, what it and all before it (with `reverse`,
    behind it) come to."""
    many = rows.count >= _MANY
    if rows.n <= _SHORT or (rows.inner > 1 and (many or rows.n <= _SHORT_FOR_A_WARP)):
        _by_threads(b, rows, scanned, reverse)
    elif rows.n <= _SHORT_FOR_A_WARP or (rows.n <= _TILE and rows.count >= _MANY_WARPS):
        _by_groups(b, rows, scanned, reverse, warps=1)
    elif rows.n <= 4 * _TILE or rows.count >= _MANY_BLOCKS:
        _by_groups(b, rows, scanned, reverse, warps=_WARPS)
    else:
        tiles = max(1, rows.elements // (_TILE * _SPANS))
        scan_spans(b, rows, scanned, tiles, reverse=reverse)


def _place(rows: Rows, row: Index, k: Index, reverse: bool) -> Index:
    return rows.place(row, constant(rows.n - 1) - k if reverse else k)


def _by_threads(b: LoopBuilder, rows: Rows, scanned: Scanned, reverse: bool) -> None:
    with for_each(b, rows.count) as row:
        k, before = b.open_loop(rows.n, inits=scanned.start())
        at = _place(rows, row, k, reverse)
        here = scanned.combine(before, scanned.element(at, None))
        scanned.keep(at, here, None)
        b.close_loop(here)


def _by_groups(b: LoopBuilder, rows: Rows, scanned: Scanned, reverse: bool, *, warps: int) -> None:
    """A stage of one warp, or one block, for each row."""
    together = _WARPS // warps
    group = Group(b, scanned, warps)
    tiles = -(-rows.n // group.tile)
    with b.loop(-(-rows.count // together), LoopKind.GRID) as block:
        with b.loop(THREADS, LoopKind.THREAD) as thread:
            row = block * together + thread // (THREADS // together)
            real = b.in_range(row, 0, rows.count)
            group.walk(
                thread, tiles, _reader(b, rows, scanned, row, ZERO, real, reverse), scanned.start()
            )


def scan_spans(
    b: LoopBuilder, rows: Rows, scanned: Scanned, tiles: int, *, reverse: bool = False
) -> None:
    """Three stages, for rows that are cut into spans of `tiles` tiles."""
    group = Group(b, scanned, _WARPS)
    span = tiles * group.tile
    spans = -(-rows.n // span)
    made = sum(buffer.role is BufferRole.SCRATCH for buffer in b.kernel.buffers)
    totals, prefixes = (
        [
            b.buffer(f"{name}{made + i}", type, rows.count * spans, BufferRole.SCRATCH, i)
            for i, type in enumerate(scanned.types)
        ]
        for name in ("total", "prefix")
    )
    with b.loop(rows.count * spans, LoopKind.GRID) as block:
        with b.loop(THREADS, LoopKind.THREAD) as thread:
            first = block % spans * span
            read = _reader(b, rows, scanned, block // spans, first, True, reverse)
            values = group.walk(thread, tiles, _only_read(read), None)
            last = b.in_range(thread, 0, 1)
            for buffer, value in zip(totals, values):
                b.store(buffer, block, (value,), guard_of(b, last))
    _by_groups(
        b, _row_major(rows.count, spans), _of_buffers(b, scanned, totals, prefixes), False,
        warps=_WARPS,
    )  # fmt: skip
    with b.loop(rows.count * spans, LoopKind.GRID) as block:
        with b.loop(THREADS, LoopKind.THREAD) as thread:
            number = block % spans
            later = b.in_range(number, 1, spans)
            guard = guard_of(b, later)
            known = [b.load(buffer, block - 1, guard, mutable=True) for buffer in prefixes]
            start = scanned.start()
            if guard is not None:
                known = [_select(b, guard, x, y) for x, y in zip(known, start)]
            read = _reader(b, rows, scanned, block // spans, number * span, True, reverse)
            group.walk(thread, tiles, read, known)


def _row_major(count: int, n: int) -> Rows:
    return Rows((count, n), 1)


def _of_buffers(
    b: LoopBuilder, scanned: Scanned, sources: Sequence[Buffer], targets: Sequence[Buffer]
) -> Scanned:
    def element(at: Index, guard: Value | None) -> list[Value]:
        return [b.load(buffer, at, guard, mutable=True) for buffer in sources]

    def keep(at: Index, values: Sequence[Value], guard: Value | None) -> None:
        for buffer, value in zip(targets, values):
            b.store(buffer, at, (value,), guard)

    return Scanned(scanned.types, scanned.combine, scanned.start, element, keep)


def _reader(
    b: LoopBuilder,
    rows: Rows,
    scanned: Scanned,
    row: Index,
    first: Index,
    real: Value | bool,
    reverse: bool,
) -> Part:
    def where(number: Index, lane: Index | None) -> tuple[Index, Value | None]:
        k = first + number
        guard = guard_of(b, real, b.in_range(k, 0, rows.n))
        if lane is not None:
            k = k + (constant(_ELEMENTS - 1) - lane if reverse else lane)
        return _place(rows, row, k, reverse), guard

    def element(number: Index, lane: Index | None = None) -> list[Value]:
        return scanned.element(*where(number, lane))

    def keep(number: Index, values: Sequence[Value], lane: Index | None = None) -> None:
        at, guard = where(number, lane)
        scanned.keep(at, values, guard)

    return Part(element, keep, rows.inner == 1 and rows.n % _ELEMENTS == 0, reverse)


def _only_read(reader: Part) -> Part:
    return replace(reader, keep=lambda number, values, lane=None: None)


class Group:
    """Threads that walk along a row together: those of one warp, or of all warps of a block."""

    def __init__(self, b: LoopBuilder, scanned: Scanned, warps: int) -> None:
        self.b = b
        self.combine = scanned.combine
        self.types = scanned.types
        self.warps = warps
        self.tile = warps * WARP * _ELEMENTS
        made = sum(buffer.role is BufferRole.SHARED for buffer in b.kernel.buffers)
        self.shared = [
            b.buffer(f"warp{made + i}", type, warps, BufferRole.SHARED)
            for i, type in enumerate(self.types)
            if warps > 1
        ]
        made = sum(buffer.role is BufferRole.REGISTERS for buffer in b.kernel.buffers)
        self.kept = [
            b.buffer(f"upto{made + i}", type, _ELEMENTS, BufferRole.REGISTERS)
            for i, type in enumerate(self.types)
        ]

    def walk(
        self, thread: Index, tiles: int, part: Part, before: Sequence[Value] | None
    ) -> list[Value]:
        """Scan `tiles` tiles with `before` in front of them; returns what all come to, for every
        thread. Without `before`, what is kept along the way has no meaning. Each tile but a
        single one ends with a barrier; such a one needs a barrier behind it before the next."""
        b = self.b
        lane, warp = thread % WARP, thread // WARP % self.warps
        inits = [b.constant(t, 0) for t in self.types] if before is None else before
        turn, carried = b.open_loop(tiles, inits=inits)
        mine = turn * self.tile + thread % (self.warps * WARP) * _ELEMENTS
        prefixes, own = self._own(part, mine)
        within = self._within_warp(lane, own)
        first = None if before is not None else self._is_first(turn)
        if self.warps == 1:
            total = [b.shuffle(value, ShuffleMode.FROM, WARP - 1) for value in within]
            front, after = carried, self._after(carried, total, first)
        else:
            front, after = self._between_warps(lane, warp, within, carried, first)
        earlier = [b.shuffle(value, ShuffleMode.UP, 1) for value in within]
        behind_first = b.in_range(lane, 1, WARP)
        front = self._where(behind_first, self.combine(front, earlier), front)
        self._keep(part, mine, front, prefixes)
        if self.warps > 1 and tiles > 1:
            b.barrier()  # the next tile overwrites what the warps came to
        return b.close_loop(after)

    def _own(self, part: Part, mine: Index) -> tuple[list[list[Value]], list[Value]]:
        """What the elements of this thread come to, up to each (those of vectors are in registers),
        and all together."""
        if part.vectors:
            return [], self._own_vector(part, mine)
        prefixes: list[list[Value]] = []
        for i in range(_ELEMENTS):
            values = part.element(mine + i)
            prefixes.append(self.combine(prefixes[-1], values) if prefixes else values)
        return prefixes, prefixes[-1]

    def _own_vector(self, part: Part, mine: Index) -> list[Value]:
        b = self.b
        mode = ShuffleMode.DOWN if part.backwards else ShuffleMode.UP
        lane, _ = b.open_loop(_ELEMENTS, kind=LoopKind.LANES, independent=True, name="lane")
        values = part.element(mine, lane)
        upto = values
        step = 1
        while step < _ELEMENTS:
            before = [b.shuffle(value, mode, step, _ELEMENTS) for value in upto]
            low, high = (0, _ELEMENTS - step) if part.backwards else (step, _ELEMENTS)
            upto = self._where(b.in_range(lane, low, high), self.combine(before, upto), upto)
            step *= 2
        for buffer, value in zip(self.kept, upto):
            b.store(buffer, lane, (value,))

        def together(lhs: list[Value], rhs: list[Value]) -> list[Value]:
            return self.combine(rhs, lhs) if part.backwards else self.combine(lhs, rhs)

        return b.close_lanes(values, b.combiner(self.types, together, commutes=False))

    def _keep(
        self, part: Part, mine: Index, front: Sequence[Value], prefixes: Sequence[list[Value]]
    ) -> None:
        """Keep what the elements of this thread come to with all that is in front of them."""
        b = self.b
        if part.vectors:
            with b.loop(_ELEMENTS, LoopKind.LANES) as lane:
                upto = [b.load(buffer, lane, mutable=True) for buffer in self.kept]
                part.keep(mine, self.combine(front, upto), lane)
            return
        for i, prefix in enumerate(prefixes):
            part.keep(mine + i, self.combine(front, prefix))

    def _within_warp(self, lane: Index, values: list[Value]) -> list[Value]:
        """What the threads of a warp up to each one come to."""
        step = 1
        while step < WARP:
            before = [self.b.shuffle(value, ShuffleMode.UP, step) for value in values]
            there = self.b.in_range(lane, step, WARP)
            values = self._where(there, self.combine(before, values), values)
            step *= 2
        return values

    def _between_warps(
        self,
        lane: Index,
        warp: Index,
        within: Sequence[Value],
        carried: Sequence[Value],
        first: Value | bool | None,
    ) -> tuple[list[Value], list[Value]]:
        """What comes before each warp, and after all of them."""
        b = self.b
        last = guard_of(b, b.in_range(lane, WARP - 1, WARP))
        for buffer, value in zip(self.shared, within):
            b.store(buffer, warp, (value,), last)
        b.barrier()
        count = len(self.types)
        other, state = b.open_loop(self.warps, inits=[*carried, *carried])
        here, front = state[:count], state[count:]
        front = self._where(b.in_range(warp - other, 0, 1), here, front)
        values = [b.load(buffer, other, mutable=True) for buffer in self.shared]
        after = self.combine(here, values)
        if first is not None:  # nothing is before the first warp of the first tile
            nothing = guard_of(b, first, b.in_range(other, 0, 1))
            after = self._where(True if nothing is None else nothing, values, after)
        state = b.close_loop([*after, *front])
        return state[count:], state[:count]

    def _is_first(self, turn: Index) -> Value | bool:
        return self.b.in_range(turn, 0, 1)

    def _after(
        self, carried: Sequence[Value], total: Sequence[Value], first: Value | bool | None
    ) -> list[Value]:
        after = self.combine(carried, total)
        return after if first is None else self._where(first, total, after)

    def _where(
        self, condition: Value | bool, x: Sequence[Value], y: Sequence[Value]
    ) -> list[Value]:
        if isinstance(condition, bool):
            return list(x if condition else y)
        return [_select(self.b, condition, p, q) for p, q in zip(x, y)]


def _select(b: LoopBuilder, condition: Value, x: Value, y: Value) -> Value:
    return b.compute(Opcode.SELECT, x.type, (condition, x, y))
