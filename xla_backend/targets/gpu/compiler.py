"""From HLO to a program of kernels that are scheduled for a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xla_backend.compile_options import CompileOptions
from xla_backend.dump.interface import make_dumper
from xla_backend.hlo.module import HloModule
from xla_backend.passes.base import PassObserver, PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment, assign_buffers
from xla_backend.program.build import build_program
from xla_backend.program.ir import Program
from xla_backend.program.kernel_table import KernelTable
from xla_backend.program.plan import Plan
from xla_backend.program.verifier import verify_program
from xla_backend.runtime.host_functions import host_function
from xla_backend.targets.gpu.architectures import TRIPLE, Architecture, architecture_for
from xla_backend.targets.gpu.code_dumps import Choices, dump_code
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.pipeline import build_pipeline
from xla_backend.targets.gpu.product_candidates import Choose
from xla_backend.targets.gpu.program_rules import RULES
from xla_backend.targets.gpu.residents import with_residents
from xla_backend.targets.gpu.routines import ROUTINES
from xla_backend.targets.gpu.schedules import Schedules


class Planned(NamedTuple):
    """A program; of each of its kernels the instructions that run it; and how it came about."""

    program: Program
    architecture: Architecture
    instructions: Mapping[str, Sequence[str]]
    assignment: BufferAssignment
    passes: Sequence[PassRun]


def plan(
    module: HloModule,
    options: CompileOptions,
    observer: PassObserver | None = None,
    choose: Choose | None = None,
) -> Planned:
    """Optimise `module` (in place) and plan it, with kernels scheduled; `observer` watches the
    passes, `choose` says how products are computed (see `Schedules`).

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
    """
    pipeline = build_pipeline(options, observer)
    pipeline.run(module)
    return plan_scheduled(module, options, pipeline.log, choose)


def plan_scheduled(
    module: HloModule,
    options: CompileOptions,
    passes: Sequence[PassRun],
    choose: Choose | None = None,
) -> Planned:
    """`plan`, of a module that these passes have optimised."""
    architecture = architecture_for(options)
    table = KernelTable(Schedules(architecture, verify=options.verify, choose=choose))
    assignment = assign_buffers(module)
    program = build_program(module, assignment, RULES, table, options)
    program = with_residents(program, architecture)
    if options.verify:
        verify_program(program, ROUTINES)
    return Planned(program, architecture, table.instructions, assignment, passes)


def generate(
    module: HloModule, options: CompileOptions, choose: Choose | None = None
) -> tuple[Planned, GeneratedCode]:
    """Optimise `module` (in place), plan it, and generate code for its kernels, which is dumped if
    the options say so.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
      SpillError: registers spill, which the options refuse.
    """
    dumper = make_dumper(options.dump, module.name)
    if dumper is not None:
        architecture = architecture_for(options)
        described = {"triple": TRIPLE, "cpu": architecture.name, "features": ""}
        dumper.inputs(module, described, options.profile_version)
        dumper.before_optimizations(module)
    choices = None if dumper is None or choose is None else Choices(choose)
    planned = plan(module, options, dumper, choices or choose)
    code = GeneratedCode(
        planned.program,
        planned.instructions,
        planned.architecture,
        options,
        "" if dumper is None else dumper.prefix,
    )
    if dumper is not None:
        chosen = choices.text() if choices else ""
        dump_code(dumper, module, planned.assignment, code, chosen)
        dumper.metadata(planned.passes)
    if options.gpu.refuse_spills:
        code.assembled()
    return planned, code


def plan_program(module: HloModule, options: CompileOptions, choose: Choose | None = None) -> Plan:
    """`plan`, for those who run the program in Python: code is made for dumps only."""
    watched = options.dump is not None
    planned = (
        generate(module, options, choose)[0] if watched else plan(module, options, choose=choose)
    )
    return Plan(planned.program, ROUTINES, host_function)
