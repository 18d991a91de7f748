"""The code of a program's kernels: LLVM text, PTX, and what the assembler makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import FlagError
from xla_backend.emitted_kernel import EmittedKernel, KernelLaunch
from xla_backend.hlo.errors import HloError
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.process.lazy import lazy
from xla_backend.program.ir import (
    Call,
    Launch,
    Program,
    Resident,
    Steps,
    all_steps,
    inner_steps,
)
from xla_backend.program.printer import program_to_text
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.kernel_functions import (
    KernelFunctions,
    LaunchFunction,
    shared_operands,
)
from xla_backend.targets.gpu.occupancy import occupancy
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target
from xla_backend.targets.gpu.ptxas import Assembled, assemble, find_ptxas
from xla_backend.targets.gpu.resident_functions import ResidentFunction, emit_resident
from xla_backend.targets.gpu.routines import ROUTINES

# Subnormal numbers of f32 are zeros.
_FLUSHING = '"denormal-fp-math-f32"="preserve-sign,preserve-sign" '


class SpillError(HloError):
    """The registers of a kernel spill."""


class GeneratedCode:
    """What is generated for a program's kernels, each part when somebody asks for it.

    Attributes:
      functions: those of each kernel that is launched, in the order in which they are.
      residents: those of steps that stay on the device, by the names of the steps; kernels that
        only such steps run have none of their own.
    """

    def __init__(
        self,
        program: Program,
        instructions: Mapping[str, Sequence[str]],
        architecture: Architecture,
        options: CompileOptions,
        dumped_as: str = "",
    ) -> None:
        """`instructions`: names of those that run each kernel. `dumped_as`: how names of dumped
        files begin, if any are."""
        self.program = program
        self._dumped_as = dumped_as
        self.architecture = architecture
        self._instructions = instructions
        self._options = options
        self._module = ModuleWriter(llvm_target(architecture), options.fast_math)
        if options.gpu.flush_denormals:
            self._module.attributes = _FLUSHING
        emitted = KernelFunctions(self._module, architecture, shared_operands(program))
        launched, steps = _launched(program)
        self.functions: dict[str, tuple[LaunchFunction, ...]] = {
            name: emitted.launches(program.kernels[name]) for name in launched
        }
        self.residents: dict[str, ResidentFunction] = {
            step.name: emit_resident(emitted, program, step) for step in steps
        }
        self._run_by = {
            kernel: step.name for step in steps for kernel in kernels_of(program, step.steps)
        }

    @lazy
    def llvm_ir(self) -> str:
        return self._replaced(self._options.gpu.llvm_files) or self._module.to_text()

    @lazy
    def ptx(self) -> str:
        return self._replaced(self._options.gpu.ptx_files) or compile_ptx(
            self.llvm_ir, self.architecture, cache=True
        )

    def _replaced(self, files: Sequence[str]) -> str | None:
        return replacement(files, self.program.name, self._dumped_as)

    @property
    def can_assemble(self) -> bool:
        """Whether there is an assembler."""
        return find_ptxas(self._options.gpu.toolkit) is not None

    def assembled(self) -> Assembled:
        """The code as the assembler makes it.

        Raises:
          PtxasNotFoundError: there is no assembler.
          SpillError: registers spill, and the options do not want that.
        """
        return self._assembled

    @lazy
    def _assembled(self) -> Assembled:
        wanted = self._options.gpu
        made = assemble(
            self.ptx,
            self.architecture.name,
            flags=wanted.assembler_flags,
            toolkit=wanted.toolkit,
            keep=True,
        )
        spilled = {f: r for f, r in made.resources.items() if r.spill_stores + r.spill_loads}
        if wanted.refuse_spills and spilled:
            listed = ", ".join(
                f"{f} ({r.spill_stores + r.spill_loads} bytes)" for f, r in spilled.items()
            )
            raise SpillError(
                f"{self.program.name}: registers spill for {self.architecture.name} in {listed}; "
                "without --xla_gpu_fail_ptx_compilation_on_register_spilling that only costs time"
            )
        return made

    def texts(self) -> dict[str, str]:
        """Printable stages, from the program on."""
        return {
            "program": program_to_text(self.program, ROUTINES),
            "loops": "\n\n".join(self.loops().values()),
            "llvm": self.llvm_ir,
            "ptx": self.ptx,
        }

    def loops(self) -> dict[str, str]:
        """Loop IR of every kernel, with its schedule."""
        return {name: kernel_to_text(kernel) for name, kernel in self.program.kernels.items()}

    def launches(self, kernel: str) -> tuple[KernelLaunch, ...]:
        """How a kernel is launched, and where there is an assembler, what a thread of it takes. Of
        one that only a block runs that runs other things, too: how that block is launched."""
        functions = self.functions.get(kernel)
        if functions is None:
            return (self.resident_launch(self._run_by[kernel]),)
        return tuple(self._launch(f.name, f.blocks, f.threads, f.shared_bytes) for f in functions)

    def resident_launch(self, step: str) -> KernelLaunch:
        """The same of a step that one block runs."""
        function = self.residents[step]
        return self._launch(function.name, function.blocks, function.threads, function.shared_bytes)

    def _launch(self, name: str, blocks: int, threads: int, shared_bytes: int) -> KernelLaunch:
        plain = KernelLaunch(name, blocks, threads, shared_bytes)
        if not self.can_assemble:
            return plain
        used = self._assembled.resources[name]
        resident = occupancy(self.architecture, threads, used.registers, shared_bytes)
        return plain._replace(
            registers=used.registers,
            spilled_bytes=used.spill_stores + used.spill_loads,
            occupancy=resident.fraction,
        )

    def emitted(self) -> list[EmittedKernel]:
        """Every kernel, for reading."""
        written = {f.name: f for f in self._module.functions if isinstance(f, FunctionWriter)}
        return [self._describe(kernel, written) for kernel in self.program.kernels.values()]

    def _describe(self, kernel: Kernel, written: Mapping[str, FunctionWriter]) -> EmittedKernel:
        launches = self.launches(kernel.name)
        return EmittedKernel(
            kernel.name,
            tuple(self._instructions.get(kernel.name, ())),
            kernel_to_text(kernel),
            "\n\n".join(written[launch.function].to_text() for launch in launches),
            "\n\n".join(function_ptx(self.ptx, launch.function) for launch in launches),
            kernel.name not in self.functions,
            launches,
        )


def _launched(program: Program) -> tuple[list[str], list[Resident]]:
    """Kernels that have launches of their own, and steps that one block runs."""
    inside: set[str] = set()
    outside: set[str] = set()
    steps: list[Resident] = []

    def look(some: Steps) -> None:
        for step in some:
            if isinstance(step, Resident):
                steps.append(step)
                inside.update(kernels_of(program, step.steps))
            elif isinstance(step, Launch):
                outside.add(step.kernel)
            for block in () if isinstance(step, Resident) else inner_steps(step):
                look(block)

    look(program.steps)
    for procedure in program.procedures.values():
        look(procedure)
    return [name for name in program.kernels if name in outside or name not in inside], steps


def kernels_of(program: Program, steps: Steps) -> Iterator[str]:
    """Names of the kernels that steps launch, in procedures that they call, too."""
    for step in all_steps(steps):
        if isinstance(step, Launch):
            yield step.kernel
        elif isinstance(step, Call):
            yield from kernels_of(program, program.procedures[step.procedure])


def replacement(files: Sequence[str], module: str, dumped_as: str) -> str | None:
    """The text of the first file that is meant for a module: its name begins like those of the
    module's dumps, `module_0002.jit_f.`; as long as nothing is dumped, with any number or none.

    Raises:
      FlagError: it cannot be read.
    """
    begins = re.escape(dumped_as) if dumped_as else rf"(module_\d+\.)?{re.escape(module)}"
    for file in files:
        path = Path(file)
        if re.match(rf"{begins}(\.|$)", path.name):
            try:
                return path.read_text("utf-8")
            except OSError as error:
                raise FlagError(
                    f"{file}, which is to take the place of generated code of {module}, cannot be "
                    f"read: {error.strerror}"
                ) from None
    return None


def function_ptx(ptx: str, name: str) -> str:
    """The part of a PTX text that is a function: from its `.entry` to the brace that ends it."""
    found = re.search(
        rf"^\.visible \.entry {re.escape(name)}\(.*?^\}}", ptx, re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"no function {name} in the PTX"
    return found[0]
