"""Rows of matrix tiles that the threads of a warp hold: products of them with blocks in shared
memory, and values of whole rows.

A warp has 16 rows. Of each eight columns a thread holds four numbers, as `matrix_tiles` says: two
neighbours of the row that its `group` numbers, and two of the row eight further on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, ShuffleMode, Value
from xla_backend.kernels.library.factors import SharedBlock
from xla_backend.kernels.library.recipes import Recipe, Shape
from xla_backend.kernels.matrix_tiles import LAYOUTS, WARP

ROWS = 16
COLUMNS = 8
# Threads that share a row.
_MEMBERS = 4


class Lane(NamedTuple):
    """A thread of a warp: the number of its first row, and its own among those that share it."""

    group: Index
    member: Index


def lane_of(thread: Index) -> Lane:
    """The place of a thread of a block in its warp."""
    lane = thread % WARP
    return Lane(lane // _MEMBERS, lane % _MEMBERS)


def padded(size: int, recipe: Recipe) -> int:
    """A size as a whole number of tiles, of either side."""
    assert recipe.tile is not None
    return -(-size // max(recipe.tile[1:])) * max(recipe.tile[1:])


def held_place(lane: Lane, register: int) -> tuple[Index, Index]:
    """Row and column of one of the four numbers."""
    return lane.group + COLUMNS * (register // 2), 2 * lane.member + register % 2


def row_tiles(
    lane: Lane, shape: Shape, depth: int, element: Callable[[Index, Index], Value]
) -> list[list[Value]]:
    """What a thread holds of 16 rows as left factors, tile by tile along the sum; `element` makes
    the one at a row and a place in the sum."""
    layout = LAYOUTS[shape]
    places = [
        layout.element("lhs", lane.group, lane.member, r) for r in range(layout.registers["lhs"])
    ]
    return [
        [element(row, inner + start) for row, inner in places]
        for start in range(0, depth, shape[2])
    ]


def eight_products(
    b: LoopBuilder,
    lane: Lane,
    shape: Shape,
    rows: Sequence[Sequence[Value]],
    block: SharedBlock,
    buffer: Buffer,
    first: int,
) -> list[Value]:
    """The products of rows with eight columns of a block, from column `first` on."""
    layout = LAYOUTS[shape]
    sums = [b.constant(PrimitiveType.F32, 0)] * 4
    for n, lhs in enumerate(rows):
        places = [
            layout.element("rhs", lane.group, lane.member, r)
            for r in range(layout.registers["rhs"])
        ]
        rhs = [
            b.load(buffer, block.place(column + first, inner + n * shape[2]), mutable=True)
            for inner, column in places
        ]
        sums = b.matrix_tile(shape, lhs, rhs, sums)
    return sums


def add_products(
    b: LoopBuilder,
    lane: Lane,
    shape: Shape,
    sums: Sequence[Value],
    held: Sequence[Sequence[Value]],
    block: SharedBlock,
    buffer: Buffer,
    first: int = 0,
) -> list[Value]:
    """Sums with held @ block. `held`: of each eight numbers of the sum, from `first` on, what a
    thread holds of sums; as the order in a sum is free, that is a left factor in another order."""
    layout, result = LAYOUTS[shape], list(sums)
    for n in range(0, len(held) * COLUMNS, shape[2]):
        part = held[n // COLUMNS : (n + shape[2]) // COLUMNS]
        if shape[2] == 2 * COLUMNS:
            lhs, own = [x for eight in part for x in eight], None
        else:
            (x,) = part
            lhs, own = [x[0], x[2], x[1], x[3]], 2 * lane.member
        for column in range(0, block.outer, COLUMNS):
            rhs = []
            for r in range(layout.registers["rhs"]):
                inner, c = layout.element("rhs", lane.group, lane.member, r)
                if own is not None:
                    inner = own + r
                place = block.place(c + column, inner + (first + n))
                rhs.append(b.load(buffer, place, mutable=True))
            start = column // COLUMNS * 4
            result[start : start + 4] = b.matrix_tile(shape, lhs, rhs, result[start : start + 4])
    return result


def across_members(b: LoopBuilder, opcode: Opcode, value: Value) -> Value:
    """The values of the threads that share a row, together."""
    for distance in (1, 2):
        other = b.shuffle(value, ShuffleMode.XOR, distance)
        value = b.compute(opcode, value.type, (value, other))
    return value
