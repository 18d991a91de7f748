"""The machine code of a program with all that running it takes, and nothing of how it was made:
what can be kept on disk and linked into another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Topology
from xla_backend.llvm.jit import Address, Library
from xla_backend.llvm.target import TargetInfo
from xla_backend.measured_costs import Costs
from xla_backend.program.ir import Host, Program, aligned, offsets_of
from xla_backend.runtime.custom_calls import HostCall
from xla_backend.runtime.host_functions import host_function
from xla_backend.targets.cpu.emit_program import TIMES_BYTES, EmittedProgram, host_call_symbol
from xla_backend.targets.cpu.meeting_places import Meetings
from xla_backend.targets.cpu.routines.library import kernel_library

# A constant and the symbol that the code knows it by.
BoundConstant = tuple[str, np.ndarray]


class CodeFacts(Value):
    """What code does not say itself.

    Fields:
      parameters, outputs, aliases, uses_context: as in executables.
      temp_size: bytes of the arena.  state: what the program keeps for each device, at first.
      constants: those that are bound by address.  host_calls, routines: what it calls.
      cycles: estimate of one execution.  held_bytes: estimate of what an executable takes.
      timed: kernels whose times a run puts at the end of the arena.  measured: costs that the code
        was made with.  topology, meetings: its participants, and where they meet.
    """

    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    aliases: tuple[tuple[int, int], ...]
    uses_context: bool
    temp_size: int
    state: tuple[np.ndarray, ...]
    constants: tuple[BoundConstant, ...]
    host_calls: tuple[Host, ...]
    routines: tuple[str, ...]
    cycles: float
    held_bytes: int
    timed: tuple[str, ...]
    measured: Costs
    topology: Topology
    meetings: Meetings

    @property
    def state_offsets(self) -> tuple[int, ...]:
        """Where each array of the state begins, and where it ends."""
        return offsets_of(self.state)


class ProgramCode(NamedTuple):
    """Facts and object code of a program."""

    facts: CodeFacts
    objects: Sequence[bytes]


def program_code(
    program: Program,
    emitted: EmittedProgram,
    objects: Sequence[bytes],
    text_size: int,
    measured: Costs,
) -> ProgramCode:
    """The code of a program that was emitted. `text_size`: of its LLVM text. `measured`: costs that
    it was made with."""
    times = TIMES_BYTES * len(emitted.timed)
    routines = [n for n in emitted.kernels.module.declarations if n.startswith("pyjax_")]
    constants = sum(data.nbytes for data in program.constants)
    facts = CodeFacts(
        program.parameters,
        program.outputs,
        tuple(program.aliases.items()),
        program.uses_context,
        aligned(program.arena_size) + times if times else program.arena_size,
        program.state,
        tuple((symbol, program.constants[n]) for symbol, n in emitted.bound_constants.items()),
        tuple(emitted.host_calls),
        tuple(routines),
        emitted.cycles,
        # As measured: the objects that stages are shown from take six bytes per byte of LLVM text.
        (1 << 16) + 6 * text_size + 2 * sum(map(len, objects)) + constants,
        emitted.timed,
        measured,
        program.topology,
        emitted.meetings,
    )
    return ProgramCode(facts, objects)


def link(
    code: ProgramCode, target: TargetInfo, fast_math: tuple[str, ...], threads: int | None
) -> Library:
    """The code in this process. `threads`: the most that it uses; None: as many as the pool has.

    Raises:
      UnimplementedError: no function is registered for a custom call.
    """
    facts = code.facts
    available = kernel_library(target, fast_math, threads)
    addresses: dict[str, int] = {name: available[name] for name in facts.routines}
    for symbol, array in facts.constants:
        addresses[symbol] = Address(array.ctypes.data, array)
    calls = [_host_call(step) for step in facts.host_calls]
    for index, call in enumerate(calls):
        addresses[host_call_symbol(index)] = call.number
    return Library(code.objects, addresses, keep=calls)


def _host_call(step: Host) -> HostCall:
    operands, results = ([s.shape for s in part] for part in (step.operands, step.results))
    return HostCall(host_function(step.target), operands, results, step.attributes)
