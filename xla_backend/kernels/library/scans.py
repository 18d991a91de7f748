"""Prefix reductions along one axis, by any associative combination.

Short rows, and rows that lie side by side, are walked by one thread each. Others are walked by the
threads of a warp or of a block together: each takes some neighbouring elements, and what they come
to is passed on by shuffles within a warp and through shared memory between warps. Few long rows are
cut into tiles, whose blocks tell each other (`look_back`). How elements are grouped is a matter of
shapes alone, so the bits of a sum are always the same. No neutral element is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import ZERO, Index
from xla_backend.kernels.ir import BufferRole, LoopKind, ShuffleMode, Value
from xla_backend.kernels.library.look_back import scan_looking_back
from xla_backend.kernels.library.places import THREADS, for_each, guard_of
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.scan_parts import (
    ELEMENTS,
    WARP,
    Part,
    Scanned,
    Strip,
    in_front,
    place_of,
    reader,
    scan_warp,
    where_all,
)

_WARPS = THREADS // WARP
_TILE = THREADS * ELEMENTS
# Rows of fewer elements are walked by a thread each, or by a warp.
_SHORT, _SHORT_FOR_A_WARP = 16, 256
# So many rows keep a GPU busy with a thread, a warp, a block for each.
_MANY, _MANY_WARPS, _MANY_BLOCKS = 2048, 512, 256


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
        scan_looking_back(b, rows, scanned, reverse=reverse)


def _by_threads(b: LoopBuilder, rows: Rows, scanned: Scanned, reverse: bool) -> None:
    with for_each(b, rows.count) as row:
        k, before = b.open_loop(rows.n, inits=scanned.start())
        at = place_of(rows, row, k, reverse)
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
                thread, tiles, reader(b, rows, scanned, row, ZERO, real, reverse), scanned.start()
            )


class Group:
    """Threads that walk along a row together: those of one warp, or of all warps of a block."""

    def __init__(self, b: LoopBuilder, scanned: Scanned, warps: int) -> None:
        self.b = b
        self.scanned = scanned
        self.warps = warps
        self.tile = warps * WARP * ELEMENTS
        made = sum(buffer.role is BufferRole.SHARED for buffer in b.kernel.buffers)
        self.shared = [
            b.buffer(f"warp{made + i}", type, warps, BufferRole.SHARED)
            for i, type in enumerate(scanned.types)
            if warps > 1
        ]

    def walk(self, thread: Index, tiles: int, part: Part, before: Sequence[Value]) -> list[Value]:
        """Scan `tiles` tiles with `before` in front of them; returns what all come to, for every
        thread. Each tile but a single one ends with a barrier; such a one needs a barrier behind it
        before the next."""
        b, scanned = self.b, self.scanned
        lane, warp = thread % WARP, thread // WARP % self.warps
        strip = Strip(b, scanned, part)
        turn, carried = b.open_loop(tiles, inits=before)
        mine = turn * self.tile + thread % (self.warps * WARP) * ELEMENTS
        strip.read(mine)
        within = scan_warp(b, scanned, lane, strip.scan())
        if self.warps == 1:
            total = [b.shuffle(value, ShuffleMode.FROM, WARP - 1) for value in within]
            front, after = carried, scanned.combine(carried, total)
        else:
            front, after = self._between_warps(lane, warp, within, carried)
        strip.keep(mine, in_front(b, scanned, lane, front, within))
        if self.warps > 1 and tiles > 1:
            b.barrier()  # the next tile overwrites what the warps came to
        return b.close_loop(after)

    def _between_warps(
        self, lane: Index, warp: Index, within: Sequence[Value], carried: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """What comes before each warp, and after all of them."""
        b = self.b
        last = guard_of(b, b.in_range(lane, WARP - 1, WARP))
        for buffer, value in zip(self.shared, within):
            b.store(buffer, warp, (value,), last)
        b.barrier()
        count = len(carried)
        other, state = b.open_loop(self.warps, inits=[*carried, *carried])
        here, front = state[:count], state[count:]
        front = where_all(b, b.in_range(warp - other, 0, 1), here, front)
        values = [b.load(buffer, other, mutable=True) for buffer in self.shared]
        state = b.close_loop([*self.scanned.combine(here, values), *front])
        return state[count:], state[:count]
