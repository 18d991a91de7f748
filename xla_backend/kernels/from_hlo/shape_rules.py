"""Element rules of the operations that only move elements: broadcast, reshape, transpose, slice,
pad, ..."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, Indices, handles
from xla_backend.kernels.index import Index, constant, delinearize, linearize
from xla_backend.kernels.ir import Value

_SHIFT_TYPES = {
    2: PrimitiveType.U2,
    4: PrimitiveType.U4,
    8: PrimitiveType.U8,
    16: PrimitiveType.U16,
    32: PrimitiveType.U32,
    64: PrimitiveType.U64,
}


def _broadcast(node: Instruction, index: Indices) -> Indices:
    return tuple(index[d] for d in attrs(node).dimensions)


def _reshape(node: Instruction, index: Indices) -> Indices:
    linear = linearize(index, node.shape.dimensions)
    return delinearize(linear, node.operands[0].shape.dimensions)


def _transpose(node: Instruction, index: Indices) -> Indices:
    source: list[Index] = [constant(0)] * len(index)
    for i, d in enumerate(attrs(node).dimensions):
        source[d] = index[i]
    return tuple(source)


def _reverse(node: Instruction, index: Indices) -> Indices:
    dims = node.shape.dimensions
    flipped = [
        constant(dims[i] - 1) - index[i] if i in attrs(node).dimensions else index[i]
        for i in range(len(dims))
    ]
    return tuple(flipped)


def _slice(node: Instruction, index: Indices) -> Indices:
    a = attrs(node)
    return tuple(i * stride + start for i, start, stride in zip(index, a.starts, a.strides))


# Where an element of these comes from: its index in the operand.
MOVES: dict[Opcode, Callable[[Instruction, Indices], Indices]] = {
    Opcode.BROADCAST: _broadcast,
    Opcode.RESHAPE: _reshape,
    Opcode.BITCAST: _reshape,
    Opcode.TRANSPOSE: _transpose,
    Opcode.REVERSE: _reverse,
    Opcode.SLICE: _slice,
    Opcode.OPT_BARRIER: lambda node, index: index,
}


@handles(*MOVES)
def _moved(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    return e.value(node.operands[0], MOVES[node.opcode](node, index))


@handles(Opcode.IOTA)
def _iota(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    type = node.shape.element_type
    position = index[attrs(node).dimension]
    if type.is_complex:
        real = PrimitiveType.F32 if type is PrimitiveType.C64 else PrimitiveType.F64
        return e.builder.index_value(position, real), e.builder.constant(real, 0)
    return e.builder.index_value(position, type)


@handles(Opcode.PAD)
def _pad(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    operand, filler = node.operands
    a = attrs(node)
    b = e.builder
    inside: Value | bool | None = None
    source: list[Index] = []
    for i, low, interior, size in zip(index, a.low, a.interior, operand.shape.dimensions):
        position = i - low
        if size == 0:
            inside = False
            break
        if interior:
            step = interior + 1
            inside = b.conjunction(inside, b.in_range(position, 0, (size - 1) * step + 1))
            if inside is False:
                break
            offset = position + _round_up(max(0, -position.bounds[0]), step)
            remainder = offset % step
            inside = b.conjunction(inside, b.in_range(remainder, 0, 1))
            position = offset // step - _round_up(max(0, -position.bounds[0]), step) // step
        else:
            inside = b.conjunction(inside, b.in_range(position, 0, size))
        if inside is False:
            break
        source.append(position)
    if inside is False:
        return e.value(filler, ())
    with e.guarded(inside):
        value = e.value(operand, tuple(source))
    if inside is None or inside is True:
        return value
    return e.select(inside, value, e.value(filler, ()))


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


@handles(Opcode.CONCATENATE)
def _concatenate(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    axis = attrs(node).dimensions[0]
    b = e.builder
    offset = 0
    result: Element | None = None
    pieces: list[tuple[Value | bool, Instruction, int]] = []
    for operand in node.operands:
        size = operand.shape.dimensions[axis]
        if size:
            pieces.append((b.in_range(index[axis], offset, offset + size), operand, offset))
        offset += size
    for inside, operand, start in reversed(pieces):
        if inside is False:
            continue
        source = tuple(i - start if d == axis else i for d, i in enumerate(index))
        with e.guarded(inside):
            value = e.value(operand, source)
        if result is None or inside is True:
            result = value
        else:
            result = e.select(inside, value, result)
    assert result is not None
    return result


@handles(Opcode.GET_TUPLE_ELEMENT)
def _get_tuple_element(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    operand = node.operands[0]
    if operand.opcode is Opcode.TUPLE:
        return e.value(operand.operands[node.tuple_index], index)
    return e.value(operand, index)[node.tuple_index]  # type: ignore[index]


@handles(Opcode.GET_DIMENSION_SIZE)
def _get_dimension_size(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    size = node.operands[0].shape.dimensions[attrs(node).dimensions[0]]
    return e.scalar(node.shape.element_type, size)


@handles(Opcode.BITCAST_CONVERT)
def _bitcast_convert_resized(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    """bitcast-convert between element types of different widths: the narrow side has one more
    dimension."""
    operand = node.operands[0]
    b = e.builder
    wide_bits = operand.shape.element_type.bits
    narrow_bits = node.shape.element_type.bits
    if wide_bits > narrow_bits:
        wide = _SHIFT_TYPES[wide_bits]
        narrow = _SHIFT_TYPES[narrow_bits]
        source = e.real(operand, index[:-1])
        if source.type is not wide:
            source = b.compute(Opcode.BITCAST_CONVERT, wide, (source,))
        amount = b.index_value(index[-1] * narrow_bits, wide)
        piece = b.compute(
            Opcode.CONVERT, narrow, (b.compute(Opcode.SHIFT_RIGHT_LOGICAL, wide, (source, amount)),)
        )
        if node.shape.element_type is narrow:
            return piece
        return b.compute(Opcode.BITCAST_CONVERT, node.shape.element_type, (piece,))
    wide = _SHIFT_TYPES[narrow_bits]
    narrow = _SHIFT_TYPES[wide_bits]
    total: Value | None = None
    for i in range(narrow_bits // wide_bits):
        piece = e.real(operand, (*index, constant(i)))
        if piece.type is not narrow:
            piece = b.compute(Opcode.BITCAST_CONVERT, narrow, (piece,))
        piece = b.compute(Opcode.CONVERT, wide, (piece,))
        if i:
            piece = b.compute(Opcode.SHIFT_LEFT, wide, (piece, b.constant(wide, i * wide_bits)))
        total = piece if total is None else b.compute(Opcode.OR, wide, (total, piece))
    assert total is not None
    if node.shape.element_type is wide:
        return total
    return b.compute(Opcode.BITCAST_CONVERT, node.shape.element_type, (total,))
