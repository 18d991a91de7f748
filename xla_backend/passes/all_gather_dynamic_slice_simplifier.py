"""Parts that are gathered, and taken apart again."""

from __future__ import annotations

from xla_backend.hlo.attributes import CollectiveAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.collectives import sliced_by_position, topology_of


def _taken_again(node: Instruction) -> Instruction | None:
    gathered = node.operands[0]
    if gathered.opcode is not Opcode.ALL_GATHER or gathered.shape.is_tuple:
        return None
    (given,), exchange = gathered.operands, gathered.attributes
    assert isinstance(exchange, CollectiveAttributes)
    if node.shape != given.shape:
        return None
    topology = topology_of(node)
    groups = topology.groups(gathered)
    own = sliced_by_position(node, groups, topology) == (exchange.dimensions[0], groups)
    return given if own else None


class AllGatherDynamicSliceSimplifier(RuleTablePass):
    """dynamic-slice(all-gather(x)) -> x, where each device takes what it gave.

    Why: libraries gather at the end of a layer, and take their part at the beginning of the next.
    Needs: no asynchronous forms.  Leaves: no such slice.
    """

    name = "all-gather-dynamic-slice-simplifier"
    opcodes = frozenset({Opcode.ALL_GATHER})
    rules = {Opcode.DYNAMIC_SLICE: (_taken_again,)}
