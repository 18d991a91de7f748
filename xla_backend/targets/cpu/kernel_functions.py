"""Native functions of kernels: each distinct kernel is lowered, scheduled and emitted once per
module."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_backend.hlo.computation import Computation
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Loop, Statement, Store, walk
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm.types import memory_type
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.emitter import KernelEmitter
from xla_backend.targets.cpu.schedule import ParallelPlan, schedule

# A kernel without loops and with fewer statements than this is emitted where it is called.
_INLINE_STATEMENTS = 48
_LOCAL_ALIGNMENT = 64


@dataclass(slots=True)
class StageFunction:
    """One native function of a kernel. blocks > 1: takes (context, block) and runs on several
    threads."""

    name: str
    blocks: int


@dataclass(slots=True)
class CompiledKernel:
    """A kernel and how to call it; `stages` is None for one that is emitted in place."""

    kernel: Kernel
    stages: list[StageFunction] | None
    cycles: float


def structural_key(node: Instruction) -> tuple:
    """Equal for instructions that need the same code, whatever their names."""
    if node.opcode is not Opcode.FUSION:
        operands = tuple(o.shape for o in node.operands)
        repeats = tuple(node.operands.index(o) for o in node.operands)
        called = tuple(_computation_key(c) for c in node.called)
        return (node.opcode, node.shape, node.attributes, operands, repeats, called)
    return (node.opcode, _computation_key(node.called[0]))


def _computation_key(computation: Computation) -> tuple:
    order = computation.post_order()
    number = {node: i for i, node in enumerate(order)}
    rows = [
        (
            node.opcode,
            node.shape,
            node.attributes,
            tuple(number[o] for o in node.operands),
            tuple(_computation_key(c) for c in node.called),
        )
        for node in order
    ]
    assert computation.root is not None
    return (tuple(rows), number[computation.root])


class KernelFunctions:
    """All kernels of one LLVM module."""

    def __init__(self, module: ModuleWriter) -> None:
        self.module = module
        self._known: dict[Any, CompiledKernel] = {}
        self._names: set[str] = set()
        # Names of the instructions that run each kernel, for listings.
        self.instructions: dict[str, list[str]] = {}

    def get(self, node: Instruction) -> CompiledKernel:
        return self.get_compiled(
            structural_key(node), node.name, lambda name: self._compile(lower(node, name)), node
        )

    def get_built(self, key: Hashable, name: str, build: Callable[[str], Kernel]) -> CompiledKernel:
        """A kernel that is built by hand: `build(name)` makes its loop IR if `key` is new."""
        return self.get_compiled(key, name, lambda unique: self._compile(build(unique)))

    def get_compiled(
        self,
        key: Hashable,
        name: str,
        make: Callable[[str], CompiledKernel],
        instruction: Instruction | None = None,
    ) -> CompiledKernel:
        """A kernel that `make(name)` lowers and emits if `key` is new; `instruction` runs it."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make(self.unique(name))
        if instruction is not None:
            self.instructions.setdefault(found.kernel.name, []).append(instruction.name)
        return found

    def unique(self, base: str) -> str:
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in base)
        name, n = base, 1
        while name in self._names or name == "entry":
            name = f"{base}_{n}"
            n += 1
        self._names.add(name)
        return name

    def _compile(self, kernel: Kernel) -> CompiledKernel:
        plans = schedule(kernel, self.module.target)
        has_loops = any(isinstance(s, Loop) for s in kernel.stages)
        if not has_loops and len(kernel.stages) <= _INLINE_STATEMENTS:
            return CompiledKernel(kernel, None, plans.cycles)
        stages = self._emit(kernel, plans.parallel)
        return CompiledKernel(kernel, stages, plans.cycles)

    def _emit(self, kernel: Kernel, parallel: dict[Loop, ParallelPlan]) -> list[StageFunction]:
        """Functions of the stages, each with the common loop-free statements they need."""
        groups: list[tuple[list[Statement], ParallelPlan | None]] = []
        shared: list[Statement] = []
        for stage in kernel.stages:
            pure = not any(isinstance(s, Store) for s in walk([stage]))
            if pure:
                shared.append(stage)
                for statements, _ in groups:
                    statements.append(stage)
                continue
            plan = parallel.get(stage) if isinstance(stage, Loop) else None
            if plan is None and groups and groups[-1][1] is None:
                groups[-1][0].append(stage)
            else:
                groups.append(([*shared, stage], plan))
        result = []
        for n, (statements, plan) in enumerate(groups):
            name = kernel.name if len(groups) == 1 else self.unique(f"{kernel.name}_stage{n}")
            # The dot keeps it apart from C functions: LLVM would take `floor` for libm's.
            name = f"kernel.{name}"
            if plan is None:
                self._serial_function(name, kernel, statements)
                result.append(StageFunction(name, 1))
            else:
                self._block_function(name, kernel, statements, plan)
                result.append(StageFunction(name, plan.blocks))
        return result

    def _serial_function(
        self, name: str, kernel: Kernel, statements: Sequence[Statement]
    ) -> FunctionWriter:
        buffers = arguments_of(kernel)
        w = self.module.function(name, [("ptr", b.name) for b in buffers], internal=True)
        pointers = {b: f"%{b.name}" for b in buffers}
        self.body(w, kernel, pointers).emit(statements)
        w.ret()
        return w

    def _block_function(
        self, name: str, kernel: Kernel, statements: Sequence[Statement], plan: ParallelPlan
    ) -> None:
        buffers = arguments_of(kernel)
        w = self.module.function(name, [("ptr", "context"), ("i64", "block")], internal=True)
        pointers = {b: w.load("ptr", w.gep("ptr", "%context", i)) for i, b in enumerate(buffers)}
        emitter = self.body(w, kernel, pointers)
        first = w.imul("%block", plan.chunk)
        extent = plan.loop.var.extent
        last = w.iadd(first, plan.chunk)
        if plan.blocks * plan.chunk > extent:
            last = w.imin(last, extent)
        emitter.block = (plan.loop, first, last)
        emitter.emit(statements)
        w.ret()

    def body(self, w: FunctionWriter, kernel: Kernel, pointers: dict[Buffer, str]) -> KernelEmitter:
        """An emitter for statements of a kernel in the function of `w`."""
        for buffer in kernel.buffers:
            if buffer.role is BufferRole.CONSTANT:
                assert buffer.data is not None
                pointers[buffer] = self.module.constant_bytes(buffer.data.tobytes())
            elif buffer.role is BufferRole.LOCAL:
                stored = memory_type(buffer.element_type)
                pointers[buffer] = w.alloca(stored, buffer.size, _LOCAL_ALIGNMENT)
        return KernelEmitter(w, pointers)

    def show_inline(self, module: ModuleWriter, kernel: Kernel) -> FunctionWriter:
        """A kernel that is emitted in place, as a function of another module: for reading."""
        return KernelFunctions(module)._serial_function(
            f"kernel.{kernel.name}", kernel, kernel.stages
        )

    def emit_inline(self, w: FunctionWriter, kernel: Kernel, pointers: dict[Buffer, str]) -> None:
        """The statements of a loop-free kernel, in the caller."""
        self.body(w, kernel, pointers).emit(kernel.stages)

    def compiled(self) -> list[CompiledKernel]:
        """Every kernel, in the order of first use."""
        return list(self._known.values())

    def texts(self) -> dict[str, str]:
        """Loop IR of every kernel, with its schedule."""
        return {k.kernel.name: kernel_to_text(k.kernel) for k in self._known.values()}


def arguments_of(kernel: Kernel) -> list[Buffer]:
    """Buffers the caller passes, in order."""
    own = (BufferRole.CONSTANT, BufferRole.LOCAL)
    return [b for b in kernel.buffers if b.role not in own]
