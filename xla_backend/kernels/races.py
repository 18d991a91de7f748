"""Finds accesses to one element of a buffer that need an order and have none: from two blocks of a
grid, from two threads of a block without a barrier between them, or from two rounds of a loop that
says that its rounds are independent; one or both of them writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xla_backend.kernels.ir import LoopKind

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


class Axis(NamedTuple):
    """A loop all of whose iterations (or `extent` of them, from `first` on) run in lockstep: of
    threads, of lanes, or serial with independent rounds."""

    kind: LoopKind
    extent: int
    name: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an execution is: the block, the number of barriers since its start, and the loop
    variables with one value."""

    block: int
    phase: int
    position: dict[str, int]

    def text(self, thread: int, axes: Sequence[Axis]) -> str:
        """The place of one thread (or round), of those that `axes` count."""
        parts = [f"{name}={value}" for name, value in self.position.items()]
        if thread == _SEVERAL:
            parts.append("several threads or rounds")
        elif axes:
            places = np.unravel_index(thread, [axis.extent for axis in axes])
            pairs = [(axis, int(place)) for axis, place in zip(axes, places)]
            parts += [f"{a.name}={a.first + i}" for a, i in pairs if a.kind is LoopKind.SERIAL]
            threads = ", ".join(str(i) for a, i in pairs if a.kind is LoopKind.THREAD)
            parts += [f"thread {threads}"] if threads else []
        return ", ".join(parts) or "the start"


class _Side:
    """Who accessed each element last, in one way."""

    def __init__(self, size: int) -> None:
        self.block, self.thread, self.phase, self.place = (
            np.full(size, _NOBODY, np.int32) for _ in range(4)
        )

    def clashes(self, at: np.ndarray, thread: np.ndarray, place: Place) -> np.ndarray:
        """Which of the accesses come from a block or thread that no barrier keeps apart."""
        block = self.block[at]
        other_thread = (self.thread[at] != thread) & (self.phase[at] == place.phase)
        return (block != _NOBODY) & ((block != place.block) | other_thread)

    def record(self, at: np.ndarray, thread: np.ndarray, place: Place, number: int) -> None:
        elements, one = at, thread
        if at.size > 1 and not (at[1:] > at[:-1]).all():
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
        self.places: list[tuple[Place, Sequence[Axis]]] = []

    def read(self, at: np.ndarray, thread: np.ndarray, here: Place, axes: Sequence[Axis]) -> None:
        """Threads (by number, as `axes` count them) read elements."""
        self._check(self.writes, at, thread, here, axes, ("read", "written"))
        self.reads.record(at, thread, here, self._number(here, axes))

    def write(
        self,
        at: np.ndarray,
        thread: np.ndarray,
        here: Place,
        axes: Sequence[Axis],
        *,
        atomic: bool = False,
    ) -> None:
        """Threads write elements, or with `atomic` update them; no two write one."""
        done = "updated" if atomic else "written"
        plain = ~self.atomic[at] if atomic else np.ones(at.shape, bool)
        self._check(self.writes, at[plain], thread[plain], here, axes, (done, "written"))
        self._check(self.reads, at, thread, here, axes, (done, "read"))
        self.writes.record(at, thread, here, self._number(here, axes))
        self.atomic[at] = atomic

    def _number(self, here: Place, axes: Sequence[Axis]) -> int:
        self.places.append((here, axes))
        return len(self.places) - 1

    def _check(
        self,
        side: _Side,
        at: np.ndarray,
        thread: np.ndarray,
        here: Place,
        axes: Sequence[Axis],
        words: tuple[str, str],
    ) -> None:
        clashes = side.clashes(at, thread, here)
        if not clashes.any():
            return
        n = int(np.argmax(clashes))
        element = int(at[n])
        before, others = self.places[side.place[element]]
        other = int(side.thread[element])
        raise RaceError(
            f"kernel {self.kernel!r}: element {element} of buffer {self.buffer} is {words[0]} at "
            f"[{here.text(int(thread[n]), axes)}] and {words[1]} at "
            f"[{before.text(other, others)}], and nothing orders the two: put a barrier between "
            f"them, or give each its own elements"
        )
