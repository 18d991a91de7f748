"""What the routine `moves` reads: places, moves, and tables of them."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import NamedTuple

SYMBOL = "pyjax_moves"
RANK = 6  # loops of a move
ELEMENT_BYTES = (1, 2, 4, 8, 16)
ABSOLUTE = -1


def number_of_result(k: int) -> int:
    """By which a move reads from result `k`."""
    return ABSOLUTE - 1 - k


class Place(NamedTuple):
    """A byte: of an argument, by its number, of a result that is read, by `number_of_result`, or of
    one that is written, by its own number. ABSOLUTE: the offset is an address."""

    number: int
    offset: int


class Lookup(NamedTuple):
    """An index that is read when the move is done.

    Fields:
      place, width: where the signed integer is, and its bytes, 4 or 8.
      most: smaller ones than 0, and larger ones than this, are clamped, or, if `drops` is 1, the
        move is not done.
      source_step, target_step: bytes that its value is multiplied by.
    """

    place: Place
    width: int
    most: int
    drops: int
    source_step: int
    target_step: int


class Move(NamedTuple):
    """A copy of elements at one place of a grid each. Steps are in bytes.

    Fields:
      element: bytes of one.
      sizes: of the grid, RANK of them.
      source_steps, target_steps: from one place to the next, along each dimension of the grid.
      lookups: what is added to where the source and the target begin.
    """

    element: int
    source: Place
    target: Place
    sizes: Sequence[int]
    source_steps: Sequence[int]
    target_steps: Sequence[int]
    lookups: Sequence[Lookup] = ()


SCALARS = 7  # element, source, target, number of the first lookup, and of that behind the last
FIELDS = SCALARS + 3 * RANK
LOOKUP_FIELDS = 7


def table(moves: Sequence[Move]) -> bytes:
    """i64s: the number of moves, the fields of each, then those of all lookups."""
    numbers, lookups = array.array("q", [len(moves)]), array.array("q")
    for move in moves:
        first = len(lookups) // LOOKUP_FIELDS
        for lookup in move.lookups:
            lookups.extend([*lookup.place, *lookup[1:]])
        last = first + len(move.lookups)
        numbers.extend([move.element, *move.source, *move.target, first, last])
        numbers.extend([*move.sizes, *move.source_steps, *move.target_steps])
    return (numbers + lookups).tobytes()
