"""Nests that write to computed places: dynamic-update-slice in place, scatter,
select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import WindowDimension
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, parts
from xla_backend.kernels.from_hlo.indexing_rules import dynamic_starts, unclamped
from xla_backend.kernels.from_hlo.iteration_space import IterationSpace
from xla_backend.kernels.from_hlo.nests import close_loops, open_loops, pointwise_nest, row_edges
from xla_backend.kernels.from_hlo.reductions import window_position
from xla_backend.kernels.index import ZERO, Index, constant, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Value

P = PrimitiveType
# Scatters of many updates are cut into at most so many blocks, by shape alone: the result must not
# depend on threads. So many updates of each element pay for the block's own array.
_MAX_BLOCKS = 16
_UPDATES_PER_ELEMENT = 4
_MANY_UPDATES = 1 << 17


def fill_from(e: ElementalEmitter, source: Instruction, output: Buffer, number: int) -> None:
    """Make `output` start as `source`: by sharing or copying its buffer if it is an operand, else
    by computing it."""
    leaf = e.leaves.get(source)
    if leaf is not None:
        e.builder.kernel.in_place[number] = leaf.number
    else:
        pointwise_nest(e, [source], [output])


def update_slice_nest(e: ElementalEmitter, node: Instruction, output: Buffer, number: int) -> None:
    """dynamic-update-slice: only the updated part is written."""
    operand, update = node.operands[:2]
    fill_from(e, operand, output, number)
    sizes = update.shape.dimensions
    if 0 in sizes:
        return
    starts = dynamic_starts(e, node, sizes)
    space = IterationSpace(sizes, [update], e.leaves, row_edges(sizes, operand.shape.dimensions))
    linear = open_loops(e, space.groups)
    index = delinearize(linear, sizes)
    at = linearize([i + s for i, s in zip(index, starts)], operand.shape.dimensions)
    e.store(output, at, e.value(update, index))
    close_loops(e, len(space.groups))


def scatter_nest(
    e: ElementalEmitter,
    node: Instruction,
    outputs: Sequence[Buffer],
    numbers: Sequence[int],
    *,
    in_parts: bool = False,
) -> None:
    """Scatter: one update window after another, in index order; a window that does not fit is
    dropped. `in_parts`: many updates of a small array are combined in blocks first, each in index
    order, and the results of blocks then."""
    inputs, _, updates = scatter_operands(node)
    for source, output, number in zip(inputs, outputs, numbers):
        fill_from(e, source, output, number)
    dims = updates[0].shape.dimensions
    operand_dims = inputs[0].shape.dimensions
    if 0 in dims or 0 in operand_dims:
        return
    opcode = _combined_in_any_grouping(node) if in_parts else None
    blocks = 1 if opcode is None else count_blocks(node)
    if opcode is None or blocks == 1:
        _scatter_windows(e, node, outputs)
    else:
        _scatter_in_blocks(e, node, outputs[0], opcode, blocks)


def walk_order(node: Instruction) -> list[int]:
    """The dimensions of the updates, outermost loop first."""
    return [*scatter_dims(node), *attrs(node).update_window_dims]


def _scatter_windows(
    e: ElementalEmitter,
    node: Instruction,
    outputs: Sequence[Buffer],
    block: tuple[Index, int] | None = None,
    base: Index = ZERO,
) -> None:
    """Combine windows into arrays that begin at `base` of the outputs. `block`: the first and how
    many, of the outermost loop, instead of all."""
    b = e.builder
    dims = scatter_operands(node)[2][0].shape.dimensions
    order = walk_order(node)
    at: list[Index] = [constant(0)] * len(dims)
    for n, d in enumerate(order):
        is_window = d in attrs(node).update_window_dims
        at[d], _ = b.open_loop(
            dims[d] if n or block is None else block[1],
            independent=is_window or attrs(node).unique_indices,
            may_vectorize=d == order[-1] and is_window,
        )
    if block is not None:
        at[order[0]] = at[order[0]] + block[0]
    target, inside = scatter_target(e, node, at)
    if inside is not False:
        guard = None if inside is None or inside is True else inside
        combine_into(e, node, list(outputs), tuple(at), target, guard, base)
    close_loops(e, len(order))


def _combined_in_any_grouping(node: Instruction) -> Opcode | None:
    """What combines the updates of a scatter, if they may be grouped in any way. Narrow floats
    would round more often."""
    inputs, _, _ = scatter_operands(node)
    type = inputs[0].shape.element_type
    opcode = monoid(node.called[0])
    if len(inputs) > 1 or opcode is None or type.is_complex or type is P.PRED:
        return None
    if (type.is_floating and type.bits < 32) or attrs(node).unique_indices:
        return None
    return opcode


def count_blocks(node: Instruction) -> int:
    """How many blocks the updates of a scatter are cut into, a power of two: as many as there are
    enough updates for."""
    inputs, _, updates = scatter_operands(node)
    rows, total = scatter_dims(node), updates[0].shape.num_elements
    if not rows or total < _MANY_UPDATES:
        return 1
    paid = total // (_UPDATES_PER_ELEMENT * inputs[0].shape.num_elements)
    most = min(_MAX_BLOCKS, paid, updates[0].shape.dimensions[rows[0]])
    return 1 << (most.bit_length() - 1) if most else 1


def _scatter_in_blocks(
    e: ElementalEmitter, node: Instruction, output: Buffer, opcode: Opcode, blocks: int
) -> None:
    b, type, size = e.builder, output.element_type, output.size
    rows = scatter_operands(node)[2][0].shape.dimensions[walk_order(node)[0]]
    chunk, rest = divmod(rows, blocks)
    count = blocks + (rest > 0)
    number = sum(1 for buffer in b.kernel.buffers if buffer.role is BufferRole.SCRATCH)
    partial = b.buffer(f"partial{number}", type, count * size, BufferRole.SCRATCH, number)

    def block_of(start: Index, extent: int, base: Index) -> None:
        i, _ = b.open_loop(size, independent=True, may_vectorize=True)
        e.store(partial, base + i, b.constant(type, identity_of(opcode, type)))
        b.close_loop()
        _scatter_windows(e, node, [partial], (start, extent), base)

    block, _ = b.open_loop(blocks, independent=True)
    block_of(block * chunk, chunk, block * size)
    b.close_loop()
    if rest:
        block_of(constant(blocks * chunk), rest, constant(blocks * size))
    i, _ = b.open_loop(size, independent=True, may_vectorize=True)
    start = b.load(output, i, mutable=True)
    block, carried = b.open_loop(count, inits=[start])
    new = b.load(partial, block * size + i, mutable=True)
    (total,) = b.close_loop([b.compute(opcode, type, (carried[0], new))])
    e.store(output, i, total)
    b.close_loop()


def scatter_operands(
    node: Instruction,
) -> tuple[list[Instruction], Instruction, list[Instruction]]:
    """What is updated, the indices, and the updates of each."""
    count = len(node.operands) // 2
    return node.operands[:count], node.operands[count], node.operands[count + 1 :]


def scatter_dims(node: Instruction) -> list[int]:
    """The dimensions of the updates that count windows."""
    window_dims = attrs(node).update_window_dims
    rank = node.operands[-1].shape.rank
    return [d for d in range(rank) if d not in window_dims]


def window_sizes(node: Instruction) -> dict[int, tuple[int, int]]:
    """By the dimensions of the operand that windows extend in: the dimension of the updates, and
    the size of windows there."""
    a = attrs(node)
    squeezed = {*a.inserted_window_dims, *a.input_batching_dims}
    extended = [d for d in range(node.operands[0].shape.rank) if d not in squeezed]
    sizes = node.operands[-1].shape.dimensions
    return {d: (update, sizes[update]) for update, d in zip(a.update_window_dims, extended)}


def scatter_target(
    e: ElementalEmitter, node: Instruction, at: Sequence[Index]
) -> tuple[list[Index], Value | bool | None]:
    """Where an element of the updates goes in the operand, and whether its window fits (None:
    always); the place is one of the operand in any case."""
    a = attrs(node)
    operands, indices, _ = scatter_operands(node)
    dims = operands[0].shape.dimensions
    windows = window_sizes(node)
    batch = [at[d] for d in scatter_dims(node)]
    target: list[Index] = [constant(0)] * len(dims)
    inside: Value | bool | None = None
    for component, d in enumerate(a.scatter_dims_to_operand_dims):
        position = list(batch)
        if a.index_vector_dim < indices.shape.rank:
            position.insert(a.index_vector_dim, constant(component))
        start = e.real(indices, tuple(position))
        size = windows[d][1] if d in windows else 1
        target[d], fits = unclamped(e, start, dims[d] - size)
        inside = e.builder.conjunction(inside, fits)
    for d, indices_dim in zip(a.input_batching_dims, a.scatter_indices_batching_dims):
        target[d] = batch[indices_dim - (1 if indices_dim > a.index_vector_dim else 0)]
    for d, (update_dim, _) in windows.items():
        target[d] = target[d] + at[update_dim]
    return target, inside


def combine_into(
    e: ElementalEmitter,
    node: Instruction,
    outputs: Sequence[Buffer],
    at: tuple[Index, ...],
    target: Sequence[Index],
    guard: Value | None,
    base: Index = ZERO,
) -> None:
    """Combine one element of each of the updates of a scatter into its place; the arrays begin at
    `base` of the outputs."""
    operands, _, updates = scatter_operands(node)
    linear = base + e.place(target, operands[0].shape.dimensions)
    new = [e.value(u, at) for u in updates]
    # The place is one of the operand whatever the guard says; only if updates go on side by side
    # may another one write there. A combination that ignores the old value needs no load: any
    # value will do.
    with e.guarded(guard if attrs(node).unique_indices else None):
        old = [
            e.load(output, linear, u.shape.element_type, mutable=True) if reads else n
            for output, u, reads, n in zip(outputs, updates, reads_old(node), new)
        ]
    for output, result in zip(outputs, combined(e, node, old, new)):
        e.store(output, linear, result, guard)


def reads_old(node: Instruction) -> list[bool]:
    """For each operand of a scatter: whether its combination looks at what it replaces."""
    count = len(node.operands) // 2
    return [bool(p.users) or p.is_root for p in node.called[0].parameters[:count]]


def combined(
    e: ElementalEmitter, node: Instruction, old: Sequence[Element], new: Sequence[Element]
) -> list[Element]:
    """What a scatter makes of elements of its operands and updates."""
    results = e.apply(node.called[0], [*old, *new])
    return results if isinstance(results, list) else [results]


def meets(size: int, count: int, w: WindowDimension) -> bool:
    """Whether any of `count` window positions may hold one of `size` elements: with negative
    padding, all may lie beyond the end."""
    last = (count - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low
    return count > 0 and last >= 0 and -w.padding_low <= (size - 1) * w.base_dilation


def select_and_scatter_nest(e: ElementalEmitter, node: Instruction, output: Buffer) -> None:
    """For each source element: find the selected element of its window, then combine the source
    into that place."""
    b = e.builder
    operand, source, start = node.operands
    dims, source_dims = operand.shape.dimensions, source.shape.dimensions
    type = operand.shape.element_type
    if 0 in dims:
        return
    total = operand.shape.num_elements
    index, _ = b.open_loop(total, independent=True, may_vectorize=True)
    e.store(output, index, e.value(start, ()))
    b.close_loop()
    windows = attrs(node).window
    if not all(map(meets, dims, source_dims, windows)):
        return
    trivial = [d for d, w in enumerate(windows) if w.size == 1 and w.stride == 1]
    order = [d for d in range(len(dims)) if d not in trivial]
    # Dimensions without a window never collide: outermost, but the minor one goes innermost, as
    # vector axis.
    minor = len(dims) - 1
    outer = [d for d in trivial if d != minor]
    inner = [minor] if minor in trivial else []
    at: list[Index] = [constant(0)] * len(dims)
    for d in [*outer, *order, *inner]:
        at[d], _ = b.open_loop(
            source_dims[d], independent=d in trivial, may_vectorize=bool(inner) and d == minor
        )
    found, place = selected_place(e, node, at)
    target = Index.of(place)
    new = e.value(source, tuple(at))
    old = e.load(output, target, type, mutable=True)
    e.store(output, target, e.apply(node.called[1], [old, new]), found)
    close_loops(e, len(dims))


def selected_place(
    e: ElementalEmitter, node: Instruction, at: Sequence[Index]
) -> tuple[Value, Value]:
    """Whether there are elements in window number `at` of a select-and-scatter, and where in the
    operand the selected one is; the place is one of the operand in any case."""
    b = e.builder
    operand = node.operands[0]
    select = node.called[0]
    dims, windows = operand.shape.dimensions, attrs(node).window
    type, total = operand.shape.element_type, operand.shape.num_elements
    zero = e.scalar(type, 0)
    best = parts(zero)
    place_type = P.S32 if total < 2**31 else P.S64
    inits = [b.constant(P.PRED, False), b.constant(place_type, 0), *best]
    loops = [d for d, w in enumerate(windows) if w.size > 1]
    depth = b.depth
    carried = inits
    offsets: dict[int, Index] = {}
    for d in loops:
        offsets[d], carried = b.open_loop(windows[d].size, inits=carried)
    inside: Value | bool | None = None
    position: list[Index] = []
    for d, (w, size) in enumerate(zip(windows, dims)):
        p, fits = window_position(e, at[d], offsets.get(d, constant(0)), w, size)
        position.append(p)
        inside = b.conjunction(inside, fits)
    linear = linearize(position, dims)
    with e.guarded(inside):
        candidate = e.value(operand, tuple(position))
    found, place, *held = carried
    held_element: Element = (held[0], held[1]) if type.is_complex else held[0]
    keeps = e.apply(select, [held_element, candidate])
    assert isinstance(keeps, Value)
    keep = b.compute(Opcode.AND, P.PRED, (found, keeps))
    take = b.compute(Opcode.NOT, P.PRED, (keep,))
    here = b.conjunction(take, inside)
    assert isinstance(here, Value)
    true = b.constant(P.PRED, True)
    valid = true if inside is None or inside is True else inside
    assert isinstance(valid, Value)
    nexts = [
        b.compute(Opcode.OR, P.PRED, (found, valid)),
        b.compute(Opcode.SELECT, place_type, (here, b.index_value(linear, place_type), place)),
        *parts(e.select(here, candidate, held_element)),
    ]
    results = nexts
    for _ in loops:
        results = b.close_loop(results)
    assert b.depth == depth
    found, place = results[0], results[1]
    place = b.compute(
        Opcode.CLAMP,
        place_type,
        (b.constant(place_type, 0), place, b.constant(place_type, total - 1)),
        bounds=(0, total - 1),
    )
    return found, place
