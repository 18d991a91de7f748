"""The machine code of a program with all that running it takes, and nothing of how it was made:
what can be kept on disk and linked into another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Topology
from xla_backend.llvm.elf import ElfObject
from xla_backend.llvm.jit import Address, Library
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.word_table import WordTable
from xla_backend.measured_costs import Costs
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.steps import Host, offsets_of
from xla_backend.runtime.custom_calls import HostCall
from xla_backend.targets.cpu.code_interface import host_call_symbol
from xla_backend.targets.cpu.meeting_places import Meetings
from xla_backend.targets.cpu.routines.library import kernel_library

# With the libraries that host calls use; few programs make any.
_host_function = on_first_use("xla_backend.runtime.host_functions", "host_function")
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
    objects: Sequence[bytes | ElfObject | WordTable]

    @property
    def files(self) -> list[bytes]:
        """The object code as it is kept on disk."""
        return [code if isinstance(code, bytes) else code.data for code in self.objects]


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
    return HostCall(_host_function(step.target), operands, results, step.attributes)
