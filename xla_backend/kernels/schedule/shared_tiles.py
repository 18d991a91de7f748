"""Transposes through the memory that the threads of a block share.

    for i in range(64):                    for block in grid(4):
        for j in range(64):                    for thread in threads(256):
            out[64*i + j] =                        tile[33*y + x] = p[...]         (x: along i)
                p[i + 64*j]          ->            barrier()
                                                   out[...] = tile[33*x + y]       (x: along j)

Here y is thread // 32 and x is thread % 32. A block reads a tile along the loop whose neighbours
are neighbours in what is read, and does the rest along the loop whose neighbours are so in what is
written: the threads beside each other access neighbours both times. Rows of a tile are a little
apart, so that neither way two of them meet in one bank. Where the loops are no multiples of the
tile, conditions of the accesses say which of them are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Index, Var, constant, delinearize
from xla_backend.kernels.ir import (
    ACCESSES,
    PURE,
    Barrier,
    Buffer,
    BufferRole,
    Compute,
    InRange,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
    Value,
)
from xla_backend.kernels.schedule.collapsing import nest_of
from xla_backend.kernels.schedule.copying import Copy, live, operands_of
from xla_backend.kernels.schedule.dependence import divided, mentions, needed
from xla_backend.kernels.schedule.splitting import ScheduleError, replace
from xla_backend.process.light_dataclasses import dataclass

_KNOWN = (*PURE, Store)

WIDTH = 32  # threads beside each other
_BANK_BYTES = 4

# Statements for some rows of a tile, given their numbers, the first column of a thread and the
# column of a lane; what must come before the lanes goes into the list.
_Phase = Callable[[Sequence[Index], Index, Index, list[Statement]], list[Statement]]


@dataclass(frozen=True, slots=True)
class Tiling:
    """How blocks go about their tiles: `rows` times 32 threads, of which each accesses `lanes`
    neighbours at once. `unrolled`: the rows of a thread have code of their own, loads first."""

    rows: int = 8
    lanes: int = 1
    unrolled: bool = True

    @property
    def edge(self) -> int:
        """Elements of a tile in either direction."""
        return WIDTH * self.lanes

    def pitch(self, type: PrimitiveType) -> int:
        """Elements from row to row of a tile: neighbours in a column lie in different banks."""
        if self.lanes > 1:
            return self.edge + 1
        return self.edge + max(1, _BANK_BYTES // type.byte_size)

    def bytes(self, type: PrimitiveType) -> int:
        """Memory that a tile takes."""
        return self.edge * self.pitch(type) * type.byte_size


def turned_loads(nest: Sequence[Loop], along: Loop) -> list[Load]:
    """The loads of a nest that read neighbours along a loop, and none along the innermost."""
    inner, body = nest[-1].var, _body(nest)
    if not all(isinstance(s, _KNOWN) for s in body):
        return []
    return [
        s
        for s in body
        if isinstance(s, Load)
        and _steps(s.index, along.var)
        and mentions(s.index, {inner})
        and not _steps(s.index, inner)
        and needed(body, operands_of(s)) is not None
    ]


def _steps(index: Index, var: Var) -> bool:
    """Whether neighbours in a loop are neighbours in memory, or numbers of two parts are."""
    rest = Index({a: c for a, c in index.terms.items() if a is not var})
    return abs(index.coefficient(var)) in (1, 2) and not mentions(rest, {var})


def _body(nest: Sequence[Loop]) -> list[Statement]:
    """What all loops of a nest do, for one iteration of each."""
    return [s for loop in nest[:-1] for s in loop.body[:-1]] + nest[-1].body


def turn_in_tiles(
    kernel: Kernel, nest: Sequence[Loop], along: Loop, loads: Sequence[Load], tiling: Tiling
) -> Loop:
    """Run a stage that is a nest in tiles of `along` and the innermost loop: `loads` (of
    `turned_loads`) go through shared memory. Returns the grid loop.

    Raises:
      ScheduleError: the loops are no such nest.
    """
    if nest[0] not in kernel.stages or along not in nest[:-1]:
        raise ScheduleError(f"loop {along.var.name!r} is not in a nest that is a stage")
    if list(nest) != nest_of(nest[0])[: len(nest)]:
        raise ScheduleError(f"loop {nest[0].var.name!r} is no nest of independent loops")
    if tiling.lanes > 1 and any(l.var.extent % tiling.lanes for l in (along, nest[-1])):
        raise ScheduleError(f"loop {along.var.name!r} has no whole groups of {tiling.lanes}")
    grid = _Tiles(kernel, nest, along, loads, tiling).grid()
    replace(kernel, nest[0], [grid])
    return grid


class _Tiles:
    def __init__(
        self,
        kernel: Kernel,
        nest: Sequence[Loop],
        along: Loop,
        loads: Sequence[Load],
        tiling: Tiling,
    ) -> None:
        self.tiling = tiling
        self.along, self.inner = along.var, nest[-1].var
        self.loads = list(loads)
        depth = nest[0].var.depth
        others = [loop.var for loop in nest if loop.var not in (self.along, self.inner)]
        tiles = [-(-var.extent // tiling.edge) for var in (self.along, self.inner)]
        extents = [*(var.extent for var in others), *tiles]
        self.block = Var("block", prod(extents), depth)
        block = Index.of(self.block) if self.block.extent > 1 else constant(0)
        *places, down, right = delinearize(block, extents)
        self.fixed: dict[Var, Index] = dict(zip(others, places))
        self.starts = {self.along: down * tiling.edge, self.inner: right * tiling.edge}
        self.thread = Var("thread", WIDTH * tiling.rows, depth + 1)
        self.x = Index.of(self.thread) % WIDTH
        self.y = Index.of(self.thread) // WIDTH
        self.body = _body(nest)
        self.tiles = {load: self._tile(kernel, load) for load in self.loads}

    def _tile(self, kernel: Kernel, load: Load) -> Buffer:
        type = load.buffer.element_type
        number = sum(1 for b in kernel.buffers if b.role is BufferRole.SHARED)
        size = self.tiling.edge * self.tiling.pitch(type)
        tile = Buffer(f"tile{number}", type, size, BufferRole.SHARED)
        kernel.buffers.append(tile)
        return tile

    def grid(self) -> Loop:
        body = [*self._rows(self._read), Barrier(), *self._rows(self._write)]
        same, body = divided(body, self.thread)
        threads = Loop(self.thread, body, independent=True, kind=LoopKind.THREAD)
        return Loop(self.block, [*same, threads], independent=True, kind=LoopKind.GRID)

    def _rows(self, make: _Phase) -> list[Statement]:
        """One phase: all rows of a tile that a thread has to do with."""
        tiling = self.tiling
        count = tiling.edge // tiling.rows
        if tiling.unrolled:
            return self._in_lanes(make, [self.y + n * tiling.rows for n in range(count)])
        row = Var("row", count, self.thread.depth + 1)
        body = self._in_lanes(make, [self.y + Index.of(row) * tiling.rows])
        return [Loop(row, body, independent=True)]

    def _in_lanes(self, make: _Phase, rows: Sequence[Index]) -> list[Statement]:
        before: list[Statement] = []
        lane = Var("lane", self.tiling.lanes, self.thread.depth + 2)
        column = self.x * self.tiling.lanes
        if self.tiling.lanes == 1:
            body = make(rows, column, column, before)
            return [*before, *body]
        body = make(rows, column, column + Index.of(lane), before)
        loop = Loop(lane, body, independent=True, may_vectorize=True, kind=LoopKind.LANES)
        return [*before, loop]

    def _read(
        self, rows: Sequence[Index], group: Index, column: Index, before: list[Statement]
    ) -> list[Statement]:
        """Into the tiles: rows along the innermost loop, columns along the other."""
        values = [v for load in self.loads for v in (*operands_of(load), load.result)]
        wanted = needed(self.body, values)
        assert wanted is not None
        copies = [self._copy({self.inner: row, self.along: column}) for row in rows]
        guards = [self._inside({self.inner: row, self.along: group}, before) for row in rows]
        body: list[Statement] = []
        for s in wanted:
            for copy, guard in zip(copies, guards):
                body += self._guarded(copy.block([s]), guard)
        for load, tile in self.tiles.items():
            pitch = self.tiling.pitch(tile.element_type)
            for copy, row in zip(copies, rows):
                body.append(Store(tile, row * pitch + column, (copy.value(load.result),)))
        return body

    def _write(
        self, rows: Sequence[Index], group: Index, column: Index, before: list[Statement]
    ) -> list[Statement]:
        """What the nest does, with the tiles in place of the loads: rows along the other loop."""
        copies = [self._copy({self.along: row, self.inner: column}) for row in rows]
        guards = [self._inside({self.along: row, self.inner: group}, before) for row in rows]
        body: list[Statement] = []
        for s in self.body:
            for copy, guard, row in zip(copies, guards, rows):
                if s in self.loads:
                    assert isinstance(s, Load)
                    tile = self.tiles[s]
                    pitch = self.tiling.pitch(tile.element_type)
                    body += copy.block([Load(s.result, tile, column * pitch + row)])
                else:
                    body += self._guarded(copy.block([s]), guard)
        return live(body)

    def _copy(self, within: dict[Var, Index]) -> Copy:
        return Copy({**self.fixed, **{v: self.starts[v] + i for v, i in within.items()}})

    def _inside(self, places: dict[Var, Index], out: list[Statement]) -> Value | None:
        """Whether the element at these places in a tile is there; None if all are."""
        guard: Value | None = None
        for var, place in places.items():
            here = self.starts[var] + place
            if here.bounds[1] < var.extent:
                continue
            found = next((s for s in out if isinstance(s, InRange) and s.index == here), None)
            if found is None:
                found = InRange(
                    Value(PrimitiveType.PRED, self.thread.depth, 0), here, 0, var.extent
                )
                out.append(found)
            guard = found.result if guard is None else _both(guard, found.result, out)
        return guard

    def _guarded(self, statements: list[Statement], guard: Value | None) -> list[Statement]:
        """Accesses of statements only where `guard` holds."""
        if guard is None:
            return statements
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, ACCESSES):
                s.guard = guard if s.guard is None else _both(s.guard, guard, result)
            result.append(s)
        return result


def _both(lhs: Value, rhs: Value, out: list[Statement]) -> Value:
    result = lhs.like()
    out.append(Compute(result, Opcode.AND, (lhs, rhs)))
    return result
