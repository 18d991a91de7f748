"""Native functions of kernels: each is emitted once per module, where it is first called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Kernel,
    Loop,
    Statement,
)
from xla_backend.llvm.types import memory_type
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.program.ir import launched_buffers, passed_buffers
from xla_backend.targets.cpu.emitter import KernelEmitter
from xla_backend.targets.cpu.held_kernels import HeldKernelEmitter
from xla_backend.targets.cpu.held_registers import Register
from xla_backend.targets.cpu.kernel_stages import stage_groups

# A kernel without loops and with fewer statements than this is emitted where it is called.
_INLINE_STATEMENTS = 48
_LOCAL_ALIGNMENT = 64

Pointers = dict[Buffer, str]


@dataclass(slots=True)
class StageFunction:
    """One native function of a kernel. blocks > 1: takes (context, block) and runs on several
    threads."""

    name: str
    blocks: int


def is_inline(kernel: Kernel) -> bool:
    """Whether a kernel has no function of its own."""
    has_loops = any(isinstance(s, Loop) for s in kernel.stages)
    return not has_loops and len(kernel.stages) <= _INLINE_STATEMENTS


def in_tables(w: FunctionWriter, kernel: Kernel, tables: Mapping[BufferRole, str]) -> Pointers:
    """Addresses of buffers that stand in arrays of addresses: one array for each role, in which a
    buffer has the place of its number."""
    return {
        buffer: w.load("ptr", w.gep("ptr", tables[buffer.role], buffer.number))
        for buffer in kernel.buffers
        if buffer.role in tables
    }


class KernelFunctions:
    """The native functions of kernels in one LLVM module."""

    def __init__(self, module: ModuleWriter) -> None:
        self.module = module
        self._stages: dict[str, list[StageFunction]] = {}
        # Names of the functions of each kernel that has some of its own, for listings.
        self.functions: dict[str, list[str]] = {}

    def stages(self, kernel: Kernel) -> list[StageFunction]:
        """The functions of a kernel that is not inline, to be called one after another."""
        found = self._stages.get(kernel.name)
        if found is None:
            found = self._stages[kernel.name] = self._emit(kernel)
            self.functions[kernel.name] = [stage.name for stage in found]
        return found

    def _emit(self, kernel: Kernel) -> list[StageFunction]:
        """Functions of the stages, each with the common loop-free statements they need."""
        groups = stage_groups(kernel)
        result = []
        for n, (statements, grid) in enumerate(groups):
            name = function_name(kernel, n if len(groups) > 1 else None)
            if grid is None:
                self._serial_function(name, kernel, statements)
                result.append(StageFunction(name, 1))
            else:
                self._block_function(name, kernel, statements, grid)
                result.append(StageFunction(name, grid.var.extent))
        return result

    def _serial_function(
        self, name: str, kernel: Kernel, statements: Sequence[Statement]
    ) -> FunctionWriter:
        buffers = launched_buffers(kernel)
        w = self.module.function(name, [("ptr", b.name) for b in buffers], internal=True)
        pointers = {b: f"%{b.name}" for b in buffers}
        self.body(w, kernel, pointers).emit(statements)
        w.ret()
        return w

    def _block_function(
        self, name: str, kernel: Kernel, statements: Sequence[Statement], grid: Loop
    ) -> None:
        buffers = launched_buffers(kernel)
        w = self.module.function(name, [("ptr", "context"), ("i64", "block")], internal=True)
        pointers = {b: w.load("ptr", w.gep("ptr", "%context", i)) for i, b in enumerate(buffers)}
        emitter = self.body(w, kernel, pointers)
        emitter.vars[grid.var] = "%block"
        emitter.emit(statements)
        w.ret()

    def called(self, kernel: Kernel) -> str:
        """The function of a kernel that a routine calls, emitted on first use: void f(ptr data,
        ptr of the routine's own memory, parameters). `data` has the addresses of the others."""
        name = function_name(kernel)
        if kernel.name not in self.functions:
            self.functions[kernel.name] = [name]
            (own,) = (b for b in kernel.buffers if b.role is BufferRole.SCRATCH)
            parameters = [("ptr", "data"), ("ptr", own.name)]
            parameters += [("i64", parameter.name) for parameter in kernel.parameters]
            w = self.module.function(name, parameters, internal=True)
            pointers = {
                b: w.load_invariant("ptr", w.gep("ptr", "%data", i))
                for i, b in enumerate(passed_buffers(kernel))
            }
            emitter = self.body(w, kernel, pointers | {own: f"%{own.name}"})
            for parameter in kernel.parameters:
                emitter.vars[parameter] = f"%{parameter.name}"
            emitter.emit(kernel.stages)
            w.ret()
        return name

    def body(self, w: FunctionWriter, kernel: Kernel, pointers: Pointers) -> KernelEmitter:
        """An emitter for statements of a kernel in the function of `w`."""
        self._place_own(w, kernel, pointers)
        return KernelEmitter(w, pointers)

    def emit_held(
        self, w: FunctionWriter, kernel: Kernel, pointers: Pointers, held: dict[Buffer, Register]
    ) -> None:
        """The statements of a kernel, in the caller; some of its buffers are registers."""
        self._place_own(w, kernel, pointers)
        HeldKernelEmitter(w, pointers, held).emit(kernel.stages)

    def _place_own(self, w: FunctionWriter, kernel: Kernel, pointers: Pointers) -> None:
        """Memory of the buffers that are the kernel's own."""
        for buffer in kernel.buffers:
            if buffer.role is BufferRole.CONSTANT:
                assert buffer.data is not None
                pointers[buffer] = self.module.constant_bytes(buffer.data.tobytes())
            elif buffer.role is BufferRole.LOCAL:
                stored = memory_type(buffer.element_type)
                pointers[buffer] = w.alloca(stored, buffer.size, _LOCAL_ALIGNMENT)

    def show_inline(self, kernel: Kernel) -> FunctionWriter:
        """A kernel that is emitted in place, as a function of its own: for reading."""
        return self._serial_function(function_name(kernel), kernel, kernel.stages)

    def emit_inline(self, w: FunctionWriter, kernel: Kernel, pointers: dict[Buffer, str]) -> None:
        """The statements of a loop-free kernel, in the caller."""
        self.body(w, kernel, pointers).emit(kernel.stages)


def function_name(kernel: Kernel, stage: int | None = None) -> str:
    """The function of a kernel, or of one of its stages. The dot keeps it apart from C functions:
    LLVM would take `floor` for libm's."""
    return f"kernel.{kernel.name}" if stage is None else f"kernel.{kernel.name}.stage{stage}"
