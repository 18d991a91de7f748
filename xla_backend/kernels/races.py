"""Finds accesses to one place in memory that need an order and have none: from two blocks of a
grid, from two threads of a block without a barrier between them, or from two rounds of a loop that
says that its rounds are independent; one or both of them writes. The buffers that they go through
may be two, which share memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind

_INPUTS = frozenset({BufferRole.OPERAND, BufferRole.CONSTANT})
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


class Region(NamedTuple):
    """A buffer's part of a piece of memory. Accesses are counted in units of that, of which an
    element of the buffer has `per_element`; its first one is number `first` of the `size` that
    there are. `memory`: a buffer that stands for the piece. Memory that is only read has no races.
    """

    buffer: Buffer
    memory: Buffer
    first: int
    per_element: int
    size: int
    is_written: bool

    def units(self, elements: np.ndarray, thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The units of elements, and the thread of each."""
        n = self.per_element
        if n == 1:
            return elements + self.first if self.first else elements, thread
        units = (elements * n + self.first)[:, None] + np.arange(n)
        return units.reshape(-1), thread.repeat(n)

    def element(self, unit: int) -> str:
        return f"element {(unit - self.first) // self.per_element} of buffer {self.buffer.name}"


def regions_of(arrays: Mapping[Buffer, np.ndarray]) -> dict[Buffer, Region]:
    """Where buffers lie, by the addresses of their arrays."""
    spans = []
    for buffer, array in arrays.items():
        if array.size:
            start = array.__array_interface__["data"][0]
            spans.append((start, start + array.nbytes, buffer))
    spans.sort(key=lambda span: span[0])
    found: dict[Buffer, Region] = {}
    piece: list[tuple[int, int, Buffer]] = []
    end = 0
    for span in spans:
        if span[0] >= end:
            found.update(_regions_in(piece))
            piece = []
        end = max(end, span[1])
        piece.append(span)
    found.update(_regions_in(piece))
    return found


def _regions_in(piece: Sequence[tuple[int, int, Buffer]]) -> Iterator[tuple[Buffer, Region]]:
    """The regions of buffers that lie in one piece of memory."""
    if not piece:
        return
    origin, memory = piece[0][0], piece[0][2]
    end = max(stop for _, stop, _ in piece)
    sizes = [buffer.element_type.byte_size for _, _, buffer in piece]
    unit = gcd(*sizes, *(start - origin for start, _, _ in piece))
    is_written = any(buffer.role not in _INPUTS for _, _, buffer in piece)
    for (start, _, buffer), size in zip(piece, sizes):
        first, count = (start - origin) // unit, (end - origin) // unit
        yield buffer, Region(buffer, memory, first, size // unit, count, is_written)


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


class Access(NamedTuple):
    """What is accessed by a statement, where execution is, and how its threads are counted."""

    region: Region
    place: Place
    axes: Sequence[Axis]


class AccessLog:
    """The accesses to one piece of memory since all threads were last together."""

    def __init__(self, kernel: str, size: int) -> None:
        self.kernel = kernel
        self.reads, self.writes = _Side(size), _Side(size)
        self.atomic = np.zeros(size, bool)
        self.accesses: list[Access] = []

    def read(self, elements: np.ndarray, thread: np.ndarray, access: Access) -> None:
        """Threads (by number) read elements of a buffer."""
        at, thread = access.region.units(elements, thread)
        self._check(self.writes, at, thread, access, ("read", "written"))
        self.reads.record(at, thread, access.place, self._number(access))

    def write(
        self, elements: np.ndarray, thread: np.ndarray, access: Access, *, atomic: bool = False
    ) -> None:
        """Threads write elements, or with `atomic` update them; no two write one."""
        at, thread = access.region.units(elements, thread)
        done = "updated" if atomic else "written"
        plain = ~self.atomic[at] if atomic else np.ones(at.shape, bool)
        self._check(self.writes, at[plain], thread[plain], access, (done, "written"))
        self._check(self.reads, at, thread, access, (done, "read"))
        self.writes.record(at, thread, access.place, self._number(access))
        self.atomic[at] = atomic

    def _number(self, access: Access) -> int:
        self.accesses.append(access)
        return len(self.accesses) - 1

    def _check(
        self,
        side: _Side,
        at: np.ndarray,
        thread: np.ndarray,
        access: Access,
        words: tuple[str, str],
    ) -> None:
        clashes = side.clashes(at, thread, access.place)
        if not clashes.any():
            return
        n = int(np.argmax(clashes))
        unit = int(at[n])
        before = self.accesses[side.place[unit]]
        here = access.place.text(int(thread[n]), access.axes)
        there = before.place.text(int(side.thread[unit]), before.axes)
        same = before.region.buffer is access.region.buffer
        other = "" if same else f" as {before.region.element(unit)}"
        raise RaceError(
            f"kernel {self.kernel!r}: {access.region.element(unit)} is {words[0]} at [{here}] and "
            f"{words[1]}{other} at [{there}], and nothing orders the two: put a barrier between "
            f"them, or give each its own elements"
        )
