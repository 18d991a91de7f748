"""Programs as threaded code whose kernels are compiled."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.ir import Kernel
from xla_backend.llvm import objects
from xla_backend.llvm.target import TargetInfo, host_target
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.program.ir import Program, launched_buffers
from xla_backend.targets.cpu.kernel_functions import KernelFunctions
from xla_backend.targets.cpu.program_code import ProgramCode
from xla_backend.targets.cpu.routines import threaded_names as names
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame, Label
from xla_backend.targets.cpu.threaded.first_code import threaded_code
from xla_backend.targets.cpu.threaded.kernel_code import Stage


class CompiledKernels:
    """Kernels as one instruction each, which calls what LLVM made of them: so tests of programs
    depend on nothing that is said about kernels."""

    def __init__(self) -> None:
        self.module = ModuleWriter(host_target())
        self._asm = Assembler()
        self._functions = KernelFunctions(self.module)

    def __call__(self, asm: Assembler, target: TargetInfo) -> CompiledKernels:
        self._asm = asm
        return self

    def stages(self, kernel: Kernel, times: float = 1.0) -> Sequence[Stage]:
        made = []
        for stage in self._functions.stages(kernel):
            w = self._handler(f"{stage.name}.handler")
            table = w.gep("i64", w.load("ptr", w.gep("i8", "%frame", names.CONTEXT)), 1)
            if stage.blocks > 1:
                block = w.load("i64", w.gep("i8", "%frame", names.NUMBER))
                w.call(stage.name, "void", [("ptr", table), ("i64", block)])
            else:
                count = len(launched_buffers(kernel))
                given = [("ptr", w.load("ptr", w.gep("ptr", table, i))) for i in range(count)]
                w.call(stage.name, "void", given)
            w.ret()
            made.append(Stage(_subroutine(self._asm, f"{stage.name}.handler"), stage.blocks, 0.0))
        return made

    def called(self, kernel: Kernel) -> Stage:
        name = self._functions.called(kernel)
        w = self._handler(f"{name}.handler")
        data = w.gep("i64", w.load("ptr", w.gep("i8", "%frame", names.CONTEXT)), 1)
        given = [("ptr", data), ("ptr", w.load("ptr", w.gep("i8", "%frame", names.OWN)))]
        for i in range(len(kernel.parameters)):
            given.append(("i64", w.load("i64", w.gep("i8", "%frame", names.PARAMETERS + 8 * i))))
        w.call(name, "void", given)
        w.ret()
        return Stage(_subroutine(self._asm, f"{name}.handler"), 1, 0.0)

    def _handler(self, name: str) -> FunctionWriter:
        return self.module.function(name, [("ptr", "code"), ("ptr", "frame")])


def _subroutine(asm: Assembler, handler: str) -> Label:
    code = asm.place()
    asm.emit(handler)
    frame = Frame()
    frame.slot(names.PARAMETERS + 8 * len(names.CALLED_PARAMETERS))
    return asm.subroutine(code, frame)


def program_only(program: Program) -> ProgramCode:
    """Threaded code whose kernels are compiled."""
    kernels = CompiledKernels()
    code = threaded_code(program, host_target(), kernels)
    made = objects.compile_object(kernels.module.to_text(), host_target())
    own = {f.name for f in kernels.module.functions if not isinstance(f, str)}
    routines = [name for name in code.facts.routines if name not in own]
    routines += [n for n in kernels.module.declarations if n.startswith("pyjax_")]
    return ProgramCode(code.facts._replace(routines=tuple(routines)), [*code.objects, made])
