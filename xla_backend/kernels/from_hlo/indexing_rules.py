"""Element rules of operations whose indices are computed: gather, dynamic-slice,
dynamic-update-slice.

Start indices are clamped so that the whole slice lies inside, as HLO defines; no index can leave
its array.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, Indices, handles
from xla_backend.kernels.from_hlo.known_integers import clamped_index, known_index
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import Value

P = PrimitiveType
_INT32_MAX = 2**31 - 1
LESS_EQUAL = CompareAttributes(ComparisonDirection.LE)


def clamped(e: ElementalEmitter, start: Value, maximum: int) -> Index:
    """min(max(start, 0), maximum) as an index."""
    if maximum <= 0:
        return constant(0)
    b = e.builder
    narrow = P.S32 if maximum <= _INT32_MAX else P.S64
    if start.type.is_unsigned_integral and start.type.bits >= 32:
        top = b.constant(start.type, maximum)
        small = b.compute(Opcode.MINIMUM, start.type, (start, top))
        return Index.of(b.compute(Opcode.CONVERT, narrow, (small,), bounds=(0, maximum)))
    compare = start.type if start.type in (P.S32, P.S64) else P.S32
    if compare is P.S32 and maximum > _INT32_MAX:
        compare = P.S64
    value = start if start.type is compare else b.compute(Opcode.CONVERT, compare, (start,))
    zero, top = b.constant(compare, 0), b.constant(compare, maximum)
    if compare is narrow:
        return Index.of(b.compute(Opcode.CLAMP, compare, (zero, value, top), bounds=(0, maximum)))
    value = b.compute(Opcode.CLAMP, compare, (zero, value, top))
    return Index.of(b.compute(Opcode.CONVERT, narrow, (value,), bounds=(0, maximum)))


def unclamped(e: ElementalEmitter, start: Value, maximum: int) -> tuple[Index, Value | bool]:
    """The index `start`, or a safe one, and whether 0 <= start <= maximum holds."""
    b = e.builder
    if maximum < 0:
        return constant(0), False
    wide = P.U64 if start.type.bits == 64 or maximum > _INT32_MAX else P.U32
    signed = P.S64 if wide is P.U64 else P.S32
    # As unsigned numbers, negative ones are larger than all that are inside.
    value = start
    for type in (signed, wide) if start.type.is_signed_integral else (wide,):
        value = value if value.type is type else b.compute(Opcode.CONVERT, type, (value,))
    top, zero = b.constant(wide, maximum), b.constant(wide, 0)
    inside = b.compute(Opcode.COMPARE, P.PRED, (value, top), LESS_EQUAL)
    if maximum == 0:
        return constant(0), inside
    safe = b.compute(Opcode.SELECT, wide, (inside, value, zero))
    return Index.of(b.compute(Opcode.CONVERT, signed, (safe,), bounds=(0, maximum))), inside


def dynamic_starts(e: ElementalEmitter, node: Instruction, sizes: tuple[int, ...]) -> list[Index]:
    """Clamped start indices of dynamic-slice and dynamic-update-slice."""
    dims = node.operands[0].shape.dimensions
    first = 1 if node.opcode is Opcode.DYNAMIC_SLICE else 2
    operands = node.operands[first:]
    starts: list[Index] = []
    for d, (size, full) in enumerate(zip(sizes, dims)):
        if size >= full:
            starts.append(constant(0))
            continue
        if len(operands) == 1 and operands[0].shape.rank == 1:  # old form: one vector of starts
            starts.append(_start(e, operands[0], (constant(d),), full - size))
        else:
            starts.append(_start(e, operands[d], (), full - size))
    return starts


@handles(Opcode.DYNAMIC_SLICE)
def _dynamic_slice(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    starts = dynamic_starts(e, node, node.shape.dimensions)
    return e.value(node.operands[0], tuple(i + s for i, s in zip(index, starts)))


@handles(Opcode.DYNAMIC_UPDATE_SLICE)
def _dynamic_update_slice(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    operand, update = node.operands[:2]
    sizes = update.shape.dimensions
    if 0 in sizes:
        return e.value(operand, index)
    starts = dynamic_starts(e, node, sizes)
    b = e.builder
    inside: Value | bool | None = None
    source = []
    for i, start, size in zip(index, starts, sizes):
        position = i - start
        inside = b.conjunction(inside, b.in_range(position, 0, size))
        source.append(position)
    if inside is False:
        return e.value(operand, index)
    with e.guarded(inside):
        new = e.value(update, tuple(source))
    if inside is None or inside is True:
        return new
    return e.select(inside, new, e.value(operand, index))


def _start(e: ElementalEmitter, indices: Instruction, index: Indices, maximum: int) -> Index:
    """An element of an array of indices, clamped."""
    known = known_index(indices, index, e.is_at_hand) if e.sizes_are_known else None
    if known is not None:
        inside = clamped_index(constant(0), known, constant(maximum))
        if inside is not None:
            return inside
    return clamped(e, e.real(indices, index), maximum)


@handles(Opcode.GATHER)
def _gather(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    a = attrs(node)
    operand, indices = node.operands
    rank = operand.shape.rank
    offset_dims = a.offset_dims
    batch = [index[d] for d in range(len(index)) if d not in offset_dims]
    source: list[Index] = [constant(0)] * rank
    squeezed = set(a.collapsed_slice_dims) | set(a.operand_batching_dims)
    window = [d for d in range(rank) if d not in squeezed]
    for output_dim, d in zip(offset_dims, window):
        source[d] = index[output_dim]
    for d, component in zip(a.start_index_map, range(len(a.start_index_map))):
        limit = operand.shape.dimensions[d] - a.slice_sizes[d]
        if limit <= 0:
            continue
        position = list(batch)
        if a.index_vector_dim < indices.shape.rank:
            position.insert(a.index_vector_dim, constant(component))
        source[d] = source[d] + _start(e, indices, tuple(position), limit)
    for d, indices_dim in zip(a.operand_batching_dims, a.start_indices_batching_dims):
        position_in_batch = indices_dim - (1 if indices_dim > a.index_vector_dim else 0)
        source[d] = batch[position_in_batch]
    return e.value(operand, tuple(source))
