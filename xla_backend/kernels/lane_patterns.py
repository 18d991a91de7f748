"""Lanes that read places in a pattern which is the same in all rounds: every third element, each
element four times, the first row of many small matrices. They are found in a few contiguous pieces,
so that such a load is loads of those and shuffles, and no lane goes to memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xla_backend.kernels.index import Atom, FloorDiv, Index, Mod, Var

# Loads of more pieces for each register take as long as going to memory for each lane.
_MAX_PIECES = 6


class Pieces(NamedTuple):
    """Where the lanes of one register are.

    Fields:
      starts: of each piece, how far it is from the first lane of the vector.
      size: of each piece, in elements; a power of two.
      lanes: for each lane the number of its piece, and the position in that.
    """

    starts: tuple[int, ...]
    size: int
    lanes: tuple[tuple[int, int], ...]


def lane_offsets(
    index: Index, var: Var, lanes: int, varies: Callable[[Atom], bool]
) -> list[int] | None:
    """How far from the first lane each of `lanes` consecutive values of `var` is, from a multiple
    of `lanes` on; None if that is not the same in all rounds."""
    offsets = [0] * lanes
    for atom, c in index.terms.items():
        if not varies(atom):
            continue
        values = _values(atom, var, lanes)
        if values is None:
            return None
        offsets = [o + c * (v - values[0]) for o, v in zip(offsets, values)]
    return offsets


def _values(atom: Atom, var: Var, lanes: int) -> list[int] | None:
    """What the atom is in each lane but for a number that all lanes have in common."""
    if atom is var:
        return list(range(lanes))
    if not isinstance(atom, FloorDiv | Mod) or set(atom.index.terms) != {var}:
        return None
    step, begin, divisor = atom.index.terms[var], atom.index.constant, atom.divisor
    if step * lanes % divisor and var.extent > lanes:
        return None  # the next round begins within a period
    inner = [begin + step * lane for lane in range(lanes)]
    return [i // divisor if isinstance(atom, FloorDiv) else i % divisor for i in inner]


def pieces_of(offsets: list[int]) -> Pieces | None:
    """The pieces of memory that hold the lanes of one register; None if they are too many."""
    low, high = min(offsets), max(offsets)
    size = 1 << (min(high - low + 1, len(offsets)).bit_length() - 1)
    # No piece reaches beyond the last lane: what is behind that may be no memory.
    starts = sorted({min(start, high - size + 1) for start in range(low, high + 1, size)})
    used = [max(s for s in starts if s <= offset) for offset in offsets]
    kept = tuple(sorted(set(used)))
    if len(kept) > _MAX_PIECES:
        return None
    return Pieces(kept, size, tuple((kept.index(s), o - s) for s, o in zip(used, offsets)))
