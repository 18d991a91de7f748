"""From HLO to a program of kernels that are scheduled for a GPU."""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.program.build import build_program
from xla_backend.program.kernel_table import KernelTable
from xla_backend.program.plan import Plan
from xla_backend.program.verifier import verify_program
from xla_backend.runtime.host_functions import host_function
from xla_backend.targets.gpu.architectures import architecture_for
from xla_backend.targets.gpu.pipeline import build_pipeline
from xla_backend.targets.gpu.program_rules import RULES
from xla_backend.targets.gpu.residents import with_residents
from xla_backend.targets.gpu.routines import ROUTINES
from xla_backend.targets.gpu.schedules import Schedules


def plan_program(module: HloModule, options: CompileOptions) -> Plan:
    """Optimise `module` (in place) and plan it, with kernels scheduled; no code is made.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
    """
    build_pipeline(options).run(module)
    architecture = architecture_for(options)
    table = KernelTable(Schedules(architecture, verify=options.verify))
    program = build_program(module, assign_buffers(module), RULES, table, options)
    program = with_residents(program, architecture)
    if options.verify:
        verify_program(program, ROUTINES)
    return Plan(program, ROUTINES, host_function)
