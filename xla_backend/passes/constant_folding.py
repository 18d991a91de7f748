"""Constant folding through the evaluator, within a budget."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import ConstantAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.fusion_rules import ELEMENTWISE
from xla_backend.process.on_first_use import on_first_use

_evaluate_computation = on_first_use("xla_backend.hlo.evaluator", "evaluate_computation")

_FOLDABLE = ELEMENTWISE | {
    Opcode.RESHAPE,
    Opcode.TRANSPOSE,
    Opcode.REVERSE,
    Opcode.SLICE,
    Opcode.CONCATENATE,
    Opcode.PAD,
    Opcode.DYNAMIC_SLICE,
    Opcode.DYNAMIC_UPDATE_SLICE,
    Opcode.REDUCE,
    Opcode.GATHER,
    Opcode.DOT,
    Opcode.BITCAST_CONVERT,
}
# An operation is folded where its result is small, or no larger than what it replaces.
_SMALL_BYTES = 1024
_MAX_OPERAND_ELEMENTS = 1 << 16


class ConstantFolding(HloPass):
    """Operations on constants are done now.

    Why: lowering leaves arithmetic on shapes, dtypes and literals; each folded scalar is one
    kernel less.
    Needs: dead code removed. Broadcasts and iotas are never folded: they are cheaper computed
    than loaded.
    Leaves: no foldable operation within the budget whose operands are all constants.
    """

    name = "constant-folding"
    opcodes = frozenset({Opcode.CONSTANT})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in topological_order(computation):
            if node.opcode in _FOLDABLE and node.shape.is_array and _worth_folding(node):
                literal = _evaluate(node)
                constant = Instruction(
                    Opcode.CONSTANT, literal.shape, (), ConstantAttributes(literal)
                )
                computation.replace(node, constant)
                changed = True
        return changed


def _worth_folding(node: Instruction) -> bool:
    if not node.operands:
        return False
    bytes_read = elements = 0
    for operand in node.operands:
        if operand.opcode is not Opcode.CONSTANT:
            return False
        bytes_read += operand.shape.byte_size
        elements += operand.shape.num_elements
    if elements > _MAX_OPERAND_ELEMENTS:
        return False
    return node.shape.byte_size <= max(_SMALL_BYTES, bytes_read)


def _evaluate(node: Instruction) -> Literal:
    """The value of an operation on constants."""
    scratch = Computation("folded")
    operands = [scratch.add(clone_instruction(o, [])) for o in dict.fromkeys(node.operands)]
    by_original = dict(zip(dict.fromkeys(node.operands), operands))
    scratch.root = scratch.add(clone_instruction(node, [by_original[o] for o in node.operands]))
    value = Literal(np.asarray(_evaluate_computation(scratch, [])))
    scratch.take_apart()
    return value
