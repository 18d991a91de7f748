"""How a module is planned: its passes, buffers and program, without code; and the executable of
code that was made for a plan. Who runs first code needs no more (`tiers`)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xla_backend.compile_options import CompileOptions
from xla_backend.dump.interface import CompilationListener
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.module import HloModule
from xla_backend.llvm.target import host_target
from xla_backend.measured_costs import CostDecision
from xla_backend.passes.base import PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment, assign_buffers
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.build import build_program
from xla_backend.program.ir import Program
from xla_backend.program.kernel_table import KernelTable
from xla_backend.program.plan import Plan
from xla_backend.runtime.client import Device
from xla_backend.runtime.hlo_client import host_device
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.targets.cpu.program_code import ProgramCode, link
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.rules import RULES
from xla_backend.targets.cpu.schedules import Schedules
from xla_backend.targets.cpu.stages import CompiledStages
from xla_backend.targets.cpu.target_options import target_for

_host_function = on_first_use("xla_backend.runtime.host_functions", "host_function")
_verify_program = on_first_use("xla_backend.program.verifier", "verify_program")


class Profile:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def phase(self, name: str) -> _Phase:
        """Context manager: what happens inside is of a phase."""
        return _Phase(self.seconds, name)


class _Phase:
    """Adds what a block takes to the seconds of a phase. (No generator: a program has six.)"""

    __slots__ = ("_name", "_seconds", "_start")

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds = seconds
        self._name = name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        taken = time.perf_counter() - self._start
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + taken


class Planned(NamedTuple):
    """A module on its way up to its program: all that code is made from.

    Fields:
      module: the optimised HLO.  assignment: its buffers.
      program: made of it.  instructions: names of those that run each kernel.
      schedules: by which its kernels were scheduled.
      log: every run of a pass that made the module, in order.
    """

    module: HloModule
    assignment: BufferAssignment
    program: Program
    instructions: Mapping[str, Sequence[str]]
    schedules: Schedules
    log: Sequence[PassRun] = ()

    @property
    def decisions(self) -> Sequence[CostDecision]:
        """What was decided by the measured costs of kernels."""
        return self.schedules.decisions


def plan_module(
    module: HloModule,
    options: CompileOptions,
    profile: Profile,
    dumper: CompilationListener | None = None,
) -> Planned:
    """Optimise `module` (in place) and plan it.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
    """
    assignment, log = _optimize(module, options, profile, dumper)
    return plan_scheduled(module, assignment, options, profile, log)


def plan_program(module: HloModule, options: CompileOptions) -> Plan:
    """Optimise `module` (in place) and plan it, with kernels scheduled; no code is made.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
    """
    build_pipeline(options).run(module)
    planned = plan_scheduled(module, assign_buffers(module), options)
    return Plan(planned.program, ROUTINES, _host_function)


def _schedules(options: CompileOptions) -> Schedules:
    return Schedules(
        target_for(options),
        threads=not options.profiled_runs,  # what one thread takes is what there is to know
        measured=dict(options.measured),
        verify=options.verify,
    )


def plan_scheduled(
    module: HloModule,
    assignment: BufferAssignment,
    options: CompileOptions,
    profile: Profile | None = None,
    log: Sequence[PassRun] = (),
) -> Planned:
    """`plan_module`, for a module that the pipeline has already scheduled."""
    schedules = _schedules(options)
    with (profile or Profile()).phase("program"):
        table = KernelTable(schedules)
        program = build_program(module, assignment, RULES, table, options)
        if options.verify:
            _verify_program(program, ROUTINES)
    return Planned(module, assignment, program, table.instructions, schedules, log)


def _optimize(
    module: HloModule,
    options: CompileOptions,
    profile: Profile,
    dumper: CompilationListener | None,
) -> tuple[BufferAssignment, Sequence[PassRun]]:
    pipeline = build_pipeline(options, dumper)
    with profile.phase("passes"):
        pipeline.run(module)
        module.forget_dropped()
    with profile.phase("buffer assignment"):
        return assign_buffers(module), pipeline.log


def refuse_others(module: HloModule, options: CompileOptions) -> None:
    """
    Raises:
      UnimplementedError: the options ask for code of other machines.
    """
    target = target_for(options)
    if target.triple != host_target().triple:
        raise UnimplementedError(
            f"module {module.name!r}: code for {target.triple} cannot run on "
            f"{host_target().triple}; `xla_backend.compile(module, target=...)` makes its object "
            "code without loading it"
        )


def linked(
    code: ProgramCode,
    planned: Planned,
    stages: CompiledStages,
    options: CompileOptions,
    profile: Profile,
    device: Device | None,
) -> CpuExecutable:
    """The executable of some code of a program."""
    with profile.phase("link"):
        library = link(code, target_for(options), options.fast_math, options.num_threads)
    device = device or host_device()
    name = planned.module.name
    return CpuExecutable(code, library, device, lambda: stages, profile.seconds, options, name)
