"""Square tiles: a vector loop that reads an array across its rows, with the loop around it.

For `out[i, j] = in[j, i]` a tile of B x B is read as B vectors along i, transposed in registers,
and the body runs for B values of i with vectors along j. Rows and columns left over run the usual
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xla_backend.kernels.ir import Compute, Load, Loop
from xla_backend.llvm.types import memory_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.schedule import transposed_loads, weight

if TYPE_CHECKING:
    from xla_backend.targets.cpu.emitter import KernelEmitter


# Tiles go through blocks of so many bytes in either direction: what one reads beside a tile is
# still in the cache, and its pages are still known, when the next needs it.
_BLOCK_BYTES = 512
# Bodies of more work, and taller tiles, run in a loop over the rows of a tile.
_MAX_UNROLLED_WORK = 12
_MAX_UNROLLED_ROWS = 16


class TileEmitter:
    """Emits a loop marked `tile` and the vector loop inside it."""

    def __init__(self, emitter: KernelEmitter, loop: Loop) -> None:
        self.e = emitter
        self.w = emitter.w
        self.outer = loop
        self.inner = next(s for s in loop.body if isinstance(s, Loop))
        self.row_statements = [s for s in loop.body if s is not self.inner]
        self.loads = transposed_loads(loop, self.inner)
        work = sum(weight(s.opcode) for s in self.inner.body if isinstance(s, Compute))
        self.unrolled = work <= _MAX_UNROLLED_WORK and loop.tile <= _MAX_UNROLLED_ROWS
        size = max(s.buffer.element_type.byte_size for s in self.loads)
        self.block = max(1, _BLOCK_BYTES // (size * loop.tile)) * loop.tile

    def emit(self, first: str, last: str) -> None:
        """Rows [first, last); the columns too may be those of one block of a parallel loop."""
        w, tile = self.w, self.outer.tile
        rows, columns = self.outer.var.extent, self.inner.var.extent
        start, stop = "0", str(columns)
        if self.e.block is not None and self.e.block[0] is self.inner:
            start, stop = self.e.block[1], self.e.block[2]
        whole_rows = w.imin(last, rows // tile * tile)
        whole_columns = w.imin(stop, columns // tile * tile)
        with w.loop(first, whole_rows, self.block, guard=True) as i:
            below = w.imin(w.iadd(i.index, self.block), whole_rows)
            with w.loop(start, whole_columns, self.block, guard=True) as j:
                right = w.imin(w.iadd(j.index, self.block), whole_columns)
                with w.loop(i.index, below, tile) as row:
                    with w.loop(j.index, right, tile) as column:
                        self._tile(row.index, column.index)
        if columns % tile:
            if stop == str(columns):
                self._last_columns(first, whole_rows)
            else:
                with w.if_(w.cmp("eq", "i64", stop, str(columns))):
                    self._last_columns(first, whole_rows)
        if rows % tile:
            self.outer.tile = 1
            self.e.scalar_loop(self.outer, w.imax(first, rows // tile * tile), last)
            self.outer.tile = tile

    def _last_columns(self, first: str, last: str) -> None:
        """What is left over at the right of whole tiles."""
        tile, columns = self.outer.tile, self.inner.var.extent
        with self.w.loop(first, last) as row:
            self.e.vars[self.outer.var] = row.index
            self.e.emit(self.row_statements)
            self.e.tail(self.inner, columns // tile * tile, columns % tile)

    def _tile(self, row: str, column: str) -> None:
        e, w, tile = self.e, self.w, self.outer.tile
        e.vars[self.outer.var] = row
        e.enter_lanes(self.inner, column, None)
        blocks = {s: self._block(s) for s in self.loads}
        if self.unrolled:
            for n in range(tile):
                self._row(w.iadd(row, n), {s: block[n] for s, block in blocks.items()})
        else:
            slots = {s: self._spilled(s, block) for s, block in blocks.items()}
            with w.loop(0, tile) as i:
                loaded = {s: w.load(ty, w.gep(ty, at, i.index)) for s, (ty, at) in slots.items()}
                self._row(w.iadd(row, i.index), loaded)
        e.preloaded = {}
        e.leave_lanes()

    def _row(self, row: str, loaded: dict[Load, str]) -> None:
        e = self.e
        e.vars[self.outer.var] = row
        e.preloaded = loaded
        e.emit(self.row_statements)
        e.emit(self.inner.body)

    def _spilled(self, s: Load, rows: list[str]) -> tuple[str, str]:
        """(type of a row, memory) of a tile on the stack."""
        w, tile = self.w, self.outer.tile
        ty = vector(memory_type(s.buffer.element_type), tile)
        at = w.alloca(ty, tile, 64)
        for i, row in enumerate(rows):
            w.store(ty, row, w.gep(ty, at, i))
        return ty, at

    def _block(self, s: Load) -> list[str]:
        """The tile that a load reads, one vector along the inner loop for each value of the outer
        one."""
        w, tile = self.w, self.outer.tile
        stored = memory_type(s.buffer.element_type)
        ty = vector(stored, tile)
        start = self.e.access.uniform(s.index)
        stride = s.index.coefficient(self.inner.var)
        base = self.e.pointers[s.buffer]
        rows = [
            w.load(ty, w.gep(stored, base, w.iadd(start, lane * stride))) for lane in range(tile)
        ]
        return transpose(w, ty, rows)


def transpose(w: FunctionWriter, ty: str, rows: list[str]) -> list[str]:
    """Transpose a square of vectors by exchanging ever smaller halves."""
    n = len(rows)
    step = n // 2
    while step:
        # Exchange the off-diagonal blocks of `step` lanes between rows r and r + step.
        keep = [i if not i & step else n + i - step for i in range(n)]
        give = [i + step if not i & step else n + i for i in range(n)]
        exchanged = list(rows)
        for r in range(n):
            if not r & step:
                low, high = rows[r], rows[r + step]
                exchanged[r] = w.shuffle(ty, low, high, keep)
                exchanged[r + step] = w.shuffle(ty, low, high, give)
        rows = exchanged
        step //= 2
    return rows
