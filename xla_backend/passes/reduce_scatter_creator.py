"""Sums over devices of which each takes a part."""

from __future__ import annotations

from xla_backend.hlo.attributes import CollectiveAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.collectives import sliced_by_position, topology_of
from xla_backend.passes.emit import Emit


def _scattered(node: Instruction) -> Instruction | None:
    summed = node.operands[0]
    if summed.opcode is not Opcode.ALL_REDUCE or list(summed.users) != [node]:
        return None
    a, topology = summed.attributes, topology_of(node)
    assert isinstance(a, CollectiveAttributes)
    found = sliced_by_position(node, topology.groups(summed), topology)
    if found is None or a.channel_id is None:
        return None
    dimension, groups = found
    attributes = CollectiveAttributes(
        groups, a.channel_id, (dimension,), use_global_device_ids=True
    )
    return Emit(node).add(
        Opcode.REDUCE_SCATTER, summed.operands, attributes, summed.called, shape=node.shape
    )


class ReduceScatterCreator(RuleTablePass):
    """dynamic-slice(all-reduce(x)) -> reduce-scatter(x), where each device of a group takes another
    part of one dimension.

    Why: half of what is exchanged; programs that write out `psum` and their own part have it.
    Needs: no asynchronous forms.  Leaves: no such slice of an all-reduce that nobody else uses.
    """

    name = "reduce-scatter-creator"
    opcodes = frozenset({Opcode.ALL_REDUCE})
    rules = {Opcode.DYNAMIC_SLICE: (_scattered,)}
