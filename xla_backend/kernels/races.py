"""Finds accesses to one element of a buffer that need an order and have none: from two blocks of a
grid, or from two threads of a block without a barrier between them, one or both of them writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_NOBODY = -1
_SEVERAL = -2


class KernelRunError(RuntimeError):
    """A kernel does what no kernel may do."""


class RaceError(KernelRunError):
    """Two accesses to one element may happen in either order."""


class OutOfBoundsError(KernelRunError, IndexError):
    """An access lies outside its buffer."""


class UnwrittenReadError(KernelRunError):
    """An element is read that nothing has written."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an execution is: the block, the number of barriers since its start, and the loop
    variables with one value."""

    block: int
    phase: int
    position: dict[str, int]

    def text(self, thread: int, shape: tuple[int, ...]) -> str:
        """The place of one thread of a block with so many threads along each axis."""
        parts = [f"{name}={value}" for name, value in self.position.items()]
        if thread == _SEVERAL:
            parts.append("several threads")
        elif shape:
            coordinates = ", ".join(str(int(c)) for c in np.unravel_index(thread, shape))
            parts.append(f"thread {coordinates}")
        return ", ".join(parts) or "the start"


class _Side:
    """Who accessed each element last, in one way."""

    def __init__(self, size: int) -> None:
        self.block = np.full(size, _NOBODY)
        self.thread = np.full(size, _NOBODY)
        self.phase = np.full(size, _NOBODY)
        self.place = np.full(size, _NOBODY)

    def clashes(self, at: np.ndarray, thread: np.ndarray, place: Place) -> np.ndarray:
        """Which of the accesses come from a block or thread that no barrier keeps apart."""
        block = self.block[at]
        other_thread = (self.thread[at] != thread) & (self.phase[at] == place.phase)
        return (block != _NOBODY) & ((block != place.block) | other_thread)

    def record(self, at: np.ndarray, thread: np.ndarray, place: Place, number: int) -> None:
        elements, which = np.unique(at, return_inverse=True)
        first = np.full(elements.size, np.iinfo(np.int64).max)
        last = np.full(elements.size, -1)
        np.minimum.at(first, which, thread)
        np.maximum.at(last, which, thread)
        one = np.where(first == last, first, _SEVERAL)
        before = self.block[elements]
        again = (before == place.block) & (self.phase[elements] == place.phase)
        one = np.where(again & (self.thread[elements] != one), _SEVERAL, one)
        alone = (before == _NOBODY) | (before == place.block)
        self.block[elements] = np.where(alone, place.block, _SEVERAL)
        self.thread[elements] = one
        self.phase[elements] = place.phase
        # Of several blocks the first is remembered: the last may be the one that clashes.
        self.place[elements] = np.where(alone, number, self.place[elements])


class AccessLog:
    """The accesses to one buffer since all threads were last together."""

    def __init__(self, kernel: str, buffer: str, size: int) -> None:
        self.kernel, self.buffer = kernel, buffer
        self.reads, self.writes = _Side(size), _Side(size)
        self.atomic = np.zeros(size, bool)
        self.places: list[tuple[Place, tuple[int, ...]]] = []

    def read(self, at: np.ndarray, thread: np.ndarray, here: Place, shape: tuple[int, ...]) -> None:
        """Threads (by number; there are `shape` of them) read elements."""
        self._check(self.writes, at, thread, here, shape, ("read", "written"))
        self.reads.record(at, thread, here, self._number(here, shape))

    def write(
        self,
        at: np.ndarray,
        thread: np.ndarray,
        here: Place,
        shape: tuple[int, ...],
        *,
        atomic: bool = False,
    ) -> None:
        """Threads write elements, or with `atomic` update them; no two write one."""
        done = "updated" if atomic else "written"
        plain = ~self.atomic[at] if atomic else np.ones(at.shape, bool)
        self._check(self.writes, at[plain], thread[plain], here, shape, (done, "written"))
        self._check(self.reads, at, thread, here, shape, (done, "read"))
        self.writes.record(at, thread, here, self._number(here, shape))
        self.atomic[at] = atomic

    def _number(self, here: Place, shape: tuple[int, ...]) -> int:
        self.places.append((here, shape))
        return len(self.places) - 1

    def _check(
        self,
        side: _Side,
        at: np.ndarray,
        thread: np.ndarray,
        here: Place,
        shape: tuple[int, ...],
        words: tuple[str, str],
    ) -> None:
        clashes = side.clashes(at, thread, here)
        if not clashes.any():
            return
        n = int(np.argmax(clashes))
        element = int(at[n])
        before, threads = self.places[side.place[element]]
        other = int(side.thread[element])
        raise RaceError(
            f"kernel {self.kernel!r}: element {element} of buffer {self.buffer} is {words[0]} at "
            f"[{here.text(int(thread[n]), shape)}] and {words[1]} at "
            f"[{before.text(other, threads)}], and nothing orders the two: put a barrier between "
            f"them, or give each its own elements"
        )
