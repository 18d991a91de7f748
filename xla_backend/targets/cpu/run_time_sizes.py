"""Programs whose arrays have sizes that are known when they run: one native function serves all.

The module that comes in is written for stand-ins: dimensions of a size in `sizes` are dimensions of
run-time size, and parameter k, an integer scalar, holds the one that `sizes[k]` stands for. No pass
that computes with sizes sees such a module. All of it becomes one kernel whose loops have run-time
extents: a nest for each reduction, then one for each shape of results; what lies between is fused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elements import Element, ElementalEmitter, Indices
from xla_backend.kernels.from_hlo.first_extremes import direction_of
from xla_backend.kernels.from_hlo.reductions import Reduction
from xla_backend.kernels.from_hlo.scatters import (
    combine_into,
    scatter_operands,
    scatter_target,
    walk_order,
)
from xla_backend.kernels.index import MOST_ELEMENTS, ZERO, Index, Parameter
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Loop, Value
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.llvm import jit, objects
from xla_backend.llvm.types import register_type
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.passes.base import Pipeline
from xla_backend.passes.call_inliner import CallInliner
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.opt_barrier_elimination import OptBarrierElimination
from xla_backend.passes.tuple_simplifier import TupleSimplifier
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, in_tables
from xla_backend.targets.cpu.native import NativeExecutable, Temporaries
from xla_backend.targets.cpu.schedule import schedule
from xla_backend.targets.cpu.target_options import target_for

# A program on fewer bytes is not worth releasing the interpreter lock.
_TINY_BYTES = 1 << 17
# What is subtracted from a size, at most, is told from another size.
_MOST_FROM_SIZES = 8
# Larger dimensions that are no stand-ins were computed from some.
_LARGEST_KNOWN = 1 << 24
_PLAIN = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.CONSTANT,
        Opcode.BROADCAST,
        Opcode.TRANSPOSE,
        Opcode.COPY,
        Opcode.IOTA,
    }
)
# `i32 entry(ptr args, ptr outs, ptr temps)`: arrays of addresses.
_SIGNATURE = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)


class SizedCode:
    """Native code of a program with run-time sizes; shapes hold the stand-ins."""

    def __init__(
        self,
        module: HloModule,
        sizes: tuple[int, ...],
        outputs: Sequence[Shape],
        temporaries: Sequence[Shape],
        library: jit.Library,
        loop_ir: str,
    ) -> None:
        assert module.entry is not None
        self.module = module
        self.sizes = sizes
        self.library = library
        self.loop_ir = loop_ir
        self.parameter_shapes = [p.shape for p in module.entry.parameters]
        self.output_shapes = list(outputs)
        self.temporary_shapes = list(temporaries)

    def at(self, values: Sequence[int], device: Device) -> SizedExecutable:
        """The program where the run-time sizes are `values`."""
        return SizedExecutable(self, dict(zip(self.sizes, values)), device)


class SizedExecutable(NativeExecutable):
    """A program at certain sizes; all sizes share its native code."""

    held_bytes = 1 << 13

    def __init__(self, code: SizedCode, values: Mapping[int, int], device: Device) -> None:
        def actual(shapes: Sequence[Shape]) -> list[Shape]:
            return [
                s.with_dimensions(tuple(values.get(d, d) for d in s.dimensions)) for s in shapes
            ]

        parameters, outputs = actual(code.parameter_shapes), actual(code.output_shapes)
        super().__init__(device, parameters, outputs)
        self.module = code.module
        temporaries = Temporaries(s.byte_size for s in actual(code.temporary_shapes))
        moved = temporaries.size + sum(s.byte_size for s in (*parameters, *outputs))
        entry = code.library.function("entry", *_SIGNATURE, keeps_gil=moved < _TINY_BYTES)
        self._call = lambda arguments, outputs: temporaries.lent_to(
            lambda addresses: entry(arguments, outputs, addresses)
        )


def compile_sized(
    module: HloModule, sizes: Sequence[int], options: CompileOptions | None = None
) -> SizedCode:
    """Generate code for a module (which is changed) with dimensions of run-time size.

    Args:
      sizes: what stands for them; none is a size that is known. The first parameters are integer
        scalars, one for each.
    Raises:
      UnimplementedError: an instruction has no form with run-time sizes.
    """
    options = options or CompileOptions()
    passes = [CallInliner(), OptBarrierElimination(), TupleSimplifier(), DeadCodeElimination()]
    Pipeline("run-time sizes", passes, options).run(module)
    assert module.entry is not None
    lowering = SizedLowering(module.entry, sizes)
    kernel = lowering.builder.kernel
    if options.verify:
        verify_kernel(kernel)
    target = target_for(options)
    schedule(kernel, target, threads=False)
    if options.verify:
        verify_kernel(kernel, after="schedule")
    writer = ModuleWriter(target, options.fast_math)
    _write_entry(writer, kernel, module.entry)
    library = jit.Library(objects.compile_object(writer.to_text(), target, cache=True))
    outputs = [r.shape for r in module.entry.outputs]
    temporaries = [node.shape for node in lowering.temporaries]
    return SizedCode(module, tuple(sizes), outputs, temporaries, library, kernel_to_text(kernel))


class _Emitter(ElementalEmitter):
    """Elements of arrays whose sizes may be parameters of the kernel."""

    sizes_are_known = False

    def __init__(
        self, builder: LoopBuilder, leaves: dict[Instruction, Buffer], sizes: dict[int, Parameter]
    ) -> None:
        super().__init__(builder, leaves)
        self.sizes = sizes

    def _produce(self, node: Instruction, index: Indices) -> Element:
        buffer = self.leaves.get(node)
        if buffer is not None:
            at = self.place(index, node.shape.dimensions)
            return self.load(buffer, at, node.shape.element_type)
        if node.opcode is Opcode.RESHAPE:
            kept = iter([i for i, d in zip(index, node.shape.dimensions) if d != 1])
            dims = node.operands[0].shape.dimensions
            return self.value(node.operands[0], tuple(ZERO if d == 1 else next(kept) for d in dims))
        return super()._produce(node, index)

    def place(self, index: Sequence[Index], dimensions: Sequence[int]) -> Index:
        """The row-major offset of an element."""
        at = ZERO
        for position, size in zip(index, dimensions):
            at = self._times(at, size) + position
        return at

    def _times(self, at: Index, size: int) -> Index:
        parameter = self.sizes.get(size)
        if parameter is None:
            return at * size
        if at == ZERO:
            return at
        b, type = self.builder, PrimitiveType.S64
        factors = (b.index_value(at, type), b.index_value(Index.of(parameter), type))
        return Index.of(b.compute(Opcode.MULTIPLY, type, factors, bounds=(0, MOST_ELEMENTS)))


class _SizesBuilder(LoopBuilder):
    """Integers that a stand-in gives, as the last index is, are given by the size itself."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sizes: Mapping[int, Parameter] = {}

    def constant(self, type: PrimitiveType, value: object) -> Value:
        if type in (PrimitiveType.S32, PrimitiveType.U32, PrimitiveType.S64, PrimitiveType.U64):
            number = int(value)  # type: ignore[call-overload]
            for size, parameter in self.sizes.items():
                if abs(number - size) <= _MOST_FROM_SIZES:
                    return self.index_value(Index.of(parameter) + (number - size), type)
        return super().constant(type, value)


class SizedLowering:
    """The kernel of a module: a nest for each reduction, then the results.

    Args:
      widths: of each reduction, in order, how many lanes have partial results of their own; 0: none
        have, each result is carried along in order. By default the schedule chooses.

    Attributes:
      in_lanes: the loops that are to run in so many lanes.
    """

    def __init__(
        self, entry: Computation, sizes: Sequence[int], widths: Sequence[int] | None = None
    ) -> None:
        b = self.builder = LoopBuilder("entry") if widths is None else _SizesBuilder("entry")
        self.sizes = {d: b.parameter(f"n{k}", (0, MOST_ELEMENTS)) for k, d in enumerate(sizes)}
        if isinstance(b, _SizesBuilder):
            b.sizes = self.sizes
        self.in_lanes: list[tuple[Loop, int]] = []
        roots = entry.outputs
        leaves: dict[Instruction, Buffer] = {}
        self.e = _Emitter(b, leaves, self.sizes)
        for k, p in enumerate(entry.parameters):
            leaves[p] = self._buffer(f"p{k}", p, BufferRole.OPERAND, k)
        outputs = [self._buffer(f"out{i}", r, BufferRole.OUTPUT, i) for i, r in enumerate(roots)]
        self.temporaries: list[Instruction] = []
        finished: set[int] = set()
        check_forms(entry, () if widths is None else sizes)
        reductions = [node for node in entry.post_order() if node.opcode is Opcode.REDUCE]
        chosen = iter(() if widths is None else widths)
        for node in reductions:
            width = None if widths is None or node.shape.is_tuple else next(chosen)
            if node is reductions[-1] and widths is not None and _all_follow(node, entry):
                # What is computed from it alone is computed where it is.
                self._reduction(node, [None], width, dict(zip(roots, outputs)))
                return
            places: list[Buffer | None] = []
            for value in _values_of(node):
                if value is None:
                    places.append(None)
                elif value in roots:
                    finished.add(roots.index(value))
                    leaves[value] = outputs[roots.index(value)]
                else:
                    number = len(self.temporaries)
                    self.temporaries.append(value)
                    leaves[value] = self._buffer(f"t{number}", value, BufferRole.SCRATCH, number)
                if value is not None:
                    places.append(leaves[value])
            self._reduction(node, places, width)
        for i, root in enumerate(roots):
            if root.opcode is Opcode.SCATTER:
                finished.add(i)
                self._scatter(root, outputs[i])
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, root in enumerate(roots):
            if i not in finished:
                groups.setdefault(root.shape.dimensions, []).append(i)
        for numbers in groups.values():
            self._pointwise([roots[i] for i in numbers], [outputs[i] for i in numbers])

    def _buffer(self, name: str, node: Instruction, role: BufferRole, number: int) -> Buffer:
        """As large as any array where one of its sizes is known at run time only."""
        known = all(d not in self.sizes for d in node.shape.dimensions)
        size = node.shape.num_elements if known else MOST_ELEMENTS
        return self.builder.buffer(name, node.shape.element_type, size, role, number)

    def _open(self, sizes: Sequence[int], in_lanes: bool = True) -> Indices:
        """Independent loops, the last one vectorisable."""
        index = []
        for i, size in enumerate(sizes):
            last = in_lanes and i == len(sizes) - 1
            extent = self.sizes.get(size, size)
            var, _ = self.builder.open_loop(extent, independent=True, may_vectorize=last)
            index.append(var)
        return tuple(index)

    def _close(self, count: int) -> None:
        for _ in range(count):
            self.builder.close_loop()

    def _pointwise(self, nodes: Sequence[Instruction], outputs: Sequence[Buffer]) -> None:
        dims = nodes[0].shape.dimensions
        if 0 in dims:
            return
        index = self._open(dims)
        elements = [self.e.value(node, index) for node in nodes]
        at = self.e.place(index, dims)
        for element, output in zip(elements, outputs):
            self.e.store(output, at, element)
        self._close(len(dims))

    def _scatter(self, node: Instruction, output: Buffer) -> None:
        """Updates in their order."""
        (source,), _, (updates,) = scatter_operands(node)
        self._pointwise([source], [output])
        b, a, dims = self.builder, attrs(node), updates.shape.dimensions
        order = walk_order(node)
        at: list[Index] = [ZERO] * len(dims)
        for d in order:
            is_window = d in a.update_window_dims
            at[d], _ = b.open_loop(
                self.sizes.get(dims[d], dims[d]),
                independent=is_window or a.unique_indices,
                may_vectorize=d == order[-1] and is_window,
            )
        target, inside = scatter_target(self.e, node, at)
        assert inside is None or isinstance(inside, Value)
        combine_into(self.e, node, [output], tuple(at), target, inside)
        self._close(len(order))

    def _reduction(
        self,
        node: Instruction,
        outputs: Sequence[Buffer | None],
        width: int | None,
        following: Mapping[Instruction, Buffer] = MappingProxyType({}),
    ) -> None:
        """The nest of a reduction, which stores what it gives, and results that follow from it."""
        e, b = self.e, self.builder
        count = len(node.operands) // 2
        operands, inits = node.operands[:count], node.operands[count:]
        dims, reduced = operands[0].shape.dimensions, attrs(node).dimensions
        kept = tuple(n for d, n in enumerate(dims) if d not in reduced)
        if 0 in kept:
            return
        types = [o.shape.element_type for o in operands]
        reduction = Reduction(e, node.called[0], types, direction_of(node))
        outer = self._open(kept, in_lanes=not width)
        carried: list[Value] = reduction.widen([e.value(init, ()) for init in inits])
        along = [d for d in range(len(dims)) if d in reduced]
        if all(dims[d] for d in along):
            position = dict(zip([d for d in range(len(dims)) if d not in reduced], outer))
            for d in along:
                position[d], carried = b.open_loop(
                    self.sizes.get(dims[d], dims[d]),
                    inits=carried,
                    may_vectorize=width is None and d == along[-1] and reduction.lanes_allowed,
                )
            index = tuple(position[d] for d in range(len(dims)))
            elements = reduction.widen([e.value(o, index) for o in operands])
            carried = reduction.accumulate(carried, elements)
            combiner = reduction.combiner() if reduction.lanes_allowed else None
            for d in reversed(along):
                loop = b.innermost
                carried = b.close_loop(carried, combiner, reduction.identities())
                if width and d == along[-1]:
                    self.in_lanes.append((loop, width))
        results = reduction.narrow(carried)
        at = e.place(outer, kept)
        for output, element in zip(outputs, results):
            if output is not None:
                e.store(output, at, element)
        if following:
            e.provided[node] = lambda node, index: results[0]
        for root, place in following.items():
            e.store(place, at, e.value(root, outer))
        self._close(len(kept))


def _values_of(node: Instruction) -> list[Instruction | None]:
    """What a reduction gives, by the instructions that have it; None: nobody reads it."""
    if not node.shape.is_tuple:
        return [node]
    values: list[Instruction | None] = [None] * len(node.shape.tuple_shapes)
    for user in node.users:
        values[user.tuple_index] = user
    return values


def _all_follow(node: Instruction, entry: Computation) -> bool:
    """Whether all results have the dimensions of a node, and what depends on it needs no other
    element of it than the one at its own place."""
    others = any(root.shape.dimensions != node.shape.dimensions for root in entry.outputs)
    if others or node.shape.is_tuple or node in entry.outputs:
        return False
    following = {node}
    for next in entry.post_order():
        if next.opcode is not Opcode.TUPLE and any(o in following for o in next.operands):
            if not next.opcode.is_elementwise:
                return False
            following.add(next)
    return len(set(entry.outputs)) == len(entry.outputs)


def check_forms(entry: Computation, stand_ins: Collection[int] = ()) -> None:
    """Raise unless all of the program has a form with run-time sizes. `stand_ins`: of a program
    whose integers tell sizes, too."""
    refused = [
        node
        for node in entry.post_order()
        if not _has_form(node, node is entry.root)
        and not (stand_ins and _has_form_in_class(node, stand_ins))
    ]
    for node in entry.post_order() if stand_ins else ():
        if any(d > _LARGEST_KNOWN and d not in stand_ins for d in node.shape.dimensions):
            refused.append(node)
    refused.sort(key=lambda node: node.opcode in (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT))
    if refused:
        origin = refused[0].metadata.op_name
        raise UnimplementedError(
            f"{refused[0].opcode.value} {refused[0].name!r}{f' of {origin}' if origin else ''} has "
            "no form with sizes that are known at run time only"
        )


def _has_form_in_class(node: Instruction, stand_ins: Collection[int]) -> bool:
    if node.opcode is Opcode.SLICE:
        return not any(d in stand_ins for d in node.operands[0].shape.dimensions)
    if node.opcode is Opcode.SCATTER:
        users = [user for user in node.users if user.opcode is not Opcode.TUPLE]
        return not users and not node.shape.is_tuple
    if node.opcode is Opcode.REDUCE:
        return direction_of(node) is not None
    if node.opcode is Opcode.GET_TUPLE_ELEMENT:
        return node.operands[0].opcode is Opcode.REDUCE
    return node.opcode is Opcode.GATHER


def _has_form(node: Instruction, is_root: bool) -> bool:
    opcode = node.opcode
    if opcode is Opcode.TUPLE:
        return is_root
    if opcode is Opcode.BITCAST_CONVERT:
        return node.shape.rank == node.operands[0].shape.rank
    if opcode is Opcode.REDUCE:
        return not node.shape.is_tuple
    if opcode is Opcode.SLICE:
        a = attrs(node)
        return not any(a.starts) and all(stride == 1 for stride in a.strides)
    if opcode is Opcode.RESHAPE:
        old, new = (s.dimensions for s in (node.operands[0].shape, node.shape))
        return [d for d in old if d != 1] == [d for d in new if d != 1]
    return opcode in _PLAIN or opcode.is_elementwise


def _write_entry(writer: ModuleWriter, kernel: Kernel, entry: Computation) -> None:
    tables = {
        BufferRole.OPERAND: "%args",
        BufferRole.OUTPUT: "%outs",
        BufferRole.SCRATCH: "%temps",
    }
    arguments = [("ptr", name) for name in ("args", "outs", "temps")]
    w = writer.function("entry", arguments, result="i32")
    pointers = in_tables(w, kernel, tables)
    emitter = KernelFunctions(writer).body(w, kernel, pointers)
    for k, parameter in enumerate(kernel.parameters):
        type = register_type(entry.parameters[k].shape.element_type)
        size = w.load(type, pointers[kernel.buffers[k]])
        emitter.vars[parameter] = size if type == "i64" else w.cast("sext", type, size, "i64")
    emitter.emit(kernel.stages)
    w.ret("i32", "0")
