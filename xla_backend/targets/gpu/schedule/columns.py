"""Rows whose elements lie apart in memory, and which are neighbours themselves: sums over columns.

Neighbouring threads work on neighbouring columns. Several threads share a column, each with every
so many of its elements, and put together what they have in shared memory.
"""

from __future__ import annotations

from xla_backend.kernels.schedule.row_nests import RowNest
from xla_backend.kernels.schedule.teams import Team
from xla_backend.targets.gpu.architectures import WARP
from xla_backend.targets.gpu.schedule.row_shapes import (
    ENOUGH_THREADS,
    USUAL_THREADS,
    fits_registers,
    most_threads,
    power_of_two,
    unrolled_for,
)
from xla_backend.targets.gpu.schedule.rows import part_size

# Elements of a column that are worth a thread.
_LEAST_ELEMENTS = 4
# And those that are worth a block.
_LEAST_PART = 256


def column_team(nest: RowNest) -> Team:
    """The threads of columns."""
    minor = nest.kept[-1].var.extent
    several = len(nest.walks) > 1
    most = most_threads(nest)
    columns = min(WARP, power_of_two(minor))
    across = WARP // columns
    while columns * across < most and nest.row_length >= 2 * across * _LEAST_ELEMENTS:
        busy = nest.rows * across >= ENOUGH_THREADS
        kept = not several or fits_registers(nest, columns * across, across, 1)
        if columns * across >= USUAL_THREADS and busy and kept:
            break
        across *= 2
    while columns * across < min(USUAL_THREADS, most) and columns < minor:
        columns *= 2
    in_registers = several and fits_registers(nest, columns * across, across, 1)
    unrolled = unrolled_for(nest, 1)
    return Team(columns * across, across, columns, minor, 1, unrolled, in_registers)


def part_of_column(nest: RowNest, blocks: int) -> int:
    """Elements of a part if columns are cut into parts, so that there are about `blocks`."""
    minor, count = nest.kept[-1].var.extent, nest.row_length
    groups = nest.rows // minor * -(-minor // WARP)
    return part_size(count, min(blocks // groups, count // _LEAST_PART), 1)
