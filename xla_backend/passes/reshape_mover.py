"""Reshapes and transposes moved from the operands of elementwise operations to their results."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import dims_of, is_pointwise, scalar_of

_REARRANGES = frozenset({Opcode.RESHAPE, Opcode.TRANSPOSE})


class ReshapeMover(HloPass):
    """add(reshape(a), reshape(b)) -> reshape(add(a, b)), and so for transpose.

    Why: a reshape in the middle of a chain of elementwise operations keeps the chain from being
    one loop (dimensions that merge need a division for each element), and below the chain it may
    meet another that undoes it.
    Needs: algebraic-shape keeps chains of reshapes and of transposes merged.
    Leaves: no elementwise operation all of whose operands are rearranged alike (or are one value
    everywhere), where at least one of these rearrangements has no other reader.
    """

    name = "reshape-mover"
    opcodes = _REARRANGES

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in topological_order(computation):
            if node.parent is None or not is_pointwise(node) or _widens(node):
                continue
            if not (node.users or node.is_root):
                continue
            pattern = _common_rearrangement(node)
            if pattern is not None:
                computation.replace(node, _sunk(node, pattern))
                changed = True
        return changed


def _widens(node: Instruction) -> bool:
    """A convert to more bits: it stays behind, where convert-mover puts it, because moving smaller
    elements is cheaper."""
    bits = node.shape.element_type.bits
    return node.opcode is Opcode.CONVERT and bits > node.operands[0].shape.element_type.bits


def _common_rearrangement(node: Instruction) -> Instruction | None:
    """One of the operands' rearrangements if all are alike, and moving them makes them fewer."""
    found: Instruction | None = None
    dies = False
    for operand in node.operands:
        if not operand.shape.dimensions or scalar_of(operand) is not None:
            continue
        if operand.opcode not in _REARRANGES:
            return None
        if found is not None and not _alike(found, operand):
            return None
        found = operand
        dies |= len(operand.users) == 1
    return found if dies else None


def _alike(a: Instruction, b: Instruction) -> bool:
    if a.opcode is not b.opcode or not a.operands[0].shape.same_dimensions(b.operands[0].shape):
        return False
    return a.opcode is Opcode.RESHAPE or dims_of(a) == dims_of(b)


def _sunk(node: Instruction, pattern: Instruction) -> Instruction:
    """`node` on what its operands rearrange, then rearranged like `pattern`."""
    source = pattern.operands[0].shape.dimensions
    b = Emit(node)
    operands = []
    for operand in node.operands:
        if not operand.shape.dimensions:
            # A scalar beside arrays, such as a select's condition; a reshape made it, maybe.
            operands.append(operand)
        elif operand.opcode in _REARRANGES:
            operands.append(operand.operands[0])
        else:
            scalar = scalar_of(operand)
            assert scalar is not None
            operands.append(b.broadcast(scalar, source, ()))
    shape = node.shape.with_dimensions(source)
    inner = b.computation.add(clone_instruction(node, operands, shape))
    if pattern.opcode is Opcode.RESHAPE:
        return b.reshape(inner, node.shape.dimensions)
    return b.transpose(inner, dims_of(pattern))
