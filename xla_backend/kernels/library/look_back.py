"""Prefix reductions of few long rows, in one pass: the blocks of a grid take tiles of a row, and
tell each other what these come to.

After Merrill and Garland 2016, "Single-pass Parallel Prefix Scan with Decoupled Look-back": a block
tells what its tile comes to as soon as it knows, before it knows what is in front of it, and then
looks back for that. There, how far blocks look back, and so how a sum is grouped, depends on which
of them is faster. Here it does not:

  row      | tile 0  tile 1 ... tile w-1 | tile w ... | ...     a group is w tiles
  front of tile t = (front of the group of tile t-1) + (the tiles of that group before t)

Threads of a block wait for one tile each, so a group has as many as a block has threads, and
combine what these come to by shuffles; the block of the first tile of each group tells the others
what is in front of it. Sums have the same bits in every run.

Tiles are numbered as blocks come for them, and blocks wait for tiles of lower numbers alone: those
have been taken by blocks that run, or have run. The first one waits for nobody, so that some block
can always go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind, ShuffleMode, Value
from xla_backend.kernels.library.places import THREADS, for_each, guard_of
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.scan_parts import (
    ELEMENTS,
    WARP,
    Scanned,
    Strip,
    in_front,
    reader,
    scan_warp,
    where_all,
)

P = PrimitiveType
# Registers of 32 bits that the elements of a thread may take, and about so many tiles to keep a GPU
# busy.
_REGISTERS = 32
_TILES = 512


class Tiling(NamedTuple):
    """`threads` of a block, each with `strips` times some neighbours of a tile."""

    threads: int
    strips: int

    @property
    def elements(self) -> int:
        return self.threads * self.strips * ELEMENTS


def tiling_of(rows: Rows, types: Sequence[PrimitiveType]) -> Tiling:
    """As many elements of a thread as there are registers for, and tiles to keep a GPU busy."""
    words = sum(max(type.byte_size // 4, 1) for type in types)
    strips = 1
    while (
        2 * strips * ELEMENTS * words <= _REGISTERS
        and rows.elements >= 2 * strips * ELEMENTS * THREADS * _TILES
    ):
        strips *= 2
    return Tiling(THREADS, strips)


def scan_looking_back(
    b: LoopBuilder,
    rows: Rows,
    scanned: Scanned,
    *,
    reverse: bool = False,
    tiling: Tiling | None = None,
) -> None:
    """Two stages: one that forgets earlier signals, and the scan."""
    _LookBack(b, rows, scanned, tiling or tiling_of(rows, scanned.types), reverse).build()


class _LookBack:
    def __init__(
        self, b: LoopBuilder, rows: Rows, scanned: Scanned, tiling: Tiling, reverse: bool
    ) -> None:
        self.b = b
        self.rows = rows
        self.scanned = scanned
        self.tiling = tiling
        self.reverse = reverse
        self.warps = tiling.threads // WARP
        self.tiles = -(-rows.n // tiling.elements)  # of a row
        self.groups = -(-self.tiles // tiling.threads)
        self.count = rows.count * self.tiles
        made = len(b.kernel.buffers)
        # A signal for each tile, for the front of each group, and how many tiles have been taken.
        flags = self.count + rows.count * self.groups + 1
        self.flags = b.buffer(f"flag{made}", P.U32, flags, BufferRole.SCRATCH)
        self.totals = self._buffers("total", self.count, BufferRole.SCRATCH)
        self.fronts = self._buffers("front", rows.count * self.groups, BufferRole.SCRATCH)

    def _buffers(self, name: str, size: int, role: BufferRole) -> list[Buffer]:
        made = len(self.b.kernel.buffers)
        types = enumerate(self.scanned.types)
        return [self.b.buffer(f"{name}{made + i}", type, size, role, i) for i, type in types]

    def build(self) -> None:
        b, threads = self.b, self.tiling.threads
        with for_each(b, self.flags.size) as at:
            b.store(self.flags, at, (b.constant(P.U32, 0),))
        number = b.buffer(f"taken{len(b.kernel.buffers)}", P.U32, 1, BufferRole.SHARED)
        self.segments = self._buffers("segment", self.tiling.strips * self.warps, BufferRole.SHARED)
        self.before = self._buffers("before", self.warps, BufferRole.SHARED)
        self.base = self._buffers("base", 1, BufferRole.SHARED)
        with b.loop(self.count, LoopKind.GRID), b.loop(threads, LoopKind.THREAD) as thread:
            counter = self.flags, constant(self.flags.size - 1)
            first = b.in_range(thread, 0, 1)
            assert isinstance(first, Value)
            self._tile(thread, b.ticket(counter, number, first, self.count))

    def _tile(self, thread: Index, number: Index) -> None:
        b, strips = self.b, self.tiling.strips
        lane, warp = thread % WARP, thread // WARP
        row, tile = number // self.tiles, number % self.tiles
        part = reader(
            b, self.rows, self.scanned, row, tile * self.tiling.elements, True, self.reverse
        )
        held = [Strip(b, self.scanned, part) for _ in range(strips)]
        places = [(thread + n * self.tiling.threads) * ELEMENTS for n in range(strips)]
        for strip, place in zip(held, places):
            strip.read(place)
        withins = [scan_warp(b, self.scanned, lane, strip.scan()) for strip in held]
        last = guard_of(b, b.in_range(lane, WARP - 1, WARP))
        for n, within in enumerate(withins):
            self._put(self.segments, warp + n * self.warps, within, last)
        b.barrier()
        with b.where(thread, 0, WARP):
            self._tell_total(lane, number)
        self._look_back(thread, number, row, tile)
        b.barrier()
        front = self._front(thread, row, tile)
        for n, (strip, within) in enumerate(zip(held, withins)):
            segment = warp + n * self.warps
            some = b.in_range(segment, 1, strips * self.warps)
            earlier = self._get(self.segments, segment - 1, guard_of(b, some))
            here = where_all(b, some, self.scanned.combine(front, earlier), front)
            strip.keep(places[n], in_front(b, self.scanned, lane, here, within))

    def _put(
        self, buffers: Sequence[Buffer], at: Index, values: Sequence[Value], guard: Value | None
    ) -> None:
        for buffer, value in zip(buffers, values):
            self.b.store(buffer, at, (value,), guard)

    def _get(self, buffers: Sequence[Buffer], at: Index, guard: Value | None) -> list[Value]:
        return [self.b.load(buffer, at, guard, mutable=True) for buffer in buffers]

    def _tell_total(self, lane: Index, number: Index) -> None:
        """By one warp: what the segments of the tile (a warp's part of a strip) up to each one come
        to, and what all do."""
        b, count = self.b, self.tiling.strips * self.warps
        each = -(-count // WARP)
        mine: list[list[Value]] = []
        for n in range(each):
            at = lane * each + n
            values = self._get(self.segments, at, guard_of(b, b.in_range(at, 0, count)))
            mine.append(self.scanned.combine(mine[-1], values) if mine else values)
        within = scan_warp(b, self.scanned, lane, mine[-1])
        earlier = [b.shuffle(value, ShuffleMode.UP, 1) for value in within]
        behind = b.in_range(lane, 1, WARP)
        for n, values in enumerate(mine):
            upto = where_all(b, behind, self.scanned.combine(earlier, values), values)
            at = lane * each + n
            self._put(self.segments, at, upto, guard_of(b, b.in_range(at, 0, count)))
            last = guard_of(b, b.in_range(at, count - 1, count))
            if n == (count - 1) % each:
                self._put(self.totals, number, upto, last)
                b.signal(self.flags, number, last)

    def _look_back(self, thread: Index, number: Index, row: Index, tile: Index) -> None:
        """Each thread waits for one tile, the last thread for the one right before; each warp puts
        what they come to together. One waits for the front of their group."""
        b, threads = self.b, self.tiling.threads
        other = thread - threads  # relative to the own tile
        guard = self._looks_at(tile, other)
        b.await_signal(self.flags, number + other, guard)
        values = self._get(self.totals, number + other, guard)
        lane = thread % WARP
        step = 1
        while step < WARP:
            before = [b.shuffle(value, ShuffleMode.UP, step) for value in values]
            there = guard_of(b, b.in_range(lane, step, WARP), self._looks_at(tile, other - step))
            values = where_all(b, there, self.scanned.combine(before, values), values)
            step *= 2
        last = guard_of(b, b.in_range(lane, WARP - 1, WARP))
        self._put(self.before, thread // WARP, values, last)
        if self.groups > 1:
            one = guard_of(b, b.in_range(thread, 0, 1), self._has_group_before(tile))
            at = row * self.groups + self._group_after(tile) - 1
            b.await_signal(self.flags, at + self.count, one)
            self._put(self.base, constant(0), self._get(self.fronts, at, one), one)

    def _group_after(self, tile: Index) -> Index:
        """The number of the group behind that of the tile before, which a tile looks at."""
        threads = self.tiling.threads
        return (tile + (threads - 1)) // threads

    def _has_group_before(self, tile: Index) -> Value | bool:
        return self.b.in_range(self._group_after(tile), 2, self.groups + 1)

    def _looks_at(self, tile: Index, other: Index) -> Value | None:
        """Whether the tile that stands so far behind (a negative number) is of the group that is
        looked at, and of the row."""
        b, threads = self.b, self.tiling.threads
        there = tile + other
        place = there - self._group_after(tile) * threads + threads
        return guard_of(b, b.in_range(there, 0, self.tiles), b.in_range(place, 0, threads))

    def _front(self, thread: Index, row: Index, tile: Index) -> list[Value]:
        """What is in front of the tile; that of a group is told to others."""
        b, threads = self.b, self.tiling.threads
        front = self.scanned.start()
        if self.groups > 1:
            inner = self._has_group_before(tile)
            front = where_all(
                b, inner, self._get(self.base, constant(0), guard_of(b, inner)), front
            )
        for warp in range(self.warps):
            some = self._looks_at(tile, constant((warp + 1) * WARP - 1 - threads))
            values = self._get(self.before, constant(warp), some)
            front = where_all(b, some, self.scanned.combine(front, values), front)
        if self.groups > 1:
            at = row * self.groups + tile // threads
            first = guard_of(
                b,
                b.in_range(thread, 0, 1),
                b.in_range(tile % threads, 0, 1),
                b.in_range(tile, 1, self.tiles),
            )
            self._put(self.fronts, at, front, first)
            b.signal(self.flags, at + self.count, first)
        return front
