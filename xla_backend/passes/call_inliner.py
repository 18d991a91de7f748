"""Call inlining, and giving every control-flow body exactly one caller."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass


class CallInliner(HloPass):
    """call(f, args) -> the body of f.

    Why: jit inside jit lowers to calls, and nothing fuses across one.
    Needs: nothing.  Leaves: no call instruction.
    """

    name = "call-inliner"
    opcodes = frozenset({Opcode.CALL})

    def run_on_computation(self, computation: Computation) -> bool:
        if Opcode.CALL not in computation.opcodes:
            return False
        calls = computation.post_order(Opcode.CALL)
        for call in calls:
            result = computation.inline(call.called[0], call.operands, call.metadata)
            if result is call:  # pragma: no cover - a call cannot be its own argument
                continue
            computation.replace_uses(call, result)
            computation.remove(call)
        return bool(calls)

    def run(self, module: HloModule) -> bool:
        changed = False
        for (
            computation
        ) in module.post_order():  # callees first, so that what is copied has no calls
            changed |= self.run_on_computation(computation)
        if changed:
            module.remove_unreachable()
        return changed


CONTROL_FLOW = frozenset({Opcode.WHILE, Opcode.CONDITIONAL})


class CallGraphFlattener(HloPass):
    """Give each while or conditional its own copy of the computations it runs.

    Why: after inlining one function twice, two whiles share a body; buffer assignment gives each
    instruction one place, and simplifications of a body must not see another caller's facts.
    Needs: nothing.  Leaves: computations of whiles and conditionals with exactly one caller.
    """

    name = "call-graph-flattener"
    opcodes = CONTROL_FLOW

    def run(self, module: HloModule) -> bool:
        assert module.entry is not None
        claimed: set[Computation] = {module.entry}
        changed = False
        stack = [module.entry]
        while stack:
            for node in stack.pop().instructions:
                if node.opcode not in CONTROL_FLOW:
                    continue
                for i, callee in enumerate(node.called):
                    if callee in claimed:
                        callee = callee.clone()
                        module.add_computation(callee)
                        node.called[i] = callee
                        changed = True
                    claimed.add(callee)
                    stack.append(callee)
        if changed:
            # Clones were appended after their callers: restore callees-first order.
            module.remove_unreachable()
        return changed
