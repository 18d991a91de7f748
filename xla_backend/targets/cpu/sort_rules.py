"""sort: a permutation first (argsort by each key, or merge sort with any comparator), then the
operands are gathered by it, but for numbers of places, which are the permutation. A lone operand
with a plain order is sorted directly. Where all that is read of it is the first few of each row, as
of the k largest, it finds no others, and some others, as of a quantile, it orders around those."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xla_backend.hlo.attributes import IotaAttributes, SortAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.passes.patterns import read_leaves
from xla_backend.passes.sort_keys import SortKey, sort_keys
from xla_backend.passes.sort_readers import places_read
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import KernelOperand, Launch, Library, Slice, Step, aligned
from xla_backend.program.kernel_table import computation_key
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.row_types import PARTITIONED_PLACES
from xla_backend.targets.cpu.rules import RULES, cycles_of

P = PrimitiveType
Layout = tuple[int, int, int]  # outer, n, inner: the middle one is sorted
_DESCENDING, _REFINE = 1, 2
# Finding less than this part of a row does not take sorting it.
_FEW = 1 / 8
# Of a comparison, beside what it takes in other routines.
_CYCLES_OF_A_STEP = 3
# That a partition by truth values reads in a cycle.
_BYTES_PER_CYCLE = 4


@RULES.runs(Opcode.SORT)
def _sort(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    shape = node.operands[0].shape
    if shape.num_elements == 0:
        return []
    attributes = node.attributes
    assert isinstance(attributes, SortAttributes)
    axis, dims = attributes.dimension, shape.dimensions
    read_from, read_to = places_read(node, axis, dims[axis])
    lo, hi = attributes.places or (0, dims[axis])
    layout = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
    keys = _keys_of(node)
    cycles = _CYCLES_OF_A_STEP * cycles_of(node)
    if keys is not None and len(keys) == 1 and layout[2] == 1 and read_to <= _FEW * dims[axis]:
        return _first_of_rows(builder, node, keys[0], layout, read_to, cycles)
    if keys is not None and len(node.operands) == 1:
        flags = _DESCENDING if keys[0].descending else 0
        ends = builder.slice(node.operands[0]), builder.slice(node)
        lo, hi = max(lo, min(read_from, hi - 1)), min(hi, max(read_to, lo + 1))
        operands = (*ends, *layout, flags, lo, hi)
        return [Library(node.name, cycles, f"sort_{shape.element_type}", operands)]
    if keys is not None and len(keys) == 1 and _is_partition(node, keys[0], layout):
        return _partition(builder, node, keys[0])
    read = read_leaves(node)
    # Of 64 bits, too, where a routine for keys writes it.
    kinds = (P.S32,) if keys is None else (P.S32, P.S64)
    order = next((leaf for leaf in read if _is_order(node, leaf, kinds)), None)
    permutation = (
        builder.scratch(Shape.array(P.S32, dims)) if order is None else builder.slice(node, order)
    )
    if keys is not None:
        steps = _argsort(builder, node, keys, permutation, layout, (lo, hi), cycles)
    else:
        steps = [_merge_argsort(builder, node, permutation, layout, cycles)]
    gathers = [
        _gather(builder, node, leaf, permutation, layout, layout[1])
        for leaf in read
        if leaf != order
    ]
    return [*steps, *gathers]


def _keys_of(node: Instruction) -> list[SortKey] | None:
    """The keys of a sort that routines know, else None."""
    keys = sort_keys(node.called[0])
    if keys is not None and any(not _sortable(node.operands[k.operand].shape) for k in keys):
        return None
    return keys


@RULES.runs(Opcode.IOTA)
def _iota(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    return [] if are_places(node) else builder.launch(node)


def are_places(node: Instruction) -> bool:
    """Whether these are numbers of places that nothing but sorts permute: they are the permutation,
    and no array has them."""
    return not node.is_root and all(_numbers_places(user, node) for user in node.users)


def _numbers_places(node: Instruction, given: Instruction) -> bool:
    """Whether an instruction is a sort that takes an operand for the numbers of places."""
    if node.opcode is not Opcode.SORT or not _are_places(given, node):
        return False
    keys = _keys_of(node)
    return keys is not None and all(node.operands[k.operand] is not given for k in keys)


def _are_places(given: Instruction, node: Instruction) -> bool:
    """Whether an operand of a sort has the numbers of places along its dimension, and no more."""
    assert isinstance(node.attributes, SortAttributes)
    root = given.called[0].root if given.opcode is Opcode.FUSION else given
    assert root is not None
    numbers = root.attributes
    return isinstance(numbers, IotaAttributes) and numbers.dimension == node.attributes.dimension


def _is_order(node: Instruction, leaf: int, kinds: tuple[PrimitiveType, ...]) -> bool:
    """Whether an array of the result is the permutation itself, of one of these types."""
    given = node.operands[leaf]
    return given.shape.element_type in kinds and _are_places(given, node)


def _first_of_rows(
    builder: ProgramBuilder,
    node: Instruction,
    key: SortKey,
    layout: Layout,
    first: int,
    cycles: float,
) -> list[Step]:
    outer, n, _ = layout
    operand = builder.slice(node.operands[key.operand])
    permutation = builder.scratch(Shape.array(P.S32, (outer, first)))
    flags = _DESCENDING if key.descending else 0
    routine = f"select_{operand.shape.element_type}"
    operands = (operand, permutation, outer, n, first, flags)
    found = Library(node.name, cycles, routine, operands)
    gathers = [
        _gather(builder, node, leaf, permutation, layout, first) for leaf in read_leaves(node)
    ]
    return [found, *gathers]


def _is_partition(node: Instruction, key: SortKey, layout: Layout) -> bool:
    """Whether one row is sorted by truth values, of which a routine does all that is read."""
    outer, _, inner = layout
    if node.operands[key.operand].shape.element_type is not P.PRED or outer * inner != 1:
        return False
    types = [node.operands[leaf].shape.element_type for leaf in _numbers_read(node)]
    return all(t in PARTITIONED_PLACES for t in types)


def _numbers_read(node: Instruction) -> list[int]:
    return [leaf for leaf in read_leaves(node) if _are_places(node.operands[leaf], node)]


def _partition(builder: ProgramBuilder, node: Instruction, key: SortKey) -> list[Step]:
    truth = builder.slice(node.operands[key.operand])
    n = math.prod(truth.shape.dimensions)
    numbers = (n, _DESCENDING if key.descending else 0)
    places = _numbers_read(node)
    steps: list[Step] = []
    for leaf in read_leaves(node):
        t, out = node.operands[leaf].shape.element_type, builder.slice(node, leaf)
        kind = str(t) if leaf in places else f"b{t.byte_size}"
        values = [] if leaf in places else [builder.slice(node.operands[leaf])]
        cycles = n * (1 + t.byte_size) / _BYTES_PER_CYCLE
        steps.append(
            Library(node.name, cycles, f"partition_{kind}", (truth, *values, out, *numbers))
        )
    return steps


def _sortable(shape: Shape) -> bool:
    return f"sort_{shape.element_type}" in ROUTINES


def _argsort(
    builder: ProgramBuilder,
    node: Instruction,
    keys: list[SortKey],
    permutation: Slice,
    layout: Layout,
    places: tuple[int, int],
    cycles: float,
) -> list[Step]:
    """Stable sorts from the least to the most significant key; by several keys of all places."""
    lo, hi = places if len(keys) == 1 else (0, layout[1])
    steps: list[Step] = []
    for key in reversed(keys):
        operand = builder.slice(node.operands[key.operand])
        flags = (_REFINE if steps else 0) | (_DESCENDING if key.descending else 0)
        kind = "argsort64" if permutation.shape.element_type is P.S64 else "argsort"
        routine = f"{kind}_{operand.shape.element_type}"
        operands = (operand, permutation, *layout, flags, lo, hi)
        steps.append(Library(node.name, cycles / len(keys), routine, operands))
    return steps


def _gather(
    builder: ProgramBuilder,
    node: Instruction,
    leaf: int,
    permutation: Slice,
    layout: Layout,
    first: int,
) -> Launch:
    """result[o, x, i] = operand[o, permutation[o, x, i], i] for the `first` x. Of the numbers of
    places these are the permutation."""
    outer, n, inner = layout
    given = node.operands[leaf]
    source = builder.slice(given)
    shape = source.shape
    numbers = _are_places(given, node)
    places_type = permutation.shape.element_type

    def build(name: str) -> Kernel:
        b = LoopBuilder(name)
        order = b.buffer("p1", places_type, outer * first * inner, BufferRole.OPERAND, 1)
        out = b.buffer("out0", shape.element_type, shape.num_elements, BufferRole.OUTPUT, 0)
        e = ElementalEmitter(b, {})
        o, _ = b.open_loop(outer, independent=True)
        x, _ = b.open_loop(first, independent=True, may_vectorize=inner == 1)
        i, _ = b.open_loop(inner, independent=True, may_vectorize=inner > 1)
        here = (o * n + x) * inner + i
        place = b.load(order, (o * first + x) * inner + i)
        place.bounds = (0, n - 1)
        if numbers:
            to = shape.element_type
            value = place if to is places_type else b.compute(Opcode.CONVERT, to, (place,))
            b.store(out, here, (value,))
        else:
            operand = b.buffer("p0", shape.element_type, shape.num_elements, BufferRole.OPERAND, 0)
            at = (o * n + Index.of(place)) * inner + i
            e.store(out, here, e.load(operand, at, shape.element_type))
        for _ in range(3):
            b.close_loop()
        return b.kernel

    key = ("permute", shape, layout, first, numbers, places_type)
    scheduled = builder.kernels.get_built(key, "permute", build)
    places = {"p0": source, "p1": permutation, "out0": builder.slice(node, leaf)}
    return builder.launch_kernel(node.name, scheduled, lambda buffer: places[buffer.name])


def _merge_argsort(
    builder: ProgramBuilder, node: Instruction, permutation: Slice, layout: Layout, cycles: float
) -> Library:
    """Any comparator: merge sort of row numbers."""
    less = builder.kernels.get_built(
        ("less", computation_key(node.called[0]), tuple(o.shape for o in node.operands)),
        f"{node.name}_less",
        lambda name: _comparator(node, name),
    )
    operands = tuple(builder.slice(o) for o in node.operands)
    # Two rows of numbers.
    work = builder.scratch(Shape.array(P.S32, (2 * layout[1],)), aligned(permutation.size))
    taken = (KernelOperand(less.kernel.name, operands), permutation, work, *layout)
    return Library(node.name, cycles, "merge_argsort", taken)


def _comparator(node: Instruction, name: str) -> Kernel:
    """less[0] = whether the element at a[0] comes before the one at b[0]; these three are the
    routine's."""
    b = LoopBuilder(name)
    buffers = [
        b.buffer(f"p{k}", o.shape.element_type, o.shape.num_elements, BufferRole.OPERAND, k)
        for k, o in enumerate(node.operands)
    ]
    e = ElementalEmitter(b, {})
    last = node.operands[0].shape.num_elements - 1

    def place(name: str) -> Index:
        value = b.load(b.buffer(name, P.S64, 1, BufferRole.SCRATCH), constant(0))
        value.bounds = (0, last)
        return Index.of(value)

    places = [place("a"), place("b")]
    arguments = [
        e.load(buffer, at, o.shape.element_type)
        for buffer, o in zip(buffers, node.operands)
        for at in places
    ]
    less = b.buffer("less", P.PRED, 1, BufferRole.SCRATCH)
    e.store(less, constant(0), e.apply(node.called[0], arguments))
    return b.kernel
