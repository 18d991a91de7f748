"""What it takes to run a program in Python: the program itself, what its routines do, and what the
host runs for it. A target makes one for a module; the emulator runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.program.ir import HostFunction, Program
from xla_backend.program.routines import Routine


class Plan(NamedTuple):
    """A program as a target would run it.

    Fields:
      program: with kernels as they are scheduled for the target.
      routines: contracts of the library routines, by name.
      host_function: what runs a host step's target.
    """

    program: Program
    routines: Mapping[str, Routine]
    host_function: Callable[[str | Opcode], HostFunction]


# Optimises the module, in place, and plans it.
Planner = Callable[[HloModule, CompileOptions], Plan]
