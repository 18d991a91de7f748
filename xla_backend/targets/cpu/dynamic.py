"""Elementwise programs for any number of elements: one native function serves every shape.

`compile_elementwise` takes a module whose arrays are scalars or 1-D of one common length (which
stands for any length) and gives `i32 entry_n(ptr args, ptr outs, i64 n)`: a serial vector loop and
a masked tail. The bits are those of the same program compiled for a fixed length, because each
element goes through the same operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.nests import pointwise_nest
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Loop
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm import jit, objects
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.call_inliner import CallInliner
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.opt_barrier_elimination import OptBarrierElimination
from xla_backend.passes.tuple_simplifier import TupleSimplifier
from xla_backend.targets.cpu.emitter import KernelEmitter, is_heavy
from xla_backend.targets.cpu.pass_levels import pass_filter
from xla_backend.targets.cpu.pipeline import PIPELINES, expansion, simplification
from xla_backend.targets.cpu.schedule import schedule
from xla_backend.targets.cpu.target_options import target_for

# Stands for n while loops are built: a whole number of vectors, and too large for 32-bit indices.
_ANY_EXTENT = 1 << 40
_SAME_ELEMENTS = frozenset({Opcode.BROADCAST, Opcode.RESHAPE, Opcode.BITCAST, Opcode.COPY})


class NotElementwise(HloError, ValueError):
    """The module is not an elementwise program over one length; compile it for its shapes."""


class DynamicExecutable:
    """Native code for an elementwise program of any length n >= 0.

    `library` has `i32 entry_n(ptr args, ptr outs, i64 n)` with arrays of addresses; it never
    fails (returns 0), is safe for concurrent callers, and an output may share memory with an
    argument only if they are the same array. Shapes hold the length the module was written for.
    """

    def __init__(
        self,
        module: HloModule,
        kernel: Kernel,
        outputs: list[Shape],
        library: jit.Library,
        llvm_ir: str,
        cycles_per_element: float,
    ) -> None:
        assert module.entry is not None and module.entry.root is not None
        self.module = module
        self.library = library
        self.llvm_ir = llvm_ir
        self.loop_ir = {kernel.name: kernel_to_text(kernel)}
        self.parameter_shapes: list[Shape] = [p.shape for p in module.entry.parameters]
        self.output_shapes = outputs
        self.output_is_tuple = module.entry.root.shape.is_tuple
        # Rough estimate, for choosing between this and a program that uses several threads.
        self.cycles_per_element = cycles_per_element
        self._entry = library.function(
            "entry_n", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
        )

    def execute(self, arguments: Sequence[np.ndarray], n: int) -> list[np.ndarray]:
        """Run on NumPy arrays of `n` elements (and scalars) and return new ones.

        Raises:
          ValueError: number, lengths or dtypes of the arguments do not fit.
        """
        if len(arguments) != len(self.parameter_shapes):
            raise ValueError(
                f"program {self.module.name!r} takes {len(self.parameter_shapes)} arrays, "
                f"got {len(arguments)}"
            )
        held = []
        for i, (argument, shape) in enumerate(zip(arguments, self.parameter_shapes)):
            array = np.asarray(argument, order="C")
            dims = (n,) if shape.dimensions else ()
            dtype = shape.element_type.numpy_dtype
            if array.shape != dims or array.dtype != dtype:
                raise ValueError(
                    f"argument {i} of program {self.module.name!r} must be {dtype}{list(dims)}, "
                    f"got {array.dtype}{list(array.shape)}"
                )
            held.append(array)
        outputs = [
            np.empty((n,) if s.dimensions else (), s.element_type.numpy_dtype)
            for s in self.output_shapes
        ]
        self._entry(_addresses(held), _addresses(outputs), n)
        return outputs


def compile_elementwise(
    module: HloModule, options: CompileOptions | None = None
) -> DynamicExecutable:
    """Simplify `module` (in place) and generate code for it that takes any number of elements.

    The entry takes scalars and 1-D arrays of one length, at least 2 (large ones keep the
    simplifier from treating the length as special: 4096 is a good choice), and returns an array or
    a tuple of arrays of those shapes.

    Raises:
      NotElementwise: an instruction is not elementwise, or lengths differ.
    """
    options = options or CompileOptions()
    passes: list[HloPass] = [
        CallInliner(),
        expansion(options),
        simplification(options),
        OptBarrierElimination(),
        TupleSimplifier(),
        DeadCodeElimination(),
    ]
    pipeline = Pipeline("elementwise", passes, options)
    pipeline.selects = pass_filter(options, PIPELINES)
    pipeline.run(module)
    roots = _checked_roots(module)
    outputs = [r.shape for r in roots]
    kernel = _lower(module.entry, roots)  # type: ignore[arg-type]
    target = target_for(options)
    plan = schedule(kernel, target)
    writer = ModuleWriter(target, options.fast_math)
    _write_entry(writer, kernel)
    llvm_ir = writer.to_text()
    object_code = objects.compile_object(llvm_ir, target, cache=True)
    return DynamicExecutable(
        module,
        kernel,
        outputs,
        jit.Library(object_code),
        llvm_ir,
        plan.cycles / _ANY_EXTENT,
    )


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
    return list(root.operands) if root.opcode is Opcode.TUPLE else [root]


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
    for node in entry:
        if node.shape.is_array and node.shape.dimensions:
            node.shape = node.shape.with_dimensions([_ANY_EXTENT])
    builder = LoopBuilder("entry_n")
    leaves = {
        p: builder.buffer(
            f"p{i}", p.shape.element_type, p.shape.num_elements, BufferRole.OPERAND, i
        )
        for i, p in enumerate(entry.parameters)
    }
    buffers = [
        builder.buffer(f"out{i}", r.shape.element_type, r.shape.num_elements, BufferRole.OUTPUT, i)
        for i, r in enumerate(roots)
    ]
    e = ElementalEmitter(builder, leaves)
    for rank in (0, 1):
        chosen = [i for i, r in enumerate(roots) if r.shape.rank == rank]
        if chosen:
            pointwise_nest(e, [roots[i] for i in chosen], [buffers[i] for i in chosen])
    return builder.kernel


def _write_entry(writer: ModuleWriter, kernel: Kernel) -> None:
    w = writer.function("entry_n", [("ptr", "args"), ("ptr", "outs"), ("i64", "n")], result="i32")
    pointers: dict[Buffer, str] = {}
    for buffer in kernel.buffers:
        if buffer.role is BufferRole.CONSTANT:
            assert buffer.data is not None
            pointers[buffer] = writer.constant_bytes(buffer.data.tobytes())
        else:
            table = "%args" if buffer.role is BufferRole.OPERAND else "%outs"
            pointers[buffer] = w.load("ptr", w.gep("ptr", table, buffer.number))
    emitter = KernelEmitter(w, pointers)
    for stage in kernel.stages:
        if isinstance(stage, Loop):
            assert not stage.carries, "an elementwise loop carries nothing"
            _write_loop(w, emitter, stage)
        else:
            emitter.emit([stage])
    w.ret("i32", "0")


def _write_loop(w: FunctionWriter, emitter: KernelEmitter, loop: Loop) -> None:
    """`loop` for n rounds: whole groups of lanes, then the rest under a mask."""
    lanes = loop.vector
    if lanes == 1:
        with w.loop("0", "%n") as handle:
            emitter.vars[loop.var] = handle.index
            emitter.emit(loop.body)
        return
    heavy = is_heavy(loop)
    whole = "%n" if heavy else w.op("and", "i64", "%n", str(-lanes))
    with w.loop("0", whole, lanes) as handle:
        mask = w.active_mask(lanes, handle.index, "%n") if heavy else None
        emitter.enter_lanes(loop, handle.index, mask)
        emitter.emit(loop.body)
        emitter.leave_lanes()
    if heavy:
        return
    with w.if_(w.cmp("slt", "i64", whole, "%n")):
        emitter.enter_lanes(loop, whole, w.active_mask(lanes, whole, "%n"))
        emitter.emit(loop.body)
        emitter.leave_lanes()


def _addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    table = (ctypes.c_void_p * max(1, len(arrays)))()
    for i, array in enumerate(arrays):
        table[i] = array.ctypes.data
    return table
