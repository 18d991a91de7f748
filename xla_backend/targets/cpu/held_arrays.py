"""Which arrays a loop of a program holds in registers.

What a loop carries lies in memory, so each round waits until what the last one stored can be
loaded, and a vector that was stored in pieces, or under a mask, waits for the cache. Arrays of a
few registers that only kernels without long loops touch, at places that are known, and copies of
such, need no memory while the loop runs: it loads them at its beginning and stores them at its end.

Memory is used again for other arrays within a round. So steps are gone through in order, with what
holds the bytes of an array at each: it is held if nobody reads them from memory, or as something
else, where the register has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, memory_type, register_type, vector
from xla_backend.process.lazy import lazy
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.program.ir import (
    Copy,
    Element,
    If,
    KernelOperand,
    Launch,
    Library,
    Program,
    Slice,
    Space,
    Step,
    Steps,
    Undefined,
    While,
    all_steps,
    inner_steps,
    launched_buffers,
    passed_buffers,
)
from xla_backend.program.routines import Kind
from xla_backend.targets.cpu.held_kernels import Buffers, buffers_in_registers
from xla_backend.targets.cpu.routines.contract_table import ROUTINES

# Vector registers of one array, and of all that a loop holds.
_MOST_REGISTERS, _MOST_TOGETHER = 4, 24
# Elements that are handed on one by one.
_MOST_APART = 8
# Registers of arrays that change, some of which may turn out to be memory.
_MOST_CANDIDATES = 32
# Loops inside each other: each is gone through twice for each round of the one around it.
_DEEPEST = 4
_HELD_SPACES = frozenset({Space.ARGUMENT, Space.OUTPUT, Space.TEMP, Space.CONSTANT})
_SIMPLE = (Copy, If, Launch, Library, Undefined, While)


class Place(NamedTuple):
    """An array in memory, whatever its dimensions are."""

    space: Space
    number: int
    offset: int
    type: PrimitiveType
    elements: int

    @property
    def memory_type(self) -> str:
        """As it lies in memory."""
        return vector(memory_type(self.type), self.elements)

    @property
    def register_type(self) -> str:
        """As it is computed with, in as many lanes as the next power of two."""
        return vector(register_type(self.type), self.lanes)

    @property
    def lanes(self) -> int:
        return 1 << (self.elements - 1).bit_length()

    @property
    def size(self) -> int:
        return self.type.byte_size * self.elements

    def overlaps(self, other: Place) -> bool:
        return (
            self.space is other.space
            and self.number == other.number
            and self.offset < other.offset + other.size
            and other.offset < self.offset + self.size
        )


def place_of(slice: Slice) -> Place:
    shape = slice.shape
    return Place(slice.space, slice.number, slice.offset, shape.element_type, shape.num_elements)


class Access(NamedTuple):
    """What a step does with an array. `in_place`: by something that takes it from a register."""

    place: Place
    written: bool
    in_place: bool


@dataclass(frozen=True)
class Held:
    """What a loop holds.

    Fields:
      places: all of it.
      loaded: what is there before the loop and read in it.
      carried: what goes from one round to the next.
      stored: what is in memory after the loop.
      apart: what is read and written one element after another, and handed on so.
    """

    places: frozenset[Place] = frozenset()
    loaded: tuple[Place, ...] = ()
    carried: tuple[Place, ...] = ()
    stored: tuple[Place, ...] = ()
    apart: frozenset[Place] = frozenset()


NOTHING = Held()


class HeldArrays:
    """What the loops of a program hold, for a target."""

    def __init__(self, program: Program, target: TargetInfo) -> None:
        self._program = program
        self._target = target
        self._in_registers: dict[str, Buffers] = {}
        aliases = program.aliases
        self._shared = {(Space.OUTPUT, n) for n in aliases}
        self._shared |= {(Space.ARGUMENT, n) for n in aliases.values()}

    def of_loop(self, loop: While, most_steps: int) -> Held:
        """`most_steps`: of one block of steps in the loop, which is one function then."""
        if self._depths[id(loop)] > _DEEPEST:
            return NOTHING
        for step in all_steps((loop,)):
            if not isinstance(step, _SIMPLE) or _longest_block(step) > most_steps:
                return NOTHING
        in_memory: set[Place] = set()
        accesses = [*self._all_accesses((loop,))]
        candidates = {p for p in {a.place for a in accesses if a.in_place} if self._may_be_held(p)}
        changing = {a.place for a in accesses if a.written} & candidates
        if sum(map(self._registers, changing)) > _MOST_CANDIDATES:
            return NOTHING  # they would not fit; each of them would be compared with all others
        while True:
            walk = _Walk(self, candidates - in_memory)
            found = walk.loop(loop)
            if not walk.conflicts:
                break
            in_memory |= walk.conflicts
        kept = candidates - in_memory
        written = changing & kept
        return self._as_many_as_fit(loop, kept, written, found, walk.read_first)

    def _as_many_as_fit(
        self,
        loop: While,
        kept: set[Place],
        written: set[Place],
        dirty: set[Place],
        read_first: set[Place],
    ) -> Held:
        if not written or sum(map(self._registers, kept)) > _MOST_TOGETHER:
            # What does not change is read from memory as quickly as from a spilled register.
            kept = written
        if not written or sum(map(self._registers, kept)) > _MOST_TOGETHER:
            return NOTHING
        stored = {
            p
            for p in dirty & kept
            if p.space is not Space.TEMP or p in read_first or self._is_read_outside(loop, p)
        }
        carried = written & (read_first | stored)
        order = lambda places: tuple(sorted(places, key=_order))
        loaded = (read_first | carried) & kept
        together = set(self._vectors(loop))
        few = {p for p in kept if 1 < p.elements <= _MOST_APART}
        return Held(
            frozenset(kept), order(loaded), order(carried), order(stored), frozenset(few - together)
        )

    def _vectors(self, loop: While) -> Iterator[Place]:
        """What a loop reads or writes as vectors."""
        for step in all_steps((loop,)):
            if isinstance(step, Launch):
                kernel = self._program.kernels[step.kernel]
                vectors = self.in_registers(kernel).vectors
                for buffer, slice in zip(launched_buffers(kernel), step.buffers):
                    if buffer in vectors:
                        yield place_of(slice)

    def written(self, steps: Steps, held: Held) -> list[Place]:
        """The held arrays that some steps write, in an order that is the same in all runs."""
        found = {a.place for a in self._all_accesses(steps) if a.written}
        return sorted(found & held.places, key=_order)

    # -- what may be held --------------------------------------------------------------------------

    def _registers(self, place: Place) -> int:
        bits = max(
            8, bits_of(place.register_type)
        )  # what is done to lanes takes wider ones than i1
        return -(-place.lanes * bits // self._target.vector_bits)

    def _may_be_held(self, place: Place) -> bool:
        return (
            place.space in _HELD_SPACES
            and (place.space, place.number) not in self._shared
            and 0 < place.elements
            and not place.type.is_complex
            and place.type.bits >= 8
            and self._registers(place) <= _MOST_REGISTERS
        )

    # -- accesses ----------------------------------------------------------------------------------

    def _all_accesses(self, steps: Steps) -> Iterator[Access]:
        for step in all_steps(steps):
            yield from self.accesses(step)

    def _is_read_outside(self, loop: While, place: Place) -> bool:
        """Whether steps that are not in a loop read, at least partly, what lies in TEMP there."""
        starts, ends, numbers = self._temp_reads
        first = self._numbers[id(loop)]
        behind = first + sum(1 for _ in all_steps((loop,)))
        overlaps = (starts < place.offset + place.size) & (place.offset < ends)
        return bool((overlaps & ((numbers < first) | (behind <= numbers))).any())

    @lazy
    def _numbers(self) -> dict[int, int]:
        """Of all steps, outer before inner."""
        return {id(step): number for number, step in enumerate(self._all_steps())}

    @lazy
    def _depths(self) -> dict[int, int]:
        """How many loops there are inside each other from a step on."""
        depths: dict[int, int] = {}
        for step in reversed([*self._all_steps()]):
            inner = [depths[id(s)] for steps in inner_steps(step) for s in steps]
            depths[id(step)] = max(inner, default=0) + isinstance(step, While)
        return depths

    @lazy
    def _temp_reads(self) -> np.ndarray:
        """Where what is read of TEMP begins, where it ends, and the number of the step."""
        rows = [
            (place.offset, place.offset + place.size, number)
            for number, step in enumerate(self._all_steps())
            for place in self._read_by(step)
            if place.space is Space.TEMP
        ]
        return np.array(rows, np.int64).reshape(-1, 3).T

    def _read_by(self, step: Step) -> Iterator[Place]:
        if isinstance(step, While):
            yield place_of(step.predicate)
        yield from (access.place for access in self.accesses(step) if not access.written)

    def _all_steps(self) -> Iterator[Step]:
        for steps in (self._program.steps, *self._program.procedures.values()):
            yield from all_steps(steps)

    def accesses(self, step: Step) -> Iterator[Access]:
        """What a step itself reads and then writes."""
        kernels = self._program.kernels
        if isinstance(step, Copy):
            source, target = place_of(step.source), place_of(step.target)
            same = (source.type, source.elements) == (target.type, target.elements)
            yield Access(source, False, same)
            yield Access(target, True, same)
        elif isinstance(step, Launch):
            yield from self._of_launch(step, kernels[step.kernel])
        elif isinstance(step, While):
            return  # its predicate is read behind the condition
        elif isinstance(step, If):
            yield Access(place_of(step.selector), False, True)
        elif isinstance(step, Library):
            for operand, parameter in zip(step.operands, ROUTINES[step.routine].parameters):
                if isinstance(operand, KernelOperand):
                    kernel = kernels[operand.kernel]
                    yield from _in_memory(kernel, passed_buffers(kernel), operand.buffers)
                elif isinstance(operand, Slice | Element):
                    place = place_of(operand if isinstance(operand, Slice) else operand.slice)
                    if parameter.kind in (Kind.READ, Kind.UPDATE):
                        yield Access(place, False, False)
                    if parameter.kind is not Kind.READ:
                        yield Access(place, True, False)
        elif not isinstance(step, Undefined):
            for slice in (*getattr(step, "operands", ()), *getattr(step, "results", ())):
                yield Access(place_of(slice), False, False)

    def _of_launch(self, step: Launch, kernel: Kernel) -> Iterator[Access]:
        buffers = launched_buffers(kernel)
        held = self.in_registers(kernel).known
        places = [place_of(slice) for slice in step.buffers]
        for buffer, place in zip(buffers, places):
            updated = buffer.role is BufferRole.OUTPUT and buffer.number in kernel.in_place
            if buffer.role is BufferRole.OPERAND or updated:
                yield Access(place, False, buffer in held)
        for buffer, place in zip(buffers, places):
            if buffer.role is not BufferRole.OPERAND:
                yield Access(place, True, buffer in held)

    def in_registers(self, kernel: Kernel) -> Buffers:
        """The buffers of a kernel that can be registers."""
        found = self._in_registers.get(kernel.name)
        if found is None:
            found = self._in_registers[kernel.name] = buffers_in_registers(kernel)
        return found


def _in_memory(
    kernel: Kernel, buffers: list[Buffer], slices: tuple[Slice, ...]
) -> Iterator[Access]:
    for buffer, slice in zip(buffers, slices):
        if buffer.role is BufferRole.OPERAND or buffer.number in kernel.in_place:
            yield Access(place_of(slice), False, False)
        if buffer.role is not BufferRole.OPERAND:
            yield Access(place_of(slice), True, False)


def _longest_block(step: Step) -> int:
    if isinstance(step, While):
        return max(len(step.condition), len(step.body))
    return max(map(len, step.branches)) if isinstance(step, If) else 0


def _order(place: Place) -> tuple:
    return place.space.value, place.number, place.offset, place.type.value, place.elements


@dataclass
class _State:
    """At one step of a loop: whose bytes were overwritten as something else since the register was
    set, for whom memory is out of date, and who has been written in this round."""

    stale: set[Place] = field(default_factory=set)
    dirty: set[Place] = field(default_factory=set)
    written: set[Place] = field(default_factory=set)

    def copy(self) -> _State:
        return _State(set(self.stale), set(self.dirty), set(self.written))

    def join(self, other: _State) -> None:
        """Whichever of two ways was taken."""
        self.stale |= other.stale
        self.dirty |= other.dirty
        self.written &= other.written


class _Walk:
    """Goes through the steps of a loop with some arrays in registers. `conflicts`: those that must
    not be; `read_first`: those that are read in a round before they are written in it."""

    def __init__(self, arrays: HeldArrays, held: set[Place]) -> None:
        self._arrays = arrays
        self._held = held
        self._near: dict[Place, list[Place]] = {}
        self._state = _State()
        self.conflicts: set[Place] = set()
        self.read_first: set[Place] = set()

    def loop(self, loop: While) -> set[Place]:
        """Twice round: what the second round does to what the first one left. Returns what is newer
        in registers than in memory behind the loop."""
        self._steps(loop.condition)
        self._read(place_of(loop.predicate), True)
        end = self._state.copy()
        for _ in range(2):
            self._steps(loop.body)
            self._steps(loop.condition)
            self._read(place_of(loop.predicate), True)
            end.join(self._state)
        self.conflicts |= end.dirty & end.stale
        self._state = end
        return end.dirty

    def _steps(self, steps: Steps) -> None:
        for step in steps:
            for access in self._arrays.accesses(step):
                if access.written:
                    self._write(access.place, access.in_place)
                else:
                    self._read(access.place, access.in_place)
            if isinstance(step, While):
                self.loop(step)
            elif isinstance(step, If):
                before, ends = self._state, []
                for branch in step.branches:
                    self._state = before.copy()
                    self._steps(branch)
                    ends.append(self._state)
                self._state = ends[0]
                for end in ends[1:]:
                    self._state.join(end)

    def _around(self, place: Place) -> list[Place]:
        """The held arrays that lie, at least partly, in the same bytes."""
        found = self._near.get(place)
        if found is None:
            found = self._near[place] = [p for p in self._held if p.overlaps(place)]
        return found

    def _read(self, place: Place, in_place: bool) -> None:
        state = self._state
        if in_place and place in self._held:
            if place in state.stale:
                self.conflicts.add(place)
            if place not in state.written:
                self.read_first.add(place)
            return
        self.conflicts.update(p for p in self._around(place) if p in state.dirty)

    def _write(self, place: Place, in_place: bool) -> None:
        state = self._state
        held = in_place and place in self._held
        for other in self._around(place):
            if not held or other != place:
                state.stale.add(other)
                state.dirty.discard(other)
        if held:
            state.stale.discard(place)
            state.dirty.add(place)
            state.written.add(place)
