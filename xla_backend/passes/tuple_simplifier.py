"""Tuples taken apart where they are put together, and the reverse."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass


class TupleSimplifier(HloPass):
    """get-tuple-element(tuple(a, b), 1) -> b;  tuple(gte(x, 0), .., gte(x, n-1)) -> x.

    Why: inlining and loop passes leave such pairs; they hide producers from fusion.
    Needs: nothing.  Leaves: no get-tuple-element of a tuple, no tuple that rebuilds its source.
    """

    name = "tuple-simplifier"
    opcodes = frozenset({Opcode.GET_TUPLE_ELEMENT, Opcode.TUPLE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.instructions:
            if node.opcode not in self.opcodes or node.parent is None:
                continue
            if node.opcode is Opcode.GET_TUPLE_ELEMENT:
                source = node.operands[0]
                if source.opcode is Opcode.TUPLE:
                    computation.replace(node, source.operands[node.tuple_index])
                    changed = True
            else:
                whole = _rebuilt(node)
                if whole is not None:
                    computation.replace(node, whole)
                    changed = True
        return changed


def _rebuilt(node: Instruction) -> Instruction | None:
    if not node.operands or node.operands[0].opcode is not Opcode.GET_TUPLE_ELEMENT:
        return None
    whole = node.operands[0].operands[0]
    if whole.shape != node.shape:
        return None
    for i, element in enumerate(node.operands):
        if (
            element.opcode is not Opcode.GET_TUPLE_ELEMENT
            or element.operands[0] is not whole
            or element.tuple_index != i
        ):
            return None
    return whole
