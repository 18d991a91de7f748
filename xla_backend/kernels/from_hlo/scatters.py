"""Nests that write to computed places: dynamic-update-slice in place, scatter,
select-and-scatter."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import WindowDimension
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, parts
from xla_backend.kernels.from_hlo.indexing_rules import dynamic_starts, unclamped
from xla_backend.kernels.from_hlo.iteration_space import IterationSpace
from xla_backend.kernels.from_hlo.nests import close_loops, open_loops, pointwise_nest, row_edges
from xla_backend.kernels.from_hlo.reductions import window_position
from xla_backend.kernels.index import Index, constant, delinearize, linearize
from xla_backend.kernels.ir import Buffer, Value

P = PrimitiveType


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
    e: ElementalEmitter, node: Instruction, outputs: Sequence[Buffer], numbers: Sequence[int]
) -> None:
    """Scatter: one update window after another, in index order; a window that does not fit is
    dropped."""
    b = e.builder
    count = len(node.operands) // 2
    inputs, indices, updates = (
        node.operands[:count],
        node.operands[count],
        node.operands[count + 1 :],
    )
    for source, output, number in zip(inputs, outputs, numbers):
        fill_from(e, source, output, number)
    dims = updates[0].shape.dimensions
    operand_dims = inputs[0].shape.dimensions
    if 0 in dims or 0 in operand_dims:
        return
    a = attrs(node)
    window_dims = a.update_window_dims
    scatter_dims = [d for d in range(len(dims)) if d not in window_dims]
    squeezed = set(a.inserted_window_dims) | set(a.input_batching_dims)
    operand_window = [d for d in range(len(operand_dims)) if d not in squeezed]
    window_size = [1] * len(operand_dims)
    for update_dim, d in zip(window_dims, operand_window):
        window_size[d] = dims[update_dim]

    at: list[Index] = [constant(0)] * len(dims)
    order = [*scatter_dims, *window_dims]
    for d in order:
        is_window = d in window_dims
        at[d], _ = b.open_loop(
            dims[d],
            independent=is_window or a.unique_indices,
            may_vectorize=d == order[-1] and is_window,
        )
    batch = [at[d] for d in scatter_dims]
    target: list[Index] = [constant(0)] * len(operand_dims)
    inside: Value | bool | None = None
    for component, d in enumerate(a.scatter_dims_to_operand_dims):
        position = list(batch)
        if a.index_vector_dim < indices.shape.rank:
            position.insert(a.index_vector_dim, constant(component))
        start = e.real(indices, tuple(position))
        base, fits = unclamped(e, start, operand_dims[d] - window_size[d])
        inside = b.conjunction(inside, fits)
        target[d] = base
    for d, indices_dim in zip(a.input_batching_dims, a.scatter_indices_batching_dims):
        target[d] = batch[indices_dim - (1 if indices_dim > a.index_vector_dim else 0)]
    for update_dim, d in zip(window_dims, operand_window):
        target[d] = target[d] + at[update_dim]
    if inside is not False:
        guard = None if inside is None or inside is True else inside
        _combine_into(e, node, list(outputs), updates, tuple(at), target, operand_dims, guard)
    close_loops(e, len(order))


def _combine_into(
    e: ElementalEmitter,
    node: Instruction,
    outputs: Sequence[Buffer],
    updates: Sequence[Instruction],
    at: tuple[Index, ...],
    target: Sequence[Index],
    dims: Sequence[int],
    guard: Value | None,
) -> None:
    linear = linearize(target, dims)
    new = [e.value(u, at) for u in updates]
    replaced = node.called[0].parameters[: len(updates)]
    with e.guarded(guard):
        # A combination that ignores the old value needs no load: any value will do.
        old = [
            e.load(output, linear, u.shape.element_type, mutable=True)
            if p.users or p.is_root
            else n
            for output, u, p, n in zip(outputs, updates, replaced, new)
        ]
    combined = e.apply(node.called[0], [*old, *new])
    results: list[Element] = combined if isinstance(combined, list) else [combined]
    for output, result in zip(outputs, results):
        e.store(output, linear, result, guard)


def _meets(size: int, count: int, w: WindowDimension) -> bool:
    """Whether any of `count` window positions may hold one of `size` elements: with negative
    padding, all may lie beyond the end."""
    last = (count - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low
    return count > 0 and last >= 0 and -w.padding_low <= (size - 1) * w.base_dilation


def select_and_scatter_nest(e: ElementalEmitter, node: Instruction, output: Buffer) -> None:
    """For each source element: find the selected element of its window, then combine the source
    into that place."""
    b = e.builder
    operand, source, start = node.operands
    select, scatter = node.called
    dims, source_dims = operand.shape.dimensions, source.shape.dimensions
    type = operand.shape.element_type
    if 0 in dims:
        return
    total = operand.shape.num_elements
    index, _ = b.open_loop(total, independent=True, may_vectorize=True)
    e.store(output, index, e.value(start, ()))
    b.close_loop()
    windows = attrs(node).window
    if not all(map(_meets, dims, source_dims, windows)):
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
    target = Index.of(place)
    new = e.value(source, tuple(at))
    old = e.load(output, target, type, mutable=True)
    e.store(output, target, e.apply(scatter, [old, new]), found)
    close_loops(e, len(dims))
