"""The code of a program's kernels: LLVM text, PTX, and what the assembler makes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import FlagError
from xla_backend.emitted_kernel import EmittedKernel, KernelLaunch
from xla_backend.hlo.errors import HloError
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.program.ir import Program
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.kernel_functions import (
    KernelFunctions,
    LaunchFunction,
    shared_operands,
)
from xla_backend.targets.gpu.occupancy import occupancy
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target
from xla_backend.targets.gpu.ptxas import Assembled, assemble, find_ptxas

# Subnormal numbers of f32 are zeros.
_FLUSHING = '"denormal-fp-math-f32"="preserve-sign,preserve-sign" '


class SpillError(HloError):
    """The registers of a kernel spill."""


class GeneratedCode:
    """What is generated for a program's kernels, each part when somebody asks for it.

    Attributes:
      functions: those of each kernel, in the order in which they are launched.
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
        self.functions: dict[str, tuple[LaunchFunction, ...]] = {
            name: emitted.launches(kernel) for name, kernel in program.kernels.items()
        }

    @cached_property
    def llvm_ir(self) -> str:
        return self._replaced(self._options.gpu.llvm_files) or self._module.to_text()

    @cached_property
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

    @cached_property
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

    def loops(self) -> dict[str, str]:
        """Loop IR of every kernel, with its schedule."""
        return {name: kernel_to_text(kernel) for name, kernel in self.program.kernels.items()}

    def launches(self, kernel: str) -> tuple[KernelLaunch, ...]:
        """How a kernel is launched, and where there is an assembler, what a thread of it takes."""
        return tuple(map(self._launch, self.functions[kernel]))

    def _launch(self, function: LaunchFunction) -> KernelLaunch:
        plain = KernelLaunch(
            function.name, function.blocks, function.threads, function.shared_bytes
        )
        if not self.can_assemble:
            return plain
        used = self._assembled.resources[function.name]
        resident = occupancy(
            self.architecture, function.threads, used.registers, function.shared_bytes
        )
        return KernelLaunch(
            function.name,
            function.blocks,
            function.threads,
            function.shared_bytes,
            used.registers,
            used.spill_stores + used.spill_loads,
            resident.fraction,
        )

    def emitted(self) -> list[EmittedKernel]:
        """Every kernel, for reading."""
        return [self._describe(kernel) for kernel in self.program.kernels.values()]

    def _describe(self, kernel: Kernel) -> EmittedKernel:
        names = [function.name for function in self.functions[kernel.name]]
        written = {f.name: f for f in self._module.functions if isinstance(f, FunctionWriter)}
        return EmittedKernel(
            kernel.name,
            tuple(self._instructions.get(kernel.name, ())),
            kernel_to_text(kernel),
            "\n\n".join(written[name].to_text() for name in names),
            "\n\n".join(function_ptx(self.ptx, name) for name in names),
            False,
            self.launches(kernel.name),
        )


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
