"""Constants of tuple shape -> tuples of constants."""

from __future__ import annotations

from xla_backend.hlo.attributes import ConstantAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit


class TupleConstantExpander(HloPass):
    """constant((a, b)) -> tuple(constant(a), constant(b)), for tuples in tuples as well.

    Why: everything after it takes the value of a constant for one array.
    Needs: nothing.  Leaves: no constant of tuple shape.
    """

    name = "tuple-constant-expander"
    opcodes = frozenset({Opcode.CONSTANT})

    def run_on_computation(self, computation: Computation) -> bool:
        found = [n for n in computation.instructions if _is_tuple_constant(n)]
        for node in found:
            assert isinstance(node.attributes, ConstantAttributes)
            computation.replace(node, _expanded(Emit(node), node.attributes.literal))
        return bool(found)


def _is_tuple_constant(node: Instruction) -> bool:
    return node.opcode is Opcode.CONSTANT and node.shape.is_tuple


def _expanded(b: Emit, literal: Literal) -> Instruction:
    if literal.shape.is_tuple:
        return b.tuple([_expanded(b, element) for element in literal.elements])
    return b.add(Opcode.CONSTANT, (), ConstantAttributes(literal), shape=literal.shape)
