"""What a program went through: made with its code, or anew when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.measured_costs import CostDecision
from xla_backend.passes.base import PassRun, pass_report
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.program.ir import Program
from xla_backend.program.printer import program_to_text
from xla_backend.targets.cpu.kernel_listing import KernelListing
from xla_backend.targets.cpu.routines.contracts import ROUTINES


class CompiledStages(NamedTuple):
    """The stages of an executable (`executable.Stages`).

    Fields:
      module: the optimised HLO.  assignment: its buffers.  program, kernels: made of it.
      log: every run of a pass that made the module, in order.
      decisions: by measured costs of kernels.
    """

    module: HloModule
    assignment: BufferAssignment
    program: Program
    kernels: KernelListing
    log: Sequence[PassRun] = ()
    decisions: Sequence[CostDecision] = ()

    def texts(self) -> dict[str, str]:
        return {
            "hlo": module_to_text(self.module),
            "program": program_to_text(self.program, ROUTINES),
            "loops": "\n\n".join(self.loop_ir().values()),
            "llvm": self.llvm_ir(),
        }

    def llvm_ir(self) -> str:
        return self.kernels.module.to_text()

    def loop_ir(self) -> dict[str, str]:
        return self.kernels.texts()

    def emitted(self) -> list[EmittedKernel]:
        return self.kernels.emitted()

    def pass_report(self) -> str:
        return pass_report(self.log)
