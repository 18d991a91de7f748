"""Factors of what takes indices: gathers, scatters, slices and updates at run-time positions.

A dimension that indices point into can be cut: devices that do not have an element give nothing,
so that what they find are parts of a sum; and each updates what it has.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import DynamicSliceAttributes, GatherAttributes, ScatterAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.shape import Shape
from xla_backend.spmd.combiners import joining
from xla_backend.spmd.factors import FactorMaker, Factors, no_factors

# A slice of at most this part of a dimension is found by its owners; of more, all is gathered.
_SMALL = 4


def is_small(size: int, whole: int) -> bool:
    """Whether to sum a slice over all devices is less than to gather the whole."""
    return _SMALL * size <= whole


def dynamic_slice(node: Instruction) -> Factors:
    a, shape = node.attributes, node.operands[0].shape
    assert isinstance(a, DynamicSliceAttributes)
    m = FactorMaker()
    of_array, result = no_factors(shape), no_factors(node.shape)
    found = joining(shape.element_type)
    reduced = []
    for d, (size, taken) in enumerate(zip(shape.dimensions, a.sizes)):
        if size == taken:
            of_array[d] = result[d] = (m.new(size),)
        elif found is not None and is_small(taken, size):
            of_array[d] = (m.new(size),)
            reduced.append(of_array[d][0])
    operands = [of_array, *[no_factors(x.shape) for x in node.operands[1:]]]
    return m.made(operands, [result], reduced, found)


def dynamic_update_slice(node: Instruction) -> Factors:
    """All dimensions of the array: each device updates what it has."""
    array, update = (operand.shape for operand in node.operands[:2])
    m = FactorMaker()
    of_array, of_update = m.dims(array), no_factors(update)
    for d, (size, taken) in enumerate(zip(array.dimensions, update.dimensions)):
        if size == taken:
            of_update[d] = of_array[d]
    scalars = [no_factors(x.shape) for x in node.operands[2:]]
    return m.made([of_array, of_update, *scalars], [of_array])


def gather(node: Instruction) -> Factors:
    """What indices number, dimensions that slices have all of, and those that indices point into,
    if slices are single elements of them, or short and together no more than the array."""
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    array, indices = (operand.shape for operand in node.operands)
    m = FactorMaker()
    of_array, of_indices, result = no_factors(array), no_factors(indices), no_factors(node.shape)
    gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    kept = [d for d in range(array.rank) if d not in gone]
    for d, place in zip(kept, a.offset_dims):
        if a.slice_sizes[d] == array.dimensions[d] and d not in a.start_index_map:
            of_array[d] = result[place] = (m.new(array.dimensions[d]),)
    batch = [d for d in range(node.shape.rank) if d not in a.offset_dims]
    for d, place in zip(_numbered(indices, a.index_vector_dim), batch):
        of_indices[d] = result[place] = (m.new(indices.dimensions[d]),)
    for d, k in zip(a.operand_batching_dims, a.start_indices_batching_dims):
        of_array[d] = of_indices[k]
    found, reduced = joining(array.element_type), []
    less = node.shape.byte_size <= array.byte_size
    for d in a.start_index_map:
        if found is None or array.dimensions[d] <= 1:
            continue
        short = less and 0 < a.slice_sizes[d] and is_small(a.slice_sizes[d], array.dimensions[d])
        if d in a.collapsed_slice_dims or short:
            of_array[d] = (m.new(array.dimensions[d]),)
            reduced.append(of_array[d][0])
    return m.made([of_array, of_indices], [result], reduced, found)


def scatter(node: Instruction) -> Factors:
    """Dimensions that every update has all of, batches, and those that indices point into, if
    updates are short in them. What numbers the updates is a reduced factor if they may be combined
    in any order."""
    a = node.attributes
    assert isinstance(a, ScatterAttributes)
    count = len(node.operands) // 2
    array, indices, update = (node.operands[k].shape for k in (0, count, count + 1))
    m = FactorMaker()
    of_array, of_indices, of_update = no_factors(array), no_factors(indices), no_factors(update)
    gone = {*a.inserted_window_dims, *a.input_batching_dims}
    kept = [d for d in range(array.rank) if d not in gone]
    for d, place in zip(kept, a.update_window_dims):
        full = update.dimensions[place] == array.dimensions[d]
        if full and d not in a.scatter_dims_to_operand_dims:
            of_array[d] = of_update[place] = (m.new(array.dimensions[d]),)
    batch = [d for d in range(update.rank) if d not in a.update_window_dims]
    numbered = _numbered(indices, a.index_vector_dim)
    place_of = dict(zip(numbered, batch))
    for d, k in zip(a.input_batching_dims, a.scatter_indices_batching_dims):
        factor = (m.new(array.dimensions[d]),)
        of_array[d] = of_indices[k] = of_update[place_of[k]] = factor
    sizes = {d: update.dimensions[place] for d, place in zip(kept, a.update_window_dims)}
    for d in a.scatter_dims_to_operand_dims:
        if not of_array[d] and is_small(sizes.get(d, 0), array.dimensions[d]):
            of_array[d] = (m.new(array.dimensions[d]),)
    combiner = monoid(node.called[0]) if count == 1 else None
    reduced = []
    for k in numbered:
        if combiner is not None and k not in a.scatter_indices_batching_dims:
            factor = (m.new(indices.dimensions[k]),)
            of_indices[k] = of_update[place_of[k]] = factor
            reduced.append(factor[0])
    operands = [*[of_array] * count, of_indices, *[of_update] * count]
    few = update.byte_size < array.byte_size
    return m.made(operands, [of_array] * count, reduced, combiner, few_terms=few)


def _numbered(indices: Shape, vector: int) -> list[int]:
    """The dimensions of indices that number them."""
    return [d for d in range(indices.rank) if d != vector]
