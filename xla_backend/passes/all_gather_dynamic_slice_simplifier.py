"""Parts that are gathered, and taken apart again."""

from __future__ import annotations

from xla_backend.hlo.attributes import CollectiveAttributes, DynamicSliceAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.topology import Topology
from xla_backend.passes.base import HloPass
from xla_backend.passes.collectives import sliced_by_position, topology_of


class AllGatherDynamicSliceSimplifier(HloPass):
    """dynamic-slice(all-gather(x)) -> x, where each device takes what it gave.

    Why: libraries gather at the end of a layer, and take their part at the beginning of the next.
    Needs: no asynchronous forms.  Leaves: no such slice.
    """

    name = "all-gather-dynamic-slice-simplifier"
    opcodes = frozenset({Opcode.ALL_GATHER})

    def run(self, module: HloModule) -> bool:
        self._topology = topology_of(module)
        return super().run(module)

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.DYNAMIC_SLICE):
            if not self.may_rewrite():
                break
            if _takes_its_own(node, self._topology):
                computation.replace(node, node.operands[0].operands[0])
                self.rewritten()
                changed = True
        return changed


def _takes_its_own(node: Instruction, topology: Topology) -> bool:
    gathered, a = node.operands[0], node.attributes
    assert isinstance(a, DynamicSliceAttributes)
    if gathered.opcode is not Opcode.ALL_GATHER or gathered.shape.is_tuple:
        return False
    exchange = gathered.attributes
    assert isinstance(exchange, CollectiveAttributes)
    if node.shape != gathered.operands[0].shape:
        return False
    groups = topology.groups(gathered)
    return sliced_by_position(node, groups, topology) == (exchange.dimensions[0], groups)
