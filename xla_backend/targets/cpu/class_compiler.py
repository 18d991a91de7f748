"""What compiles programs for arrays of any sizes (`size_classes`).

A module for stand-ins of the sizes is simplified once. What it computes is the same whatever they
are, but for the order in which reductions put elements together: so the compiler's own fusion,
lowering and schedule say for certain sizes what the order is, which takes a fraction of a
millisecond. Code for an order has a loop with a run-time extent for each axis, and the lanes that
the order says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.from_hlo.scatters import count_blocks
from xla_backend.kernels.ir import BODIES, BufferRole, Kernel, Loop, LoopKind, Statement
from xla_backend.kernels.schedule.lanes import vectorise
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.llvm import objects
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.call_inliner import CallInliner
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.levels import pass_filter
from xla_backend.passes.opt_barrier_elimination import OptBarrierElimination
from xla_backend.passes.patterns import dims_of
from xla_backend.passes.reduction_splitter import ReductionSplitter
from xla_backend.passes.row_fusion import RowFusion
from xla_backend.passes.row_plan_annotator import RowPlanAnnotator
from xla_backend.passes.standard import expansion, simplification
from xla_backend.passes.tuple_simplifier import TupleSimplifier
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, in_tables
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES
from xla_backend.targets.cpu.run_time_sizes import SizedLowering, check_forms
from xla_backend.targets.cpu.schedule import schedule
from xla_backend.targets.cpu.size_classes import IN_TURN, Order, at_sizes
from xla_backend.targets.cpu.target_options import target_for


class CompiledClass(NamedTuple):
    """Code for all sizes with one order; `temporaries` with stand-ins."""

    object_code: bytes
    temporaries: tuple[Shape, ...]


class ClassCompiler:
    """Compiles a program for all sizes.

    Args:
      module: for `stand_ins` of the sizes; it is changed.

    Raises:
      UnimplementedError: an instruction has no form with run-time sizes.
    """

    def __init__(
        self, module: HloModule, stand_ins: Sequence[int], options: CompileOptions
    ) -> None:
        self.module = module
        self._stand_ins = tuple(stand_ins)
        self._options = options
        known = _constants(module)
        self._run(
            module,
            [
                CallInliner(),
                expansion(options, SORT_TYPES),
                simplification(options),
                OptBarrierElimination(),
                TupleSimplifier(),
                DeadCodeElimination(),
            ],
        )
        assert module.entry is not None
        check_forms(module.entry, self._stand_ins)
        if any(_may_be_a_size(*constant) for constant in _constants(module) - known):
            raise UnimplementedError("a constant was computed from a stand-in of a size")
        nodes = module.entry.post_order()
        # Those that look for an extreme and its place find the same in any order.
        self._reductions = [n for n in nodes if _has_order(n)]
        self._scatters = [n for n in nodes if n.opcode is Opcode.SCATTER]

    def _run(self, module: HloModule, passes: list[HloPass]) -> None:
        pipeline = Pipeline("sizes", passes, self._options)
        pipeline.selects = pass_filter(self._options)
        pipeline.run(module)

    def order(self, sizes: Sequence[int]) -> Order | None:
        """In which order the program that is compiled for certain sizes reduces; None if there is
        no code for it."""
        if not self._reductions and not self._scatters:
            return ()
        module = at_sizes(self.module, self._stand_ins, sizes)
        assert module.entry is not None
        scatters = [n for n in module.entry if n.opcode is Opcode.SCATTER]
        if any(count_blocks(node) > 1 for node in scatters):
            return None  # in parts
        in_turn = (IN_TURN,) * len(scatters)
        if not self._reductions:
            return in_turn
        self._run(module, [ReductionSplitter()])
        if len([n for n in module.entry if _has_order(n)]) != len(self._reductions):
            return None  # one after the other
        self._run(module, [LoopFusion(), RowFusion(), DeadCodeElimination(), RowPlanAnnotator()])
        found: list[int] = []
        for node in module.entry.post_order():
            called = [n for c in node.called for n in c] if node.opcode is Opcode.FUSION else [node]
            if not any(_has_order(n) for n in called):
                continue
            kernel = lower(node, "order")
            if any(b.role is BufferRole.SCRATCH for b in kernel.buffers):
                return None  # in parts
            schedule(kernel, target_for(self._options), threads=False)
            found += _widths(kernel.stages)
        if len(found) == 1:
            found *= len(self._reductions)
        if len(found) != len(self._reductions):
            return None
        if any(width and _is_over_neighbours(n) for n, width in zip(self._reductions, found)):
            return None  # lanes go along all of these at once, where the code has a loop for each
        return (*found, *in_turn)

    def compile(self, order: Order) -> CompiledClass:
        """Code for all sizes with an order: `i32 entry(ptr args, ptr outs, ptr numbers)`, with
        arrays of addresses; `numbers` are the sizes, and then addresses of temporaries."""
        entry, options = self.module.entry, self._options
        assert entry is not None
        lowering = SizedLowering(entry, self._stand_ins, order)
        kernel = lowering.builder.kernel
        target = target_for(options)
        schedule(kernel, target, threads=False)
        for loop, width in lowering.in_lanes:
            loop.may_vectorize = True
            vectorise(kernel, loop, width)
        if options.verify:
            verify_kernel(kernel, after="schedule")
        writer = ModuleWriter(target, options.fast_math)
        _write_entry(writer, kernel)
        object_code = objects.compile_object(writer.to_text(), target, cache=True)
        return CompiledClass(object_code, tuple(node.shape for node in lowering.temporaries))


def _constants(module: HloModule) -> set[tuple[str, bytes]]:
    """Types and bits of the scalar constants of a module."""
    nodes = [node for computation in module.computations for node in computation]
    arrays = [n.literal_array for n in nodes if n.is_constant and not n.shape.is_tuple]
    return {(array.dtype.str, array.tobytes()) for array in arrays if array.size == 1}


def _may_be_a_size(dtype: str, bits: bytes) -> bool:
    """Whether a constant that passes made may come of a stand-in, as the count of what was spread
    does: integers may have wrapped around, of floats it would be large, or small by a division."""
    value = np.frombuffer(bits, dtype)[0]
    if value.dtype.kind not in "fc":
        return True
    size = float(abs(value))  # 1e5 is no float16
    return not (size == 0 or 1e-5 < size < 1e5)


def _has_order(node: Instruction) -> bool:
    return node.opcode is Opcode.REDUCE and not node.shape.is_tuple


def _is_over_neighbours(node: Instruction) -> bool:
    """Whether a reduction is over two dimensions that lie side by side."""
    reduced = dims_of(node)
    return any(d + 1 in reduced for d in reduced)


def _widths(statements: Sequence[Statement]) -> Iterator[int]:
    """The lanes of each reduction of a scheduled kernel."""
    for s in statements:
        if isinstance(s, Loop) and s.kind is LoopKind.LANES and s.combination is not None:
            yield s.var.extent
        elif isinstance(s, Loop) and s.carries:
            yield 0
        elif isinstance(s, BODIES):
            yield from _widths(s.body)


def _write_entry(writer: ModuleWriter, kernel: Kernel) -> None:
    arguments = [("ptr", name) for name in ("args", "outs", "numbers")]
    w = writer.function("entry", arguments, result="i32")
    sizes = [w.load("i64", w.gep("i64", "%numbers", k)) for k in range(len(kernel.parameters))]
    tables = {
        BufferRole.OPERAND: "%args",
        BufferRole.OUTPUT: "%outs",
        BufferRole.SCRATCH: w.gep("i64", "%numbers", len(sizes)),
    }
    emitter = KernelFunctions(writer).body(w, kernel, in_tables(w, kernel, tables))
    for parameter, size in zip(kernel.parameters, sizes):
        emitter.vars[parameter] = size
    emitter.emit(kernel.stages)
    w.ret("i32", "0")
