"""opt-barriers, at the end of optimisation."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass


class OptBarrierElimination(HloPass):
    """opt-barrier(x) -> x.

    Why: a barrier keeps cse and simplifications from merging what is behind it with what is before;
    once those have run it only hinders fusion and scheduling.
    Needs: runs after the last cse.  Leaves: no opt-barrier.
    """

    name = "opt-barrier-elimination"
    opcodes = frozenset({Opcode.OPT_BARRIER})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.OPT_BARRIER)
        for node in nodes:
            computation.replace(node, node.operands[0])
        return bool(nodes)
