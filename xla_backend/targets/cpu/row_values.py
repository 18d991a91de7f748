"""Which rows have their own values computed ahead, in lanes (`schedule.row_values`): short ones,
such as rows that are gathered, whose places are compared and clamped first."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.kernels.ir import ACCESSES, Compute, Kernel, Load, Loop, Statement, walk
from xla_backend.kernels.schedule.dependence import mentions
from xla_backend.kernels.schedule.row_values import compute_ahead, values_of_rows
from xla_backend.kernels.schedule.tiles import transposed_loads
from xla_backend.targets.cpu.short_rows import joined

# Rows at a time: they fill vectors of any type, several registers each.
ROWS = 64
# To compute less takes no longer than to load what was computed.
_LEAST_WORK = 3
_MOST_VALUES = 3
# Beside rows that take longer to move it is not seen.
_MOST_BYTES = 1 << 11


def compute_rows_ahead(
    kernel: Kernel, lanes_of: Callable[[Loop], int], cost: Callable[[Loop], float]
) -> bool:
    """Compute ahead what rows have for themselves, where that costs less. True iff any was."""
    changed = False
    for at, stage in enumerate(kernel.stages):
        if not isinstance(stage, Loop) or not _is_worth_it(stage):
            continue
        new = Kernel(kernel.name, list(kernel.buffers), [stage])
        parts = compute_ahead(new, stage, ROWS)
        # Elements of several rows together fill vectors, but are gathered one by one where rows
        # are at computed places.
        short = None if _is_at_values(stage) else joined(stage, kernel.name, lanes_of)
        if cost(parts) < min(cost(s) for s in (stage, short) if s is not None):
            kernel.stages[at], kernel.buffers = parts, new.buffers
            changed = True
    return changed


def _is_at_values(rows: Loop) -> bool:
    """Whether a row is read at a place that was computed for it."""
    values = values_of_rows(rows)
    return any(isinstance(s, Load) and mentions(s.index, values) for s in walk(rows.body[-1:]))


def _is_worth_it(rows: Loop) -> bool:
    """Whether rows are short, and compute enough for themselves."""
    values = values_of_rows(rows)
    if not 0 < len(values) <= _MOST_VALUES or rows.var.extent < ROWS:
        return False
    *lead, inner = rows.body
    if isinstance(inner, Loop) and transposed_loads(rows, inner):
        return False  # rows go through tiles together
    work = sum(s.opcode.cycles for s in lead if isinstance(s, Compute))
    return work >= _LEAST_WORK * len(values) and _most_bytes(inner) <= _MOST_BYTES


def _most_bytes(row: Statement) -> int:
    """What the busiest access of a row moves, in all iterations of the loops around it."""
    if isinstance(row, ACCESSES):
        return row.buffer.element_type.byte_size
    if isinstance(row, Loop):
        return row.var.extent * max(map(_most_bytes, row.body), default=0)
    return 0
