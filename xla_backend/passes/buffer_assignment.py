"""Buffer assignment: every array of a scheduled module gets a place in memory.

A place is a parameter's or an output's own memory, a constant, or a stretch of one temporary arena.
The arena is packed by live range: best fit over the time line that buffer_values lays through
nested computations, so bodies of loops and sibling branches use the arena of their caller.
"""

from __future__ import annotations

import bisect
import enum

import numpy as np

from xla_backend.hlo.attributes import ConstantAttributes, FusionAttributes, FusionKind
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.buffer_values import BufferSet, BufferValues, values_of
from xla_backend.passes.fusion_records import epilogue_record
from xla_backend.process.light_dataclasses import dataclass, field

ALIGNMENT = 64


class BufferKind(enum.Enum):
    """Whose memory a slice is."""

    PARAMETER = "parameter"
    OUTPUT = "output"
    TEMP = "temp"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """Where an array lies. Two arrays share memory iff their slices are equal or, for TEMP,
    overlap.

    Fields:
      kind: whose memory.
      index: flat entry parameter leaf, flat output leaf, constant number; 0 for TEMP.
      offset: bytes from the arena's start (a multiple of 64) for TEMP, else 0.
      size: bytes.
    """

    kind: BufferKind
    index: int
    offset: int
    size: int

    def __str__(self) -> str:
        if self.kind is BufferKind.TEMP:
            return f"temp[{self.offset}:{self.offset + self.size}]"
        return f"{self.kind.value} {self.index}"


@dataclass(slots=True)
class BufferAssignment:
    """Slices of all array leaves.

    Fields:
      temp_size: bytes of arena an execution needs.
      constants: arrays of the CONSTANT slices, by number.
      aliases: output leaf -> parameter leaf that is the same memory (such slices have kind
      PARAMETER).
    """

    temp_size: int = 0
    constants: list[np.ndarray] = field(default_factory=list)
    aliases: dict[int, int] = field(default_factory=dict)
    slices: dict[Instruction, tuple[BufferSlice | None, ...]] = field(default_factory=dict)

    def leaf_slices(self, instruction: Instruction) -> tuple[BufferSlice | None, ...]:
        """Slices of all leaves in flat order; None for tokens."""
        return self.slices[instruction]

    def to_text(self) -> str:
        """One line per instruction, in time order."""
        lines = [f"temp arena: {self.temp_size} bytes, {len(self.constants)} constants"]
        lines += [f"output {o} is parameter {p}" for o, p in sorted(self.aliases.items())]
        for instruction, leaves in self.slices.items():
            places = ", ".join("-" if s is None else str(s) for s in leaves)
            lines.append(f"%{instruction.name} {instruction.shape}: {places}")
        return "\n".join(lines) + "\n"


def assign_buffers(module: HloModule) -> BufferAssignment:
    """Assign every array of a scheduled module with copies inserted.

    Raises:
      HloError: the module needs copies that are not there (run CopyInsertion first).
    """
    if not module.is_scheduled:
        raise HloError(
            f"module {module.name!r} has no schedule: run the scheduler before buffer assignment"
        )
    analysis = values_of(module)
    if analysis.conflicts:
        raise HloError(
            f"module {module.name!r} lacks copies ({analysis.conflicts[0]}): "
            "run copy-insertion first"
        )
    _reuse_dying_operands(analysis)
    assignment = BufferAssignment()
    places = _place_buffers(analysis, assignment)
    by_view: dict[BufferSet, BufferSlice] = places
    for instruction, leaves in analysis.leaves.items():
        assignment.slices[instruction] = tuple(
            None if view is None else by_view[view.value.buffer] for view in leaves
        )
    analysis.release()
    return assignment


def _reuse_dying_operands(analysis: BufferValues) -> None:
    """Let elementwise fusions write over an operand of equal size that nobody reads afterwards, so
    that what leads to an output is computed in the output's memory."""
    for node, leaves in analysis.leaves.items():
        if node.opcode is not Opcode.FUSION:
            continue
        linear = _reusable_operands(analysis, node)
        if not linear:
            continue
        for view in leaves:
            if view is None:
                continue
            for number in linear:
                operand = analysis.leaves[node.operands[number]][0]
                if operand is None or operand.value.size != view.value.size:
                    continue
                if (
                    operand.value.buffer.parameter is None
                    and operand.value.buffer is not view.value.buffer
                ):
                    if analysis.unite(operand.value, view.value):
                        break


def _reusable_operands(analysis: BufferValues, fusion: Instruction) -> frozenset[int]:
    """Operands of a fusion whose memory is as good for a result as any other."""
    assert isinstance(fusion.attributes, FusionAttributes)
    if fusion.attributes.kind is FusionKind.LOOP:
        return analysis.rules.linear_parameters(fusion)
    if fusion.attributes.kind is FusionKind.OUTPUT:
        # Elsewhere a product is formed where its result goes, which must not be an operand.
        number = epilogue_record(fusion).adds_to
        return frozenset() if number is None else frozenset({number})
    return frozenset()


def _place_buffers(
    analysis: BufferValues, assignment: BufferAssignment
) -> dict[BufferSet, BufferSlice]:
    places: dict[BufferSet, BufferSlice] = {}
    temps: list[BufferSet] = []
    constants: dict[Literal, BufferSlice] = {}
    for value in analysis.values:
        buffer = value.buffer
        if buffer in places:
            continue
        if buffer.parameter is not None:
            if buffer.output is not None:
                assignment.aliases[buffer.output] = buffer.parameter
            places[buffer] = BufferSlice(BufferKind.PARAMETER, buffer.parameter, 0, buffer.size)
        elif buffer.constant:
            attributes = value.instruction.attributes
            assert isinstance(attributes, ConstantAttributes)
            literal = attributes.literal
            place = constants.get(literal)
            if place is None:
                place = BufferSlice(BufferKind.CONSTANT, len(assignment.constants), 0, buffer.size)
                constants[literal] = place
                assignment.constants.append(literal.array)
            places[buffer] = place
        elif buffer.output is not None:
            places[buffer] = BufferSlice(BufferKind.OUTPUT, buffer.output, 0, buffer.size)
        else:
            temps.append(buffer)
            places[buffer] = BufferSlice(BufferKind.TEMP, 0, 0, buffer.size)
    arena = _Arena()
    for buffer, offset in arena.pack(temps):
        places[buffer] = BufferSlice(BufferKind.TEMP, 0, offset, buffer.size)
    assignment.temp_size = arena.size
    return places


class _Arena:
    """Best-fit packing of buffers with live ranges, along time."""

    def __init__(self) -> None:
        self.size = 0
        # Free stretches, never adjacent, twice: (offset, size) by offset and the other way round.
        self._by_offset: list[tuple[int, int]] = []
        self._by_size: list[tuple[int, int]] = []

    def pack(self, buffers: list[BufferSet]) -> list[tuple[BufferSet, int]]:
        events: list[tuple[int, int, int]] = []
        for i, buffer in enumerate(buffers):
            # A buffer is still read at its end, so one that starts there may not have its place:
            # allocations come before releases of the same time.
            events.append((buffer.start, 0, i))
            events.append((buffer.end, 1, i))
        events.sort()
        offsets: dict[int, tuple[int, int]] = {}
        for _, kind, i in events:
            if kind == 0:
                size = -(-buffers[i].size // ALIGNMENT) * ALIGNMENT
                offsets[i] = (self._allocate(size), size)
            else:
                self._release(*offsets[i])
        return [(buffer, offsets[i][0]) for i, buffer in enumerate(buffers)]

    def _allocate(self, size: int) -> int:
        if size == 0:
            return 0
        best = bisect.bisect_left(self._by_size, (size, 0))
        if best < len(self._by_size):
            free, offset = self._by_size[best]
            self._remove(offset, free)
            if free > size:
                self._insert(offset + size, free - size)
            return offset
        offset = self.size
        if self._by_offset and sum(self._by_offset[-1]) == self.size:
            # Grow the free stretch at the end.
            offset, free = self._by_offset[-1]
            self._remove(offset, free)
        self.size = offset + size
        return offset

    def _release(self, offset: int, size: int) -> None:
        if size == 0:
            return
        free = self._by_offset
        i = bisect.bisect_left(free, (offset, 0))
        if i < len(free) and free[i][0] == offset + size:
            following = free[i][1]
            self._remove(offset + size, following)
            size += following
        if i > 0 and sum(free[i - 1]) == offset:
            offset, before = free[i - 1]
            self._remove(offset, before)
            size += before
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        bisect.insort(self._by_offset, (offset, size))
        bisect.insort(self._by_size, (size, offset))

    def _remove(self, offset: int, size: int) -> None:
        del self._by_offset[bisect.bisect_left(self._by_offset, (offset, size))]
        del self._by_size[bisect.bisect_left(self._by_size, (size, offset))]
