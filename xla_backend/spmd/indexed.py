"""Local forms of what takes indices into cut dimensions: each device does what concerns its
part."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from xla_backend.hlo.attributes import DynamicSliceAttributes, GatherAttributes, ScatterAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.spmd.halo import Along, without_padding
from xla_backend.spmd.on_parts import OnParts
from xla_backend.spmd.specs import Axes


def dynamic_slice(x: OnParts) -> Instruction:
    a, whole = x.node.attributes, x.node.operands[0].shape.dimensions
    assert isinstance(a, DynamicSliceAttributes)
    zero = x.b.constant(np.int32(0))
    for d, (size, taken) in enumerate(zip(whole, a.sizes)):
        if size != taken and x.specs[0].dims[d]:
            start = x.b.clamped(x.b.convert_index(x.operands[1 + d]), size - taken)
            x.find(0, d, start, taken)
            x.operands[1 + d] = zero
        elif size == taken and x.specs[0].dims[d]:
            x.operands[1 + d] = zero
    # All indices of one type: those that are left have theirs.
    _as_one_type(x, 1)
    sizes = x.shape.dimensions
    if sizes == x.operands[0].shape.dimensions:
        return x.operands[0]
    return x.written(DynamicSliceAttributes(sizes))


def _as_one_type(x: OnParts, first: int) -> None:
    indices = x.operands[first:]
    if len({index.shape.element_type for index in indices}) > 1:
        x.operands[first:] = [x.b.convert_index(index) for index in indices]
    kinds = sorted({i.shape.element_type for i in x.operands[first:]}, key=lambda t: t.bits)
    if len(kinds) > 1:
        x.operands[first:] = [x.b.convert(index, kinds[-1]) for index in x.operands[first:]]


def dynamic_update_slice(x: OnParts) -> Instruction:
    b, (array, update) = x.b, (operand.shape.dimensions for operand in x.node.operands[:2])
    cut = [d for d, axes in enumerate(x.specs[0].dims) if axes]
    kept = x.operands[0]
    masks: list[tuple[Instruction, tuple[int, ...]]] = []  # and which dimensions each has
    away: dict[int, int] = {}  # how far a dimension was widened
    for d in cut:
        if array[d] == update[d]:
            x.operands[2 + d] = b.constant(np.int32(0))
            continue
        part = x.operands[0].shape.dimensions[d]
        start = b.clamped(b.convert_index(x.operands[2 + d]), array[d] - update[d])
        here = b.minus(start, b.position(x.specs[0].dims[d], part))
        if update[d] == 1:
            masks.append((b.is_within(here, part), ()))
        elif update[d] > part:
            # All of a part may be updated: it takes what of the update lies over it.
            there = b.binary(Opcode.SUBTRACT, b.full(here.shape, 0), here)
            sizes = [
                part if k == d else size for k, size in enumerate(x.operands[1].shape.dimensions)
            ]
            around = b.pad(x.operands[1], d, part, part)
            x.operands[1] = b.slice_at(around, {d: b.plus(there, part)}, sizes)
            rows = b.iota(Shape.array(here.shape.element_type, (part,)), 0)
            rows = b.binary(Opcode.ADD, rows, b.broadcast(there, (part,), ()))
            masks.append((b.is_within(rows, update[d]), (d,)))
            here = b.full(here.shape, 0)
        else:
            # Updates that lie elsewhere lie in what is put around the part.
            away[d] = update[d]
            x.operands[0] = b.pad(x.operands[0], d, update[d], update[d])
            here = b.plus(here, update[d])
        x.operands[2 + d] = here
    _as_one_type(x, 2)
    if masks:
        starts = dict(enumerate(x.operands[2:]))
        new = x.operands[1]
        old = b.slice_at(x.operands[0], starts, new.shape.dimensions)
        each = [b.broadcast(mask, new.shape.dimensions, dims) for mask, dims in masks]
        chosen = reduce(lambda one, other: b.binary(Opcode.AND, one, other), each)
        x.operands[1] = b.add(Opcode.SELECT, (chosen, new, old), shape=new.shape)
    made = x.write(x.operands, x.operands[0].shape, x.node.attributes)
    if not away:
        return made
    low = [away.get(d, 0) for d in range(len(array))]
    high = [start + size for start, size in zip(low, kept.shape.dimensions)]
    return b.slice(made, low, high)


def gather(x: OnParts) -> Instruction:
    a, b = x.node.attributes, x.b
    assert isinstance(a, GatherAttributes)
    array = x.node.operands[0].shape.dimensions
    cut = {d: axes for d in a.start_index_map if (axes := x.specs[0].dims[d])}
    mask: Instruction | None = None
    if cut:
        parts = []
        for d, index in zip(a.start_index_map, _components(x, 1, a.index_vector_dim)):
            if d in cut:
                part, size = x.operands[0].shape.dimensions[d], a.slice_sizes[d]
                index = b.clamped(index, array[d] - size)
                index = b.minus(index, b.position(cut[d], part))
                if d in a.collapsed_slice_dims:
                    inside = b.is_within(index, part)
                    mask = inside if mask is None else b.binary(Opcode.AND, mask, inside)
                else:
                    index = _into_padded(x, d, index, size)
            parts.append(index)
        x.operands[1] = _joined(x, 1, parts, a.index_vector_dim)
    sizes = [
        part if size == full and d not in cut else size
        for d, (size, full, part) in enumerate(
            zip(a.slice_sizes, array, x.operands[0].shape.dimensions)
        )
    ]
    made = x.written(GatherAttributes(**{**vars(a), "slice_sizes": tuple(sizes)}))
    if mask is None:
        return made
    assert x.factors.combiner is not None
    nothing = b.constant(identity_of(x.factors.combiner, made.shape.element_type))
    numbered = [d for d in range(made.shape.rank) if d not in a.offset_dims]
    chosen = b.broadcast(mask, made.shape.dimensions, numbered)
    other = b.broadcast(nothing, made.shape.dimensions, ())
    return b.add(Opcode.SELECT, (chosen, made, other), shape=made.shape)


def _into_padded(x: OnParts, d: int, index: Instruction, size: int) -> Instruction:
    """Where slices of a part begin, after the identity of sums was put around it and into its
    padding: those of other parts find that, and those on a border what lies on this side."""
    b, part = x.b, x.operands[0].shape.dimensions[d]
    assert x.factors.combiner is not None
    nothing = b.constant(identity_of(x.factors.combiner, x.operands[0].shape.element_type))
    along = Along(d, x.node.operands[0].shape.dimensions[d], x.specs[0].dims[d])
    x.operands[0] = without_padding(b, x.operands[0], along, nothing)
    x.operands[0] = b.pad(x.operands[0], d, size, size, nothing)
    return b.clamped(b.plus(index, size), part + size)


def scatter(x: OnParts) -> Instruction:
    a, b = x.node.attributes, x.b
    assert isinstance(a, ScatterAttributes)
    count = len(x.operands) // 2
    cut = {d: axes for d in a.scatter_dims_to_operand_dims if (axes := x.specs[0].dims[d])}
    if cut:
        x.operands[count] = _shifted(x, count, cut, a)
    partial = x.partial()
    if partial:
        combiner = monoid(x.node.called[0])
        assert combiner is not None
        nothing = b.constant(identity_of(combiner, x.operands[0].shape.element_type))
        x.fill_padding(count + 1, nothing)
        x.operands[0] = _on_first(x, partial, nothing)
    return _written_around(x, count, cut, a)


def _written_around(
    x: OnParts, count: int, cut: Mapping[int, Axes], a: ScatterAttributes
) -> Instruction:
    """The scatter; where updates are longer than an element in a dimension that is cut, there is
    room around the part for what of them lies in other parts."""
    b, room = x.b, _sizes_of_updates(x, cut, a)
    room = {d: size for d, size in room.items() if size > 1}
    if not room:
        return x.written()
    kept = x.operands[0].shape.dimensions
    for k in range(count):
        for d, size in room.items():
            x.operands[k] = b.pad(x.operands[k], d, size, size)
    low = [room.get(d, 0) for d in range(len(kept))]
    high = [start + size for start, size in zip(low, kept)]
    shapes = [array.shape for array in x.operands[:count]]
    made = x.write(x.operands, Shape.tuple(shapes) if x.node.shape.is_tuple else shapes[0], a)
    if not x.node.shape.is_tuple:
        return b.slice(made, low, high)
    return b.tuple([b.slice(b.gte(made, k), low, high) for k in range(count)])


def _sizes_of_updates(x: OnParts, cut: Mapping[int, Axes], a: ScatterAttributes) -> dict[int, int]:
    """How long updates are in the dimensions that are cut."""
    array, count = x.node.operands[0].shape, len(x.operands) // 2
    gone = {*a.inserted_window_dims, *a.input_batching_dims}
    kept = [d for d in range(array.rank) if d not in gone]
    update = x.node.operands[count + 1].shape.dimensions
    sizes = {d: update[place] for d, place in zip(kept, a.update_window_dims)}
    return {d: sizes.get(d, 1) for d in cut}


def _shifted(x: OnParts, k: int, cut: Mapping[int, Axes], a: ScatterAttributes) -> Instruction:
    """Indices from the beginning of a part on: those of other parts are outside, where nothing is
    scattered. Updates that are longer than an element go into a part with as much around it."""
    parts = []
    sizes = _sizes_of_updates(x, cut, a)
    for d, index in zip(a.scatter_dims_to_operand_dims, _components(x, k, a.index_vector_dim)):
        if d in cut:
            part = x.operands[0].shape.dimensions[d]
            size, full = sizes[d], x.node.operands[0].shape.dimensions[d]
            here = x.b.minus(index, x.b.position(cut[d], part))
            if size > 1:
                # What does not fit into the array is not scattered, not even in part.
                fits = x.b.is_within(index, full - size + 1)
                outside = x.b.full(index.shape, -1)
                here = x.b.plus(here, size)
                here = x.b.add(Opcode.SELECT, (fits, here, outside), shape=index.shape)
            index = here
        parts.append(index)
    return _joined(x, k, parts, a.index_vector_dim)


def _on_first(x: OnParts, axes: Axes, nothing: Instruction) -> Instruction:
    """The array on one of the devices that differ along axes, the identity on the others."""
    b, array = x.b, x.operands[0]
    first = b.is_within(b.position(axes, 1), 1)
    chosen = b.broadcast(first, array.shape.dimensions, ())
    other = b.broadcast(nothing, array.shape.dimensions, ())
    return b.add(Opcode.SELECT, (chosen, array, other), shape=array.shape)


def _components(x: OnParts, k: int, vector: int) -> list[Instruction]:
    """Of indices, what points into each dimension, without the dimension that numbers these."""
    indices = x.b.convert_index(x.operands[k])
    dims = indices.shape.dimensions
    if vector == len(dims):
        return [indices]
    found = []
    for number in range(dims[vector]):
        starts = [number if d == vector else 0 for d in range(len(dims))]
        limits = [number + 1 if d == vector else size for d, size in enumerate(dims)]
        one = x.b.slice(indices, starts, limits)
        found.append(x.b.reshape(one, [size for d, size in enumerate(dims) if d != vector]))
    return found


def _joined(x: OnParts, k: int, parts: list[Instruction], vector: int) -> Instruction:
    """Indices of the shape of the k-th operand, of components."""
    dims = list(parts[0].shape.dimensions)
    if x.operands[k].shape.rank == len(dims):
        return parts[0]
    dims.insert(vector, 1)
    each = [x.b.reshape(part, dims) for part in parts]
    return each[0] if len(each) == 1 else x.b.concatenate(each, vector)
