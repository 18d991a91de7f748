"""Dead code elimination."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order

_MAY_HAVE_EFFECT = frozenset(op for op in Opcode if op.has_side_effect) | {Opcode.CUSTOM_CALL}
_MAY_KEEP = _MAY_HAVE_EFFECT | frozenset(op for op in Opcode if op.calls != 0)


class DeadCodeElimination(HloPass):
    """Remove instructions that neither the root nor a side effect needs, and computations nobody
    calls.

    Why: other passes leave unused operands behind, and lowering emits values nobody asked for.
    Needs: nothing.  Leaves: every instruction but parameters reaches the root or a side effect.
    """

    name = "dce"
    idempotent = True

    def run(self, module: HloModule) -> bool:
        changed = False
        effects: dict[Computation, bool] = {}
        live = module.post_order()
        for computation in live:  # callees first, so that `effects` is known for calls
            changed |= _sweep(computation, effects)
        # What went may have called the last of a computation.
        if changed:
            live = module.post_order()
        # remove_unreachable also reorders: called only where something goes, or the flag would lie.
        if len(live) != len(module.computations):
            changed |= module.remove_unreachable()
        return changed


def has_side_effect(node: Instruction, effects: dict[Computation, bool] | None = None) -> bool:
    """Whether the instruction itself, or anything in a computation it calls, must not be removed.

    `effects` memoises the answer per computation.
    """
    if node.opcode.has_side_effect or getattr(node.attributes, "has_side_effect", False):
        return True
    if not node.called:
        return False
    effects = {} if effects is None else effects
    for callee in node.called:
        if callee not in effects:
            effects[callee] = any(has_side_effect(inner, effects) for inner in callee.instructions)
        if effects[callee]:
            return True
    return False


def _sweep(computation: Computation, effects: dict[Computation, bool]) -> bool:
    root = computation.root
    assert root is not None
    if _MAY_KEEP.isdisjoint(computation.opcodes):
        effects[computation] = False
        # What is dead and used has a user that is dead, so somewhere one is without users.
        for node in computation:
            if not node.users and node is not root and node.opcode is not Opcode.PARAMETER:
                break
        else:
            return False
    live = {root}
    stack = [root]
    found_effect = False
    for node in computation.instructions:
        if (node.called or node.opcode in _MAY_HAVE_EFFECT) and has_side_effect(node, effects):
            found_effect = True
            if node not in live:
                live.add(node)
                stack.append(node)
    while stack:
        for operand in stack.pop().operands:
            if operand not in live:
                live.add(operand)
                stack.append(operand)
    effects[computation] = found_effect
    if len(live) == len(computation):
        return False
    dead = [
        n
        for n in topological_order(computation)
        if n not in live and n.opcode is not Opcode.PARAMETER
    ]
    for node in reversed(dead):
        computation.remove(node)
    return bool(dead)
