"""Rows whose elements are neighbours in memory: part of a warp, a warp or a block for each.

Softmax, layer norm and their gradients are one launch, in which a row is read once if registers
hold what its threads have of it.
"""

from __future__ import annotations

from xla_backend.kernels.schedule.row_nests import RowNest
from xla_backend.kernels.schedule.teams import Team
from xla_backend.targets.gpu.architectures import WARP
from xla_backend.targets.gpu.schedule.row_shapes import (
    ENOUGH_THREADS,
    USUAL_THREADS,
    fits_registers,
    lanes_of,
    most_threads,
    power_of_two,
    unrolled_for,
)

# Vectors of a row that a thread takes, one after another, before more threads are worth it.
_MOST_STEPS = 32
# A part of an array that a block reduces has at least so many elements.
_LEAST_PART = 1 << 12


def row_team(nest: RowNest) -> Team:
    """The threads of rows along memory."""
    lanes = lanes_of(nest)
    vectors = nest.row_length // lanes
    several = len(nest.walks) > 1
    most = most_threads(nest)
    across = min(WARP, power_of_two(vectors)) if not nest.exchanged() else WARP
    while across < min(most, vectors) and (
        nest.rows * across < ENOUGH_THREADS
        or vectors > _MOST_STEPS * across
        or (several and not fits_registers(nest, max(across, USUAL_THREADS), across, lanes))
    ):
        across *= 2
    block = across
    if across <= WARP and not nest.exchanged():
        block = max(WARP, min(USUAL_THREADS, most, across * power_of_two(nest.rows)))
    in_registers = several and fits_registers(nest, max(across, USUAL_THREADS), across, lanes)
    unrolled = unrolled_for(nest, lanes)
    return Team(block, across, 1, nest.rows, lanes, unrolled, in_registers)


def part_of_row(nest: RowNest, blocks: int) -> int:
    """Elements of a part if rows are cut into parts, so that there are about `blocks` of those."""
    lanes, count = lanes_of(nest), nest.row_length
    return part_size(count, min(blocks // nest.rows, count // _LEAST_PART), lanes)


def part_size(count: int, parts: int, unit: int) -> int:
    """A number of elements, in multiples of `unit`, that makes about so many parts: equal ones if
    there is a number of parts like that, and not much less."""
    for n in range(parts, parts // 2, -1):
        if count % (n * unit) == 0:
            return count // n
    return -(-count // (max(1, parts) * unit)) * unit
