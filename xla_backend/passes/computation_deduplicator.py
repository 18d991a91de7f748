"""Equal reducers, combiners and comparators made one."""

from __future__ import annotations

from collections.abc import Hashable

from xla_backend.hlo.instruction import Computation
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
        keys: dict[Computation, Hashable] = {}
        first: dict[Hashable, Computation] = {}
        changed = False
        for computation in list(module.computations):
            if self.opcodes.isdisjoint(computation.opcodes):
                continue
            for node in computation.instructions:
                if not node.called or node.opcode in CONTROL_FLOW:
                    continue
                for i, callee in enumerate(node.called):
                    kept = first.setdefault(computation_key(callee, keys), callee)
                    if kept is not callee:
                        node.called[i] = kept
                        changed = True
        if changed:
            module.remove_unreachable()
        return changed
