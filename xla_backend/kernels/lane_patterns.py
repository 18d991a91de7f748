"""Lanes that read places in a pattern which is the same in all rounds, or comes back after a few:
every third element, each element four times, the first row of many small matrices. They are found
in a few contiguous pieces, so that such a load is loads of those and shuffles, and no lane goes to
memory of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple

from xla_backend.kernels.index import QUOTIENTS, Atom, FloorDiv, Index, Var

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


def turns_of(indices: Iterable[Index], var: Var, lanes: int) -> int:
    """After how many vectors of `lanes` values of `var` all patterns of these indices come back."""
    turns = 1
    for index in indices:
        for atom in index.terms:
            if isinstance(atom, QUOTIENTS) and set(atom.index.terms) == {var}:
                period = atom.divisor // gcd(atom.divisor, atom.index.terms[var])
                turns = lcm(turns, period // gcd(period, lanes))
    return turns


def lane_offsets(
    index: Index,
    var: Var,
    lanes: int,
    varies: Callable[[Atom], bool],
    turn: tuple[int, int] = (0, 1),
) -> list[int] | None:
    """How far from the first lane each of `lanes` consecutive values of `var` is, from a multiple
    of `lanes` on; None if that is not the same in all rounds. `turn`: which of how many vectors it
    is, after which the pattern comes back."""
    offsets = [0] * lanes
    for atom, c in index.terms.items():
        if not varies(atom):
            continue
        values = _values(atom, var, lanes, *turn)
        if values is None:
            return None
        first = values[0]
        offsets = [o + c * (v - first) for o, v in zip(offsets, values)]
    return offsets


def _values(atom: Atom, var: Var, lanes: int, turn: int, turns: int) -> list[int] | None:
    """What the atom is in each lane but for a number that all lanes have in common."""
    if atom is var:
        return list(range(lanes))
    if not isinstance(atom, QUOTIENTS) or set(atom.index.terms) != {var}:
        return None
    step, begin, divisor = atom.index.terms[var], atom.index.constant, atom.divisor
    if step * lanes * turns % divisor and var.extent > lanes:
        return None  # the next round begins within a period
    inner = [begin + step * (turn * lanes + lane) for lane in range(lanes)]
    return [i // divisor if isinstance(atom, FloorDiv) else i % divisor for i in inner]


def pieces_of(offsets: Sequence[int]) -> Pieces | None:
    """The pieces of memory that hold the lanes of one register; None if they are too many."""
    return _pieces_of(tuple(offsets))


@lru_cache(maxsize=1024)  # few patterns occur, and each is asked for often
def _pieces_of(offsets: tuple[int, ...]) -> Pieces | None:
    low, high = min(offsets), max(offsets)
    size = 1 << (min(high - low + 1, len(offsets)).bit_length() - 1)
    # No piece reaches beyond the last lane: what is behind that may be no memory.
    starts: list[int] = []
    for offset in sorted(set(offsets)):
        if not starts or offset >= starts[-1] + size:
            starts.append(min(offset, high - size + 1))
            if len(starts) > _MAX_PIECES + 1:
                return None  # the last one may stand for one before it, all others are used
    used = [starts[bisect_right(starts, offset) - 1] for offset in offsets]
    kept = tuple(sorted(set(used)))
    if len(kept) > _MAX_PIECES:
        return None
    return Pieces(kept, size, tuple((kept.index(s), o - s) for s, o in zip(used, offsets)))
