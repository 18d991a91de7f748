"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable

from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order

_NEVER = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.WHILE,
        Opcode.CONDITIONAL,
        Opcode.CALL,
        Opcode.CUSTOM_CALL,
        Opcode.AFTER_ALL,
        Opcode.RNG,
        Opcode.COPY,
    }
) | {opcode for opcode in Opcode if opcode.has_side_effect}
_MAX_REDUCER = 32  # instructions of an applied computation that are compared


class CommonSubexpressionElimination(HloPass):
    """Instructions that compute the same from the same operands become one.

    Why: differentiation and vmap repeat work; one value instead of two also saves its memory.
    Needs: nothing.  Leaves: no two equal instructions in a computation. opt-barriers keep what is
    behind them apart from what is before, as rematerialisation wants.
    """

    name = "cse"

    def run_on_computation(self, computation: Computation) -> bool:
        # By opcode and operands, which hardly any two share: only of those the rest is looked at.
        seen: dict[Hashable, Instruction | dict[Hashable, Instruction]] = {}
        callees: dict[Computation, Hashable] = {}
        same: dict[Instruction, Instruction] = {}
        for node in topological_order(computation):
            opcode = node.opcode
            if opcode in _NEVER:
                continue
            operands = node.operands
            if same:
                operands = [same.get(o, o) for o in operands]
            if opcode.is_commutative and len(operands) == 2 and id(operands[0]) > id(operands[1]):
                operands = [operands[1], operands[0]]
            key = (opcode, *operands)
            alike = seen.setdefault(key, node)
            if alike is node:
                continue
            if isinstance(alike, Instruction):
                alike = seen[key] = {_rest_of_key(alike, callees): alike}
            first = alike.setdefault(_rest_of_key(node, callees), node)
            if first is not node:
                same[node] = first
        computation.replace_all_uses(same)
        for node in same:
            computation.remove(node)
        return bool(same)


def _rest_of_key(node: Instruction, callees: dict[Computation, Hashable]) -> Hashable:
    """Equal for instructions of an opcode with the same operands that compute the same."""
    called = tuple(computation_key(c, callees) for c in node.called)
    attributes = node.attributes
    if node.opcode in COLLECTIVES:
        # Its own number is all that tells one from another that does the same.
        attributes = type(attributes)(**{**vars(attributes), "channel_id": None})
    return node.shape, attributes, called


def computation_key(computation: Computation, known: dict[Computation, Hashable]) -> Hashable:
    """Equal for computations of the same structure."""
    key = known.get(computation)
    if key is None:
        if len(computation) > _MAX_REDUCER:
            key = computation
        else:
            number: dict[Instruction, int] = {}
            rows: list[Hashable] = []
            for node in computation.post_order():
                number[node] = len(number)
                callees = tuple(computation_key(c, known) for c in node.called)
                operands = tuple(number[o] for o in node.operands)
                rows.append((node.opcode, node.shape, node.attributes, operands, callees))
            assert computation.root is not None
            key = (*rows, number[computation.root])
        known[computation] = key
    return key
