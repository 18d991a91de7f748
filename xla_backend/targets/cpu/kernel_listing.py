"""The generated kernels of a program as text: loop IR, LLVM IR and assembly of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.kernels.ir import Kernel
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.ir import Program
from xla_backend.targets.cpu.kernel_functions import KernelFunctions

_kernel_to_text = on_first_use("xla_backend.kernels.printer", "kernel_to_text")

_assembly = on_first_use("xla_backend.llvm.objects", "assembly")


class KernelListing:
    """What can be read about the kernels of a program."""

    def __init__(
        self,
        program: Program,
        instructions: Mapping[str, Sequence[str]],
        functions: KernelFunctions,
    ) -> None:
        """`instructions`: names of those that run each kernel."""
        self._program = program
        self._instructions = instructions
        self._functions = functions

    @property
    def module(self) -> ModuleWriter:
        return self._functions.module

    def texts(self) -> dict[str, str]:
        """Loop IR of every kernel, with its schedule."""
        return {name: _kernel_to_text(kernel) for name, kernel in self._program.kernels.items()}

    def emitted(self) -> list[EmittedKernel]:
        """Every kernel. Assembly is generated anew, which takes as long as compiling."""
        module = self.module
        functions = {f.name: f for f in module.functions if isinstance(f, FunctionWriter)}
        listing = _assembly(module.to_text(), module.target)
        return [self._describe(k, functions, listing) for k in self._program.kernels.values()]

    def _describe(
        self, kernel: Kernel, functions: dict[str, FunctionWriter], listing: str
    ) -> EmittedKernel:
        names = self._functions.functions.get(kernel.name)
        if names is None:
            alone = ModuleWriter(self.module.target)
            writers = [KernelFunctions(alone).show_inline(kernel)]
            # Nothing calls it there: LLVM would drop it if it were internal.
            text = alone.to_text().replace("define internal ", "define ")
            listing = _assembly(text, alone.target)
        else:
            writers = [functions[name] for name in names]
        return EmittedKernel(
            kernel.name,
            tuple(self._instructions.get(kernel.name, ())),
            _kernel_to_text(kernel),
            "\n\n".join(w.to_text() for w in writers),
            "\n".join(_function_assembly(listing, w.name) for w in writers),
            names is None,
        )


def _function_assembly(listing: str, name: str) -> str:
    """The part of a listing from a function's label to its end: `.Lfunc_end` on ELF and COFF, the
    next function's directives on Mach-O."""
    pattern = rf"^_?{re.escape(name)}:.*?(?=^\.?Lfunc_end\d+:|^\s+\.globl\b|\Z)"
    found = re.search(pattern, listing, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no function {name} in the assembly"
    return found[0].rstrip()
