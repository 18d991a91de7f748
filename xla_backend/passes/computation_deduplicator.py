"""Equal reducers, combiners and comparators made one."""

from __future__ import annotations

from collections.abc import Hashable

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.call_inliner import CONTROL_FLOW
from xla_backend.passes.cse import computation_key


class ComputationDeduplicator(HloPass):
    """Applied computations of equal structure -> the first of them.

    Why: lowering emits a reducer for each reduce; every pass walks every computation.
    Needs: calls inlined.  Leaves: no two equal computations applied by reduce, scatter, sort and
    the like; bodies of whiles and conditionals are left apart, each with one caller.
    """

    name = "computation-deduplicator"
    opcodes = frozenset(op for op in Opcode if op.calls != 0) - CONTROL_FLOW

    def run(self, module: HloModule) -> bool:
        applied: dict[Computation, list[Instruction]] = {}
        for computation in module.computations:
            if self.opcodes.isdisjoint(computation.opcodes):
                continue
            for node in computation.instructions:
                if node.called and node.opcode not in CONTROL_FLOW:
                    for callee in node.called:
                        applied.setdefault(callee, []).append(node)
        if len(applied) < 2:
            return False
        keys: dict[Computation, Hashable] = {}
        first: dict[Hashable, Computation] = {}
        changed = False
        for callee, callers in applied.items():
            kept = first.setdefault(computation_key(callee, keys), callee)
            if kept is not callee:
                changed = True
                for node in callers:
                    node.called = [kept if c is callee else c for c in node.called]
        if changed:
            module.remove_unreachable()
        return changed
