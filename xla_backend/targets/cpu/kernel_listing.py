"""The generated kernels of a program as text: loop IR, LLVM IR and assembly of each."""

from __future__ import annotations

import re

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm import jit
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.kernel_functions import CompiledKernel, KernelFunctions


def emitted_kernels(kernels: KernelFunctions) -> list[EmittedKernel]:
    """Every kernel of a program. Assembly is generated anew, which takes as long as compiling."""
    module = kernels.module
    functions = {f.name: f for f in module.functions if isinstance(f, FunctionWriter)}
    listing = jit.assembly(module.to_text(), module.target)
    return [_describe(kernels, compiled, functions, listing) for compiled in kernels.compiled()]


def _describe(
    kernels: KernelFunctions,
    compiled: CompiledKernel,
    functions: dict[str, FunctionWriter],
    listing: str,
) -> EmittedKernel:
    kernel = compiled.kernel
    if compiled.stages is None:
        alone = ModuleWriter(kernels.module.target)
        writers = [kernels.show_inline(alone, kernel)]
        # Nothing calls it there: LLVM would drop it if it were internal.
        text = alone.to_text().replace("define internal ", "define ")
        listing = jit.assembly(text, alone.target)
    else:
        writers = [functions[stage.name] for stage in compiled.stages]
    return EmittedKernel(
        kernel.name,
        tuple(kernels.instructions.get(kernel.name, ())),
        kernel_to_text(kernel),
        "\n\n".join(w.to_text() for w in writers),
        "\n".join(_function_assembly(listing, w.name) for w in writers),
        compiled.stages is None,
    )


def _function_assembly(listing: str, name: str) -> str:
    """The part of a listing from a function's label to its end: `.Lfunc_end` on ELF and COFF, the
    next function's directives on Mach-O."""
    pattern = rf"^_?{re.escape(name)}:.*?(?=^\.?Lfunc_end\d+:|^\s+\.globl\b|\Z)"
    found = re.search(pattern, listing, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no function {name} in the assembly"
    return found[0].rstrip()
