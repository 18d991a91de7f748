"""Square tiles: a vector loop that reads an array across its rows, with the loop around it.

For `out[i, j] = in[j, i]` a tile of B x B is read as B vectors along i, transposed in registers,
and the body runs for B values of i with vectors along j. Rows and columns left over run the usual
way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xla_backend.cpu.schedule import transposed_loads
from xla_backend.llvm.types import memory_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.loops.ir import Load, Loop

if TYPE_CHECKING:
    from xla_backend.cpu.emitter import KernelEmitter


class TileEmitter:
    """Emits a loop marked `tile` and the vector loop inside it."""

    def __init__(self, emitter: KernelEmitter, loop: Loop) -> None:
        self.e = emitter
        self.w = emitter.w
        self.outer = loop
        self.inner = next(s for s in loop.body if isinstance(s, Loop))
        self.row_statements = [s for s in loop.body if s is not self.inner]
        self.loads = transposed_loads(loop, self.inner)

    def emit(self, first: str, last: str) -> None:
        w, tile = self.w, self.outer.tile
        extent = self.outer.var.extent
        whole = extent // tile * tile
        stop = w.imin(last, whole)
        with w.loop(first, stop, tile) as rows:
            self._rows(rows.index)
        if whole < extent:
            self.outer.tile = 1
            start = w.imax(first, whole)
            self.e.scalar_loop(self.outer, start, last)
            self.outer.tile = tile

    def _rows(self, first_row: str) -> None:
        """One strip of `tile` rows."""
        e, w, tile = self.e, self.w, self.outer.tile
        columns = self.inner.var.extent
        whole = columns // tile * tile
        with w.loop(0, whole, tile) as strip:
            self._tile(first_row, strip.index)
        if whole < columns:
            with w.loop(first_row, w.iadd(first_row, tile)) as row:
                e.vars[self.outer.var] = row.index
                e.emit(self.row_statements)
                e.tail(self.inner, whole, columns - whole)

    def _tile(self, row: str, column: str) -> None:
        e, w, tile = self.e, self.w, self.outer.tile
        e.vars[self.outer.var] = row
        e.enter_lanes(self.inner, column, None)
        blocks = {s: self._block(s) for s in self.loads}
        for i in range(tile):
            e.vars[self.outer.var] = w.iadd(row, i)
            e.preloaded = {s: block[i] for s, block in blocks.items()}
            e.emit(self.row_statements)
            e.emit(self.inner.body)
        e.preloaded = {}
        e.leave_lanes()

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
