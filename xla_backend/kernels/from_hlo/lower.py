"""From an HLO instruction (a fusion or a lone operation) to a kernel of the loop IR."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elements import HANDLERS, ElementalEmitter
from xla_backend.kernels.from_hlo.nests import (
    ReductionNest,
    pointwise_nest,
    row_edges,
    scan_axis,
    scan_nest,
)
from xla_backend.kernels.from_hlo.rows import RowNest
from xla_backend.kernels.from_hlo.scatters import (
    scatter_nest,
    select_and_scatter_nest,
    update_slice_nest,
)
from xla_backend.kernels.index import linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.passes.fusion_records import rows_of

_FREE = frozenset({Opcode.BITCAST, Opcode.RESHAPE})
_OWN_NESTS = frozenset({Opcode.SCATTER, Opcode.SELECT_AND_SCATTER})


def can_lower(node: Instruction) -> bool:
    """Whether `lower` makes a kernel of this instruction (else it needs a library call or control
    flow)."""
    opcode = node.opcode
    return (
        opcode is Opcode.FUSION
        or opcode.is_elementwise
        or opcode in _OWN_NESTS
        or (opcode in HANDLERS and opcode is not Opcode.GET_TUPLE_ELEMENT)
    )


def lower(node: Instruction, name: str, *, in_parts: bool = True) -> Kernel:
    """The kernel that computes `node` from its operands' buffers. `in_parts`: large reductions and
    scatters are cut into parts for threads, as a CPU has them.

    Buffers: `p<i>` for operand i, `out<i>` for leaf i of the result.

    Raises:
      UnimplementedError: the instruction, or one inside the fusion, has no loop form.
    """
    e, root, outputs = begin(node, name)
    roots = root.operands if root.opcode is Opcode.TUPLE else [root]
    plan = rows_of(node) if node.opcode is Opcode.FUSION else None
    if plan is not None:
        RowNest(e, plan, roots, outputs).emit()
    elif root.shape.is_tuple and root.opcode is not Opcode.TUPLE:
        _tuple_root(e, root, outputs, in_parts)
    else:
        _emit_roots(e, roots, outputs, in_parts)
    return e.builder.kernel


def begin(node: Instruction, name: str) -> tuple[ElementalEmitter, Instruction, list[Buffer]]:
    """A kernel with the buffers of an instruction or fusion and nothing in it yet: what emits into
    it, the instruction that it computes, and the buffers of its results.

    Raises:
      UnimplementedError: the instruction has no loop form.
    """
    builder = LoopBuilder(name)
    if node.opcode is Opcode.FUSION:
        computation = node.called[0]
        sources = computation.parameters
        root = computation.root
        assert root is not None
    else:
        if not can_lower(node):
            raise UnimplementedError(f"{node!r}: {node.opcode} has no loop form")
        sources = list(dict.fromkeys(node.operands))
        root = node
    leaves: dict[Instruction, Buffer] = {}
    for source in sources:
        number = (
            source.parameter_number if node.opcode is Opcode.FUSION else node.operands.index(source)
        )
        if source.shape.is_array:
            leaves[source] = builder.buffer(
                f"p{number}",
                source.shape.element_type,
                source.shape.num_elements,
                BufferRole.OPERAND,
                number,
            )
    outputs = [
        builder.buffer(f"out{i}", s.element_type, s.num_elements, BufferRole.OUTPUT, i)
        for i, s in enumerate(node.shape.flatten())
    ]
    return ElementalEmitter(builder, leaves), root, outputs


def _tuple_root(
    e: ElementalEmitter, root: Instruction, outputs: Sequence[Buffer], in_parts: bool
) -> None:
    """One instruction with several results: variadic reduce, reduce-window or scatter."""
    if root.opcode is Opcode.REDUCE:
        ReductionNest(e, [root], [outputs]).emit(in_parts)
    elif root.opcode is Opcode.SCATTER:
        scatter_nest(e, root, outputs, range(len(outputs)), in_parts=in_parts)
    elif root.opcode is Opcode.REDUCE_WINDOW:
        scan = scan_axis(root)
        if scan is not None:
            scan_nest(e, root, outputs, *scan)
            return
        _variadic_pointwise(e, root, outputs, root.shape.tuple_shapes[0].dimensions)
    else:
        raise UnimplementedError(
            f"{root!r}: a tuple-shaped {root.opcode} cannot be the root of a kernel"
        )


def _variadic_pointwise(
    e: ElementalEmitter, root: Instruction, outputs: Sequence[Buffer], dims: Sequence[int]
) -> None:
    if 0 in dims:
        return
    index = []
    for n, d in enumerate(dims):
        var, _ = e.builder.open_loop(d, independent=True, may_vectorize=n == len(dims) - 1)
        index.append(var)
    elements = e.value(root, tuple(index))
    for output, element in zip(outputs, elements):  # type: ignore[arg-type]
        e.store(output, linearize(index, dims), element)
    for _ in dims:
        e.builder.close_loop()


def _through_free(node: Instruction, e: ElementalEmitter) -> Instruction:
    """The instruction under reshapes: same elements in the same order."""
    while node.opcode in _FREE and node not in e.leaves and node.operands[0].shape.is_array:
        node = node.operands[0]
    return node


def _emit_roots(
    e: ElementalEmitter, roots: Sequence[Instruction], outputs: Sequence[Buffer], in_parts: bool
) -> None:
    pointwise: dict[tuple[int, ...], list[int]] = {}
    reduces: dict[tuple, list[tuple[Instruction, int, int]]] = {}
    updates: list[tuple[Instruction, int]] = []
    for number, root in enumerate(roots):
        core = _through_free(root, e)
        part = 0
        if core.opcode is Opcode.GET_TUPLE_ELEMENT and core not in e.leaves:
            part, core = core.tuple_index, core.operands[0]
        if core in e.leaves:
            pointwise.setdefault(root.shape.dimensions, []).append(number)
        elif core.opcode is Opcode.REDUCE:
            key = (core.operands[0].shape.dimensions, tuple(sorted(attrs(core).dimensions)))
            reduces.setdefault(key, []).append((core, part, number))
        elif core.opcode is Opcode.REDUCE_WINDOW and scan_axis(core) is not None:
            axis, reverse = scan_axis(core)  # type: ignore[misc]
            places: list[Buffer | None] = [None] * (len(core.operands) // 2)
            places[part] = outputs[number]
            scan_nest(e, core, places, axis, reverse)
        elif core.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
            updates.append((core, number))
        elif core.opcode is Opcode.SCATTER and not core.shape.is_tuple:
            scatter_nest(e, core, [outputs[number]], [number], in_parts=in_parts)
        elif core.opcode is Opcode.SELECT_AND_SCATTER:
            select_and_scatter_nest(e, core, outputs[number])
        elif core.opcode is Opcode.CONCATENATE and core is root:
            _concatenate_nests(e, core, outputs[number])
        else:
            pointwise.setdefault(root.shape.dimensions, []).append(number)
    for numbers in pointwise.values():
        pointwise_nest(e, [roots[n] for n in numbers], [outputs[n] for n in numbers])
    for entries in reduces.values():
        nodes = list(dict.fromkeys(node for node, _, _ in entries))
        wanted: list[list[Buffer | None]] = [[None] * (len(n.operands) // 2) for n in nodes]
        for node, part, number in entries:
            wanted[nodes.index(node)][part] = outputs[number]
        ReductionNest(e, nodes, wanted).emit(in_parts)
    # In-place updates last: the others may still read what they overwrite.
    for node, number in updates:
        update_slice_nest(e, node, outputs[number], number)


def _concatenate_nests(e: ElementalEmitter, node: Instruction, output: Buffer) -> None:
    """One nest for each operand: no element asks which operand it comes from."""
    axis = attrs(node).dimensions[0]
    dims = node.shape.dimensions
    offset = 0
    for operand in node.operands:
        start = offset

        def place(index, start=start):  # type: ignore[no-untyped-def]
            return linearize([i + start if d == axis else i for d, i in enumerate(index)], dims)

        edges = row_edges(operand.shape.dimensions, dims)
        pointwise_nest(e, [operand], [output], operand.shape.dimensions, place, edges)
        offset += operand.shape.dimensions[axis]
