"""Elementwise programs for any number of elements: one native function serves every shape.

`compile_elementwise` takes a module whose arrays are scalars or 1-D of one common length (which
stands for any length) and gives `i32 entry_n(ptr args, ptr outs, i64 n)`: a serial vector loop and
a masked tail. The bits are those of the same program compiled for a fixed length, because each
element goes through the same operations.
"""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elements import ElementalEmitter
from xla_backend.kernels.from_hlo.nests import pointwise_nest
from xla_backend.kernels.index import MOST_ELEMENTS
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm import objects
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.call_inliner import CallInliner
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.levels import pass_filter
from xla_backend.passes.opt_barrier_elimination import OptBarrierElimination
from xla_backend.passes.standard import expansion, simplification
from xla_backend.passes.tuple_simplifier import TupleSimplifier
from xla_backend.targets.cpu.elementwise_code import (
    ElementwiseCode,
    ElementwiseFacts,
    NotElementwise,
)
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, in_tables
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES
from xla_backend.targets.cpu.schedule import schedule
from xla_backend.targets.cpu.target_options import target_for

_SAME_ELEMENTS = frozenset({Opcode.BROADCAST, Opcode.RESHAPE, Opcode.BITCAST, Opcode.COPY})


def compile_elementwise(
    module: HloModule, options: CompileOptions | None = None, *, cache: bool = True
) -> ElementwiseCode:
    """Simplify `module` (in place) and generate code for it that takes any number of elements.

    The entry takes scalars and 1-D arrays of one length, at least 2 (large ones keep the
    simplifier from treating the length as special: 4096 is a good choice), and returns an array or
    a tuple of arrays of those shapes. `cache`: look for object code on disk, and keep it there.

    Raises:
      NotElementwise: an instruction is not elementwise, or lengths differ.
    """
    options = options or CompileOptions()
    facts, stages = _write(module, options)
    object_code = objects.compile_object(stages.llvm_ir, target_for(options), cache=cache)
    return ElementwiseCode(facts, object_code, lambda: stages)


class CompiledElementwise(NamedTuple):
    """What a program went through: the simplified HLO, its kernel, and that as LLVM text."""

    module: HloModule
    kernel: Kernel
    llvm_ir: str

    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""
        return {self.kernel.name: kernel_to_text(self.kernel)}


def elementwise_stages(module: HloModule, options: CompileOptions) -> CompiledElementwise:
    """What `compile_elementwise` goes through for a module, which stays as it is."""
    return _write(module.clone(), options)[1]


def _write(
    module: HloModule, options: CompileOptions
) -> tuple[ElementwiseFacts, CompiledElementwise]:
    passes: list[HloPass] = [
        CallInliner(),
        expansion(options, SORT_TYPES),
        simplification(options),
        OptBarrierElimination(),
        TupleSimplifier(),
        DeadCodeElimination(),
    ]
    pipeline = Pipeline("elementwise", passes, options)
    pipeline.selects = pass_filter(options)
    pipeline.run(module)
    roots = _checked_roots(module)
    assert module.entry is not None
    kernel = _lower(module.entry, roots)
    target = target_for(options)
    cycles = schedule(kernel, target, threads=False).cycles
    writer = ModuleWriter(target, options.fast_math)
    _write_entry(writer, kernel)
    parameters = tuple(p.shape for p in module.entry.parameters)
    facts = ElementwiseFacts(parameters, tuple(r.shape for r in roots), cycles / MOST_ELEMENTS)
    return facts, CompiledElementwise(module, kernel, writer.to_text())


def _checked_roots(module: HloModule) -> list[Instruction]:
    """The instructions whose values the entry returns, once all of it is known to fit."""
    entry = module.entry
    assert entry is not None and entry.root is not None
    if module.aliases:
        raise NotElementwise(f"module {module.name!r} donates arguments")
    root = entry.root
    lengths: set[int] = set()
    for node in entry:
        if node is root and node.opcode is Opcode.TUPLE:
            continue
        _check(node)
        lengths.update(node.shape.dimensions)
    if len(lengths) > 1 or any(n < 2 for n in lengths):
        raise NotElementwise(
            f"module {module.name!r} has arrays of {sorted(lengths)} elements: give all one "
            f"length of at least 2"
        )
    return entry.outputs


def _check(node: Instruction) -> None:
    """Raise unless element i of the node needs elements i of its operands only."""
    if not node.shape.is_array or node.shape.rank > 1:
        raise NotElementwise(f"{node!r} is neither a scalar nor a 1-D array")
    if node.opcode is Opcode.PARAMETER:
        return
    if node.opcode is Opcode.CONSTANT and (not node.shape.rank or attrs(node).literal.is_splat):
        return
    ranks = {o.shape.rank for o in node.operands}
    if node.opcode in _SAME_ELEMENTS:
        spreads = node.opcode is Opcode.BROADCAST and ranks == {0}
        if spreads or ranks == {node.shape.rank}:
            return
    elif node.opcode.is_elementwise:
        if node.opcode is not Opcode.BITCAST_CONVERT or ranks == {node.shape.rank}:
            return
    raise NotElementwise(f"{node!r} is not elementwise")


def _lower(entry: Computation, roots: list[Instruction]) -> Kernel:
    """One kernel for the whole program: nothing lies in memory between two operations."""
    builder = LoopBuilder("entry_n")
    n = builder.parameter("n", (0, MOST_ELEMENTS))

    def buffer(name: str, node: Instruction, role: BufferRole, number: int) -> Buffer:
        size = n if node.shape.dimensions else 1
        return builder.buffer(name, node.shape.element_type, size, role, number)

    leaves = {p: buffer(f"p{i}", p, BufferRole.OPERAND, i) for i, p in enumerate(entry.parameters)}
    outputs = [buffer(f"out{i}", r, BufferRole.OUTPUT, i) for i, r in enumerate(roots)]
    e = ElementalEmitter(builder, leaves)
    scalars = [i for i, r in enumerate(roots) if not r.shape.dimensions]
    if scalars:
        chosen = [roots[i] for i in scalars]
        pointwise_nest(e, chosen, [outputs[i] for i in scalars])
    arrays = [i for i, r in enumerate(roots) if r.shape.dimensions]
    if arrays:
        index, _ = builder.open_loop(n, independent=True, may_vectorize=True)
        elements = [e.value(roots[i], (index,)) for i in arrays]
        for i, element in zip(arrays, elements):
            e.store(outputs[i], index, element)
        builder.close_loop()
    return builder.kernel


def _write_entry(writer: ModuleWriter, kernel: Kernel) -> None:
    w = writer.function("entry_n", [("ptr", "args"), ("ptr", "outs"), ("i64", "n")], result="i32")
    tables = {BufferRole.OPERAND: "%args", BufferRole.OUTPUT: "%outs"}
    emitter = KernelFunctions(writer).body(w, kernel, in_tables(w, kernel, tables))
    for parameter in kernel.parameters:
        emitter.vars[parameter] = f"%{parameter.name}"
    emitter.emit(kernel.stages)
    w.ret("i32", "0")
