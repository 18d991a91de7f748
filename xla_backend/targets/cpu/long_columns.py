"""Which reductions down columns go through memory in groups of rows (`schedule.row_groups`).

Columns in registers, all the way down, read some hundred bytes of each row: the processor begins to
read what follows these, which is for nothing, and finds no stretch that goes on. What the last
cache does not hold took more than twice as long so. Some rows at a time, of a few pages each, what
it reads ahead is read soon; short rows that follow each other are one stretch, row by row.
"""

from __future__ import annotations

from xla_backend.kernels.ir import PURE, Compute, Kernel, Load, Loop
from xla_backend.kernels.schedule.row_groups import reduce_in_groups, rows_of
from xla_backend.passes.reduction_splitter import MEMORY_BYTES

# What is read at a time: rows of a group, and bytes of each.
GROUP_ROWS = 8
_BLOCK_BYTES = 1 << 14
# What is kept of a block stays in the first cache.
_KEPT_BYTES = 1 << 14
# Rows that are worth it, and what one nest reads.
_ROW_BYTES = 1 << 10
_NEST_BYTES = 1 << 17
# Whole rows as short go row by row; of fewer bytes most are read at once, or the others twice.
_SHORT_BYTES = 1 << 14
_LEAST_SHORT_BYTES = 1 << 9
# Rows of all of the result are cut for the sake of threads, into so many blocks of so many bytes.
_LEAST_BLOCKS = 4
_LEAST_BLOCK_BYTES = 1 << 10
# Blocks are of whole vectors of any type, several registers each.
_UNIT = 64
# Bodies that compute more than this do not wait for memory.
_MOST_WORK = 40


def reduce_long_columns(kernel: Kernel) -> bool:
    """Reduce down columns in groups of rows where memory is what takes time. True iff any was."""
    changed = False
    for stage in [s for s in kernel.stages if isinstance(s, Loop)]:
        columns = _innermost(stage)
        rows = None if columns is None else rows_of(columns)
        if columns is None or rows is None:
            continue
        width, height = _block(columns, rows, for_threads=columns is stage)
        if width:
            reduce_in_groups(kernel, columns, width, height)
            changed = True
    return changed


def _innermost(stage: Loop) -> Loop | None:
    """The last of the independent loops of a nest in which each contains one other."""
    loop = stage
    while loop.independent and not loop.carries and not loop.limits:
        inner = [s for s in loop.body if isinstance(s, Loop)]
        if len(inner) != 1:
            return None
        if inner[0].carries:
            return loop
        if not all(s is inner[0] or isinstance(s, PURE) for s in loop.body):
            return None
        loop = inner[0]
    return None


def _block(columns: Loop, rows: Loop, *, for_threads: bool) -> tuple[int, int]:
    """Columns of a block and its rows that are read at a time; no columns where all are reduced
    together."""
    work = sum(s.opcode.cycles for s in rows.body if isinstance(s, Compute))
    streams = [s for s in rows.body if isinstance(s, Load) and _is_streamed(s, columns, rows)]
    size = max((s.buffer.element_type.byte_size for s in streams), default=0)
    kept = sum(c.phi.type.byte_size for c in rows.carries)
    row_bytes = columns.var.extent * size
    if work > _MOST_WORK or rows.var.extent < 2 * GROUP_ROWS:
        return 0, 0
    follow = all(s.index.coefficient(rows.var) == columns.var.extent for s in streams)
    short = _LEAST_SHORT_BYTES <= row_bytes <= _SHORT_BYTES
    if follow and short and columns.var.extent * kept <= _KEPT_BYTES and not for_threads:
        return columns.var.extent, 1
    if row_bytes < _ROW_BYTES or row_bytes * rows.var.extent < _NEST_BYTES:
        return 0, 0
    most = min(_BLOCK_BYTES // size, _KEPT_BYTES // kept)
    blocks = -(-columns.var.extent // most)
    if for_threads:
        blocks = max(blocks, min(_LEAST_BLOCKS, row_bytes // _LEAST_BLOCK_BYTES))
    return -(-columns.var.extent // (blocks * _UNIT)) * _UNIT, GROUP_ROWS


def _is_streamed(s: Load, columns: Loop, rows: Loop) -> bool:
    """Whether a load reads from memory, row by row."""
    across = abs(s.index.coefficient(rows.var)) >= columns.var.extent
    along = s.index.coefficient(columns.var) == 1
    large = s.buffer.size * s.buffer.element_type.byte_size >= MEMORY_BYTES
    return along and across and large
