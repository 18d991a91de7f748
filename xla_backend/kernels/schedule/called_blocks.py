"""Kernels that a routine calls for one block of its result at a time: some rows and columns of one
batch, which its caller names.

    for b in range(4):                         v0 = s64(ld)
        for i in range(100):           ->      for i in range(rows):
            for j in range(200):                   v2 = s64(i) * v0
                ... = c[20000*b + 200*i + j]       for j in range(columns):
                                                       ... = c[v2 + j]

Elsewhere i is row_lo + i, j is column_lo + j, and b is batch. The routine keeps the array c itself;
`c` is now the block, whose rows are `ld` elements apart.
"""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import MOST_ELEMENTS, ZERO, Index, Parameter, linearize
from xla_backend.kernels.ir import (
    Buffer,
    Compute,
    IndexValue,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import replace_atoms
from xla_backend.kernels.schedule.splitting import ScheduleError, replace


class Nest(NamedTuple):
    """The loops of a kernel that runs once for each element of an array of matrices."""

    batch: Loop
    rows: Loop
    columns: Loop

    @staticmethod
    def of(kernel: Kernel) -> Nest:
        """Those of a kernel whose last stage they are."""
        batch = kernel.stages[-1]
        rows = batch.body[-1] if isinstance(batch, Loop) else None
        columns = rows.body[-1] if isinstance(rows, Loop) else None
        if not (isinstance(batch, Loop) and isinstance(rows, Loop) and isinstance(columns, Loop)):
            raise ScheduleError(f"kernel {kernel.name!r} has no nest of batch, rows and columns")
        return Nest(batch, rows, columns)


def run_in_blocks(kernel: Kernel, kept: Buffer, unit: int = 1) -> None:
    """Let the caller say which rows and columns of which batch run, by the parameters `ld`,
    `row_lo`, `rows`, `column_lo`, `columns` and `batch` (in this order), and hand over its block of
    `kept`. `unit`: blocks begin at whole groups of so many columns, and end there.

    Raises:
      ScheduleError: `kept` is written, or read elsewhere than at the element of the round.
    """
    nest = Nest.of(kernel)
    extents = [loop.var.extent for loop in nest]
    batches, rows, columns = extents
    ld = Parameter("ld", (0, MOST_ELEMENTS))
    row_lo, row_count = Parameter("row_lo", (0, rows - 1)), Parameter("rows", (1, rows))
    column_lo = Parameter("column_lo", (0, columns - 1), unit)
    column_count = Parameter("columns", (1, columns), unit)
    batch = Parameter("batch", (0, batches - 1))
    kernel.parameters += [ld, row_lo, row_count, column_lo, column_count, batch]
    loads = _loads(kernel, kept, linearize([_index(loop) for loop in nest], extents))
    _narrow(nest.rows, row_lo, row_count)
    _narrow(nest.columns, column_lo, column_count)
    replace_atoms([nest.batch], {nest.batch.var: Index.of(batch)})
    replace(kernel, nest.batch, nest.batch.body)
    place = _index(nest.columns)
    if rows > 1:
        step, start = _start_of_row(nest.rows, ld)
        kernel.stages.insert(0, step)
        place = place + Index.of(start)
    for load in loads:
        load.index = place


def _index(loop: Loop) -> Index:
    return Index.of(loop.var) if loop.var.extent > 1 else ZERO


def _loads(kernel: Kernel, kept: Buffer, here: Index) -> list[Load]:
    loads = []
    for s in walk(kernel.stages):
        if isinstance(s, Load) and s.buffer is kept:
            if s.index != here:
                raise ScheduleError(f"{kept.name} is read at {s.index} in the round of {here}")
            loads.append(s)
        elif isinstance(s, Store) and s.buffer is kept:
            raise ScheduleError(f"{kept.name} is written, and is its caller's")
    return loads


def _narrow(loop: Loop, first: Parameter, count: Parameter) -> None:
    replace_atoms(loop.body, {loop.var: Index.of(first) + Index.of(loop.var)})
    loop.limits = (Index.of(count),)


def _start_of_row(loop: Loop, ld: Parameter) -> tuple[Statement, Value]:
    """Put where a row of the block starts before what the loop does; the step from row to row, and
    the start."""
    step, row, start = (
        Value(PrimitiveType.S64, depth, 0, bounds)
        for depth, bounds in (
            (0, ld.bounds),
            (loop.var.depth, loop.var.bounds),
            (loop.var.depth, (0, loop.var.bounds[1] * ld.bounds[1])),
        )
    )
    product = Compute(start, Opcode.MULTIPLY, (row, step))
    loop.body[:0] = [IndexValue(row, Index.of(loop.var)), product]
    return IndexValue(step, Index.of(ld)), start
