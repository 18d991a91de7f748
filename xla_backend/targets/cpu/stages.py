"""What a program went through: made with its code, or anew when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.measured_costs import CostDecision
from xla_backend.passes.base import PassRun, pass_report
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.ir import Program
from xla_backend.targets.cpu.routines.contract_table import ROUTINES

# Texts, for who asks for them.
_module_to_text = on_first_use("xla_backend.hlo.printer", "module_to_text")
_program_to_text = on_first_use("xla_backend.program.printer", "program_to_text")


class Text(Protocol):
    """What has a text."""

    def to_text(self) -> str: ...


class KernelTexts(Protocol):
    """What can be read about kernels (`kernel_listing.KernelListing`)."""

    @property
    def module(self) -> Text: ...
    def texts(self) -> dict[str, str]: ...
    def emitted(self) -> list[EmittedKernel]: ...


class PlannedModule(Protocol):
    """A module on its way up to its program (`planned.Planned`)."""

    @property
    def module(self) -> HloModule: ...
    @property
    def assignment(self) -> BufferAssignment: ...
    @property
    def program(self) -> Program: ...
    @property
    def log(self) -> Sequence[PassRun]: ...
    @property
    def decisions(self) -> Sequence[CostDecision]: ...


class CompiledStages:
    """The stages of an executable (`executable.Stages`).

    Attributes:
      module: the optimised HLO.  assignment: its buffers.  program: made of it.
      decisions: by measured costs of kernels.
    """

    def __init__(self, planned: PlannedModule, kernels: Callable[[], KernelTexts]) -> None:
        """`kernels`: what can be read about them; it may be made then."""
        self.module = planned.module
        self.assignment = planned.assignment
        self.program = planned.program
        self.decisions = planned.decisions
        self._log = planned.log
        self._kernels = kernels

    def texts(self) -> dict[str, str]:
        return {
            "hlo": _module_to_text(self.module),
            "program": _program_to_text(self.program, ROUTINES),
            "loops": "\n\n".join(self.loop_ir().values()),
            "llvm": self.llvm_ir(),
        }

    def llvm_ir(self) -> str:
        return self._kernels().module.to_text()

    def loop_ir(self) -> dict[str, str]:
        return self._kernels().texts()

    def emitted(self) -> list[EmittedKernel]:
        return self._kernels().emitted()

    def pass_report(self) -> str:
        return pass_report(self._log)
