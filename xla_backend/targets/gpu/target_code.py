"""make_target_code: HLO in, PTX for a GPU out. There need be none: nothing is loaded or run."""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.printer import module_to_text
from xla_backend.program.ir import Host, Library, all_steps
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets.gpu.analysis import ProgramAnalysis, analyze_program
from xla_backend.targets.gpu.architectures import TRIPLE
from xla_backend.targets.gpu.cards import find_card, usual_card
from xla_backend.targets.gpu.compiler import generate
from xla_backend.targets.gpu.generated_code import GeneratedCode


def make_target_code(module: HloModule, options: CompileOptions) -> GpuTargetCode:
    """Optimise `module` (in place) and write code for the architecture that the options name.

    Raises:
      UnimplementedError: no code is made for that one, or the program uses something that this
        backend cannot run.
      SpillError: registers spill, which the options refuse.
    """
    _, code = generate(module, options)
    return GpuTargetCode(module, code)


class GpuTargetCode(TargetCode):
    """A program whose kernels are functions of one PTX module."""

    def __init__(self, module: HloModule, code: GeneratedCode) -> None:
        self.module = module
        self.code = code
        self.program = code.program
        self.target = Target(TRIPLE, code.architecture.name)

    def object_code(self) -> bytes:
        """The code that the driver loads, as `ptxas` makes it.

        Raises:
          PtxasNotFoundError: there is no assembler here.
        """
        return self.code.assembled().code

    def assembly(self) -> str:
        """PTX."""
        return self.code.ptx

    def texts(self) -> dict[str, str]:
        return {"hlo": module_to_text(self.module), **self.code.texts()}

    def kernels(self) -> list[EmittedKernel]:
        """Every kernel with its loops, LLVM text, PTX and launches."""
        return self.code.emitted()

    def analysis(self, card: str | None = None) -> ProgramAnalysis:
        """What the program would take on a card ("H200", "RTX 5090"; None: the usual one of the
        architecture). Registers are those that `ptxas` says; without it they are assumed.

        Raises:
          ValueError: no such card, or one of another architecture.
        """
        name = self.code.architecture.name
        chosen = usual_card(name) if card is None else find_card(card)
        launches = {kernel: self.code.launches(kernel) for kernel in self.code.functions}
        residents = {step: self.code.resident_launch(step) for step in self.code.residents}
        return analyze_program(self.program, self.module, launches, residents, name, chosen)

    def routines(self) -> dict[str, bytes]:
        """None: routines of libraries are the platform's, and come without code (see `needs`)."""
        return {}

    def needs(self) -> list[str]:
        """Library routines that the program calls, and what it calls of the host."""
        found = set()
        for steps in (self.program.steps, *self.program.procedures.values()):
            for step in all_steps(steps):
                if isinstance(step, Library):
                    found.add(step.routine)
                elif isinstance(step, Host):
                    target = step.target
                    found.add(target.value if isinstance(target, Opcode) else target)
        return sorted(found)
