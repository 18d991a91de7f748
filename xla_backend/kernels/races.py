"""Finds accesses to one place in memory that need an order and have none: from two blocks of a
grid, from two threads of a block without a barrier between them, or from two rounds of a loop that
says that its rounds are independent; one or both of them writes. The buffers that they go through
may be two, which share memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple, NoReturn

import numpy as np

from xla_backend.kernels.handovers import Knowledge
from xla_backend.kernels.ir import Buffer, BufferRole, LoopKind

_INPUTS = frozenset({BufferRole.OPERAND, BufferRole.CONSTANT})
# Who does something is one number: that of the thread within its block, and above it the block's.
THREAD_BITS = 20
_SEVERAL_THREADS = (1 << THREAD_BITS) - 1  # as the thread
_SEVERAL_BLOCKS = 1 << 62  # one of them is below
_NOBODY = -1
# What must not have been done to a unit by somebody else when something is done to it.
_CLASHING = {
    "read": ("written", "updated"),
    "written": ("written", "updated", "read"),
    "updated": ("written", "read"),
}


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
    blocks, of threads, of lanes, or serial with independent rounds."""

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

    def units(self, elements: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The units of elements, and who accesses each."""
        n = self.per_element
        if n == 1:
            return elements + self.first if self.first else elements, who
        units = (elements * n + self.first)[:, None] + np.arange(n)
        return units.reshape(-1), who.repeat(n)

    def element(self, unit: int) -> str:
        element = (unit - self.first) // self.per_element
        if not self.buffer.role.is_global:
            element %= self.buffer.size  # of any block
        return f"element {element} of buffer {self.buffer.name}"


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


class Access(NamedTuple):
    """What a statement accesses, the loop variables with one value there, what runs in lockstep
    around it, and its number among the accesses of a grid."""

    region: Region
    position: dict[str, int]
    axes: tuple[Axis, ...]
    number: int = 0


def text_of(who: int, position: Mapping[str, int], axes: Sequence[Axis]) -> str:
    """The place of one thread (or round) of a block, of those that `axes` count."""
    block, thread = divmod(who % _SEVERAL_BLOCKS, 1 << THREAD_BITS)
    parts = [f"{axis.name}={block}" for axis in axes if axis.kind is LoopKind.GRID]
    parts += [f"{name}={value}" for name, value in position.items()]
    inner = [axis for axis in axes if axis.kind not in (LoopKind.GRID, LoopKind.LANES)]
    if thread == _SEVERAL_THREADS:
        parts.append("several threads or rounds")
    elif inner:
        places = np.unravel_index(thread, [axis.extent for axis in inner])
        pairs = [(axis, int(place)) for axis, place in zip(inner, places)]
        parts += [f"{a.name}={a.first + i}" for a, i in pairs if a.kind is LoopKind.SERIAL]
        threads = ", ".join(str(i) for a, i in pairs if a.kind is LoopKind.THREAD)
        parts += [f"thread {threads}"] if threads else []
    if who >= _SEVERAL_BLOCKS:
        parts.append("and other blocks")
    return ", ".join(parts) or "the start"


class _Side:
    """Who accessed each unit last, in one way."""

    def __init__(self, size: int) -> None:
        self.who = np.full(size, _NOBODY, np.int64)
        self.phase = np.zeros(size, np.int32)
        self.number = np.zeros(size, np.int32)  # of what is known of the access

    def clashes(
        self, place: slice | np.ndarray, who: np.ndarray, phase: int | np.ndarray
    ) -> np.ndarray | None:
        """Which accesses come from a block or thread that no barrier keeps apart; None: none."""
        before = self.who[place]
        other = (before != who) & (before != _NOBODY)
        if not other.any():
            return None
        other &= (self.phase[place] == phase) | ((before ^ who) >> THREAD_BITS != 0)
        return other if other.any() else None

    def record(
        self,
        at: np.ndarray,
        place: slice | np.ndarray,
        who: np.ndarray,
        phase: int | np.ndarray,
        number: int,
        distinct: bool,
        later: np.ndarray | None,
    ) -> None:
        """Units are accessed: `place` is where they are, `distinct` whether they all are. `later`:
        which accesses come after the last one, known to be so."""
        before = self.who[place]
        known = (before != _NOBODY) & (before != who)
        if later is not None:
            known &= ~later
        again = np.flatnonzero(known) if known.any() else None
        units = at[:0] if again is None else at[again]
        phase_before, number_before = self.phase[units], self.number[units]
        self.who[place] = who
        self.phase[place] = phase
        self.number[place] = number
        if not distinct:
            last = self.who[place]
            mixed = np.flatnonzero(last != who)
            if mixed.size:
                self._join(at[mixed], who[mixed], last[mixed], True)
        if again is not None:
            same_phase = phase_before == (phase if isinstance(phase, int) else phase[again])
            far = self._join(units, who[again], before[again], same_phase)
            # Of several blocks the first is remembered: the last may be the one that clashes.
            self.number[units[far]] = number_before[far]

    def _join(
        self, at: np.ndarray, who: np.ndarray, other: np.ndarray, same_phase: bool | np.ndarray
    ) -> np.ndarray:
        """Remember that two accessed a unit, unless a barrier is between them; whether they are of
        two blocks."""
        far = (who ^ other) >> THREAD_BITS != 0
        near = ~far & same_phase
        self.who[at[near]] |= _SEVERAL_THREADS
        self.who[at[far]] = other[far] | _SEVERAL_BLOCKS
        return far


class AccessLog:
    """The accesses to one piece of memory since all threads were last together."""

    def __init__(self, kernel: str, size: int, knowledge: Knowledge) -> None:
        """`knowledge`: what threads know of those of other blocks."""
        self.kernel = kernel
        self.size = size
        self._knowledge = knowledge
        self._sides: dict[str, _Side] = {}  # by what was done
        self._accesses: list[Access] = []

    def log(
        self,
        how: str,
        elements: np.ndarray,
        who: np.ndarray,
        phase: int | np.ndarray,
        access: Access,
    ) -> None:
        """Somebody has "read", "written" or "updated" each of some elements of a buffer; those
        written are distinct. `phase`: the number of barriers since the block of each began.

        Raises:
          RaceError: something else has been done to one of them, and nothing orders the two.
        """
        at, who = access.region.units(elements, who)
        if not isinstance(phase, int) and at.size > phase.size:
            phase = phase.repeat(access.region.per_element)
        in_order = rising(at)
        near = in_order and int(at[-1]) - int(at[0]) == at.size - 1
        place = slice(int(at[0]), int(at[-1]) + 1) if near else at  # a slice is quicker by far
        for done in _CLASHING[how]:
            side = self._sides.get(done)
            clashes = None if side is None else side.clashes(place, who, phase)
            if side is None or clashes is None:
                continue
            unknown = self._unknown(side, at, who, clashes)
            if unknown.any():
                n = int(np.argmax(unknown))
                self._fail(how, done, int(at[n]), int(who[n]), access)
        side = self._sides.get(how)
        if side is None:
            side = self._sides[how] = _Side(self.size)
        self._accesses.append(access)
        distinct = in_order or how == "written"
        later = None
        if self._knowledge.in_use:
            # Who knows of this access knows of those that are known here.
            before = side.who[place]
            far = (before != _NOBODY) & ((before ^ who) >> THREAD_BITS != 0)
            later = far & ~self._unknown(side, at, who, far)
        side.record(at, place, who, phase, len(self._accesses) - 1, distinct, later)

    def _unknown(
        self, side: _Side, at: np.ndarray, who: np.ndarray, clashes: np.ndarray
    ) -> np.ndarray:
        """Which of some accesses are made by threads that do not know of those before."""
        if not self._knowledge.in_use:
            return clashes
        unknown = clashes.copy()
        for n in np.flatnonzero(clashes):
            number, other = side.number[at[n]], int(side.who[at[n]])
            if other < _SEVERAL_BLOCKS and self._knowledge.comes_before(
                other, self._accesses[number].number, int(who[n])
            ):
                unknown[n] = False
        return unknown

    def forget(self, how: str, units: np.ndarray) -> None:
        """Everybody comes after what was done to these."""
        side = self._sides.get(how)
        if side is not None:
            side.who[units] = _NOBODY

    def _fail(self, how: str, done: str, unit: int, who: int, access: Access) -> NoReturn:
        side = self._sides[done]
        before = self._accesses[side.number[unit]]
        here = text_of(who, access.position, access.axes)
        there = text_of(int(side.who[unit]), before.position, before.axes)
        same = before.region.buffer is access.region.buffer
        other = "" if same else f" as {before.region.element(unit)}"
        raise RaceError(
            f"kernel {self.kernel!r}: {access.region.element(unit)} is {how} at [{here}] and "
            f"{done}{other} at [{there}], and nothing orders the two: put a barrier between them, "
            f"or give each its own elements"
        )


def rising(at: np.ndarray) -> bool:
    """Whether numbers are in order, and so all different: cheaper to find out than the latter."""
    return at.size < 2 or bool((at[1:] > at[:-1]).all())
