"""Converts moved to where they touch fewer bytes."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit

# Operations that hand on elements of operand 0 as they are, at most as many as it has.
_SELECTS = (Opcode.SLICE, Opcode.DYNAMIC_SLICE, Opcode.GATHER)
_REARRANGES = (Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.REVERSE)


def _widens(node: Instruction) -> bool:
    """A convert to a type of more bits, so that elements moved before it are smaller."""
    return node.opcode is Opcode.CONVERT and _bits(node.operands[0]) < _bits(node)


def _bits(node: Instruction) -> int:
    return node.shape.element_type.bits


def _movement_of_widening(node: Instruction) -> Instruction | None:
    """move(convert(x)) -> convert(move(x))."""
    source = node.operands[0]
    if not _widens(source) or len(source.users) != 1:
        return None
    return _converted(node, [source.operands[0], *node.operands[1:]])


def _selection_of_widening(node: Instruction) -> Instruction | None:
    """As above where the convert has other readers too, if few of its elements are taken: they
    may be all that is left of it."""
    source = node.operands[0]
    if not _widens(source) or 4 * node.shape.num_elements > source.shape.num_elements:
        return None
    return _converted(node, [source.operands[0], *node.operands[1:]])


def _concatenation_of_widening(node: Instruction) -> Instruction | None:
    sources = node.operands
    if not all(_widens(s) and len(s.users) == 1 for s in sources):
        return None
    if len({s.operands[0].shape.element_type for s in sources}) != 1:
        return None
    return _converted(node, [s.operands[0] for s in sources])


def _converted(node: Instruction, operands: Sequence[Instruction]) -> Instruction:
    b = Emit(node)
    narrow = _retyped(node, list(operands), operands[0].shape.element_type)
    return b.convert(b.computation.add(narrow), node.shape.element_type)


def _narrowing_of_movement(node: Instruction) -> Instruction | None:
    """convert(move(x)) -> move(convert(x)), which moves smaller elements."""
    moved = node.operands[0]
    if moved.opcode not in _REARRANGES or len(moved.users) != 1 or _bits(node) >= _bits(moved):
        return None
    narrow = Emit(node).convert(moved.operands[0], node.shape.element_type)
    return _retyped(moved, [narrow], node.shape.element_type)


def _convert_of_broadcast(node: Instruction) -> Instruction | None:
    """convert(broadcast(x)) -> broadcast(convert(x)), which converts fewer elements."""
    broadcast = node.operands[0]
    if broadcast.opcode is not Opcode.BROADCAST or len(broadcast.users) != 1:
        return None
    narrow = Emit(node).convert(broadcast.operands[0], node.shape.element_type)
    return _retyped(broadcast, [narrow], node.shape.element_type)


def _retyped(
    node: Instruction, operands: list[Instruction], element_type: PrimitiveType
) -> Instruction:
    """A detached copy of `node` on operands of another element type."""
    return clone_instruction(node, operands, node.shape.with_type(element_type))


class ConvertMover(RuleTablePass):
    """gather(convert(table)) -> convert(gather(table)) where convert widens;
    convert(transpose(x)) -> transpose(convert(x)) where it narrows.

    Why: mixed-precision programs convert whole tables and weights of which a step reads a few
    rows, and move activations about in the wider of two types.
    Needs: nothing.
    Leaves: no widening convert in front of a gather, slice, transpose, reshape, reverse or
    concatenation that alone reads it; no narrowing one behind such a rearrangement.
    """

    name = "convert-mover"
    opcodes = frozenset({Opcode.CONVERT})
    rules = {
        **dict.fromkeys(_SELECTS, (_movement_of_widening, _selection_of_widening)),
        **dict.fromkeys(_REARRANGES, (_movement_of_widening,)),
        Opcode.CONCATENATE: (_concatenation_of_widening,),
        Opcode.CONVERT: (_narrowing_of_movement, _convert_of_broadcast),
    }
