"""Arrays without elements."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import ConstantAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.dce import has_side_effect

_KEPT = frozenset({Opcode.PARAMETER, Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT})


class ZeroSizedElimination(HloPass):
    """Whatever computes an array without elements -> an empty constant.

    Why: code generation need not think of empty loops in every kernel.
    Needs: nothing.
    Leaves: no zero-sized array but parameters, constants, and members of tuples that something
    computes.
    """

    name = "zero-sized-elimination"

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.instructions:
            if node.opcode in _KEPT or 0 not in node.shape.dimensions or node.parent is None:
                continue
            if has_side_effect(node):
                continue
            empty = Literal(np.zeros(node.shape.dimensions, node.shape.element_type.numpy_dtype))
            constant = Instruction(Opcode.CONSTANT, empty.shape, (), ConstantAttributes(empty))
            computation.replace(node, constant)
            changed = True
        return changed
