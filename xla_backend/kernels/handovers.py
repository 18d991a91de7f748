"""What threads know of what threads of other blocks have done, as the interpreter keeps it: they
learn it by waiting for signals (`ir.Await`), and tell it by signals of their own.

Accesses are numbered as they are made. A thread knows of each other thread up to which access what
it did comes before what follows here: of those of its own block by barriers, of others by signals.
Knowledge is a vector, with an entry for each thread that has signalled, and one for each block as a
whole (Mattern 1989, "Virtual time and global states of distributed systems").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

_NOTHING = np.zeros(0, np.int64)
_UNKNOWN = -1


class Told(NamedTuple):
    """What a signal says: what is known there, and where it was made."""

    known: np.ndarray
    where: str


class Knowledge:
    """Of all threads of a grid. Threads have the numbers that `races` gives them: `bits` of them
    number a thread within its block. `in_use`: whether threads wait for those of other blocks."""

    def __init__(self, bits: int, in_use: bool = False) -> None:
        self._bits = bits
        self.in_use = in_use
        self._columns: dict[int, int] = {}  # of threads, and of blocks: -1 - number
        self._of_blocks: dict[int, np.ndarray] = {}
        self._of_threads: dict[int, np.ndarray] = {}  # beyond what their block knows
        self._last_barrier: dict[int, int] = {}
        self._told: dict[tuple[object, int], Told] = {}

    def _column(self, who: int) -> int:
        return self._columns.setdefault(who, len(self._columns))

    def barrier(self, blocks: Iterable[int], now: int) -> None:
        """All threads of these blocks know what each of them knows, and has done until `now`."""
        for block in blocks:
            mine = [who for who in self._of_threads if who >> self._bits == block]
            known = _together(self._of_blocks.get(block, _NOTHING), self._of_threads, mine)
            for who in mine:
                del self._of_threads[who]
            self._of_blocks[block] = known
            self._last_barrier[block] = now

    def signal(self, buffer: object, element: int, who: int, now: int, where: str) -> str | None:
        """A thread tells what it knows, and has done until `now`. Returns where somebody has told
        something by this element before, if so."""
        before = self._told.get((buffer, element))
        if before is not None:
            return before.where
        block = who >> self._bits
        known = _together(self._of_blocks.get(block, _NOTHING), self._of_threads, [who])
        known = _with(known, self._column(who), now)
        if block in self._last_barrier:
            known = _with(known, self._column(-1 - block), self._last_barrier[block])
        self._told[buffer, element] = Told(known, where)
        return None

    def is_told(self, buffer: object, element: int) -> bool:
        return (buffer, element) in self._told

    def learn(self, buffer: object, element: int, who: int) -> None:
        """A thread has waited for a signal."""
        told = self._told[buffer, element].known
        self._of_threads[who] = _merged(self._of_threads.get(who, _NOTHING), told)

    def comes_before(self, other: int, number: int, who: int) -> bool:
        """Whether a thread knows of an access that another one has made."""
        for column in (self._columns.get(other), self._columns.get(-1 - (other >> self._bits))):
            if column is None:
                continue
            for known in (
                self._of_blocks.get(who >> self._bits, _NOTHING),
                self._of_threads.get(who, _NOTHING),
            ):
                if column < known.size and known[column] >= number:
                    return True
        return False


def _with(known: np.ndarray, column: int, now: int) -> np.ndarray:
    grown = np.full(max(known.size, column + 1), _UNKNOWN, np.int64)
    grown[: known.size] = known
    grown[column] = max(grown[column], now)
    return grown


def _merged(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    if one.size < other.size:
        one, other = other, one
    result = one.copy()
    np.maximum(result[: other.size], other, out=result[: other.size])
    return result


def _together(
    known: np.ndarray, of_threads: dict[int, np.ndarray], threads: Iterable[int]
) -> np.ndarray:
    for who in threads:
        if who in of_threads:
            known = _merged(known, of_threads[who])
    return known
