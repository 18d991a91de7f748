"""Where the memory of a program lies on a device: each slice is a base, which differs from run to
run, and an offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.program.ir import CONTEXT_SIZE, Program, Slice, Space, aligned, offsets_of
from xla_backend.targets.gpu.cuda.collective_plans import collectives_of, scratch_bytes


class Place(NamedTuple):
    """The address `bases[base] + offset` of a run."""

    base: int
    offset: int

    def address(self, bases: Sequence[int]) -> int:
        return bases[self.base] + self.offset


class Layout:
    """Which base each slice of a program has. In order: the arguments, the outputs, the arena of
    one run (temporaries, scratch, the stack, what collectives need), the constants, the state, the
    context.

    Fields:
      arena_size, constants_size, state_size: bytes of these.
      exchange: where collectives may work, one after another.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        arguments, outputs = len(program.parameters), len(program.outputs)
        self._first_output = arguments
        self.arena, self.constants, self.state, self.context = range(
            arguments + outputs, arguments + outputs + 4
        )
        *self.constant_offsets, self.constants_size = offsets_of(program.constants)
        *self.state_offsets, self.state_size = program.state_offsets
        self._stack_offsets = []
        end = aligned(program.arena_size)
        for size in program.stack:
            self._stack_offsets.append(end)
            end += aligned(size)
        self.exchange = Place(self.arena, end)
        self.arena_size = end + max(map(scratch_bytes, collectives_of(program)), default=0)

    def place(self, where: Slice) -> Place:
        """Where a slice is. (An output that has an argument's memory has the same base value.)"""
        return self.at(where.space, where.number, where.offset)

    def at(self, space: Space, number: int, offset: int = 0) -> Place:
        """Where a piece of memory is."""
        match space:
            case Space.ARGUMENT:
                return Place(number, offset)
            case Space.OUTPUT:
                return Place(self._first_output + number, offset)
            case Space.TEMP:
                return Place(self.arena, offset)
            case Space.SCRATCH:
                return Place(self.arena, aligned(self._program.temp_size) + offset)
            case Space.STACK:
                return Place(self.arena, self._stack_offsets[number] + offset)
            case Space.CONSTANT:
                return Place(self.constants, self.constant_offsets[number] + offset)
            case Space.STATE:
                return Place(self.state, self.state_offsets[number] + offset)
            case Space.CONTEXT:
                assert offset < CONTEXT_SIZE
                return Place(self.context, offset)
