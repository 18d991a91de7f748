"""Conditionals whose branch is known."""

from __future__ import annotations

from xla_backend.hlo.attributes import ConditionalAttributes
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.patterns import splat_value


class ConditionalSimplifier(HloPass):
    """A conditional on a constant, or with one branch, is that branch inlined.

    Why: static arguments and vmapped switches leave such conditionals.
    Needs: call graph flattened.  Leaves: no conditional whose branch is known.
    """

    name = "conditional-simplifier"
    opcodes = frozenset({Opcode.CONDITIONAL})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.CONDITIONAL):
            branch = _known_branch(node)
            if branch is None:
                continue
            result = computation.inline(node.called[branch], [node.operands[1 + branch]])
            computation.replace_uses(node, result)
            computation.remove(node)
            changed = True
        return changed

    def run(self, module: HloModule) -> bool:
        changed = super().run(module)
        if changed:
            module.remove_unreachable()
        return changed


def _known_branch(node: Instruction) -> int | None:
    assert isinstance(node.attributes, ConditionalAttributes)
    count = len(node.called)
    if count == 1:
        return 0
    value = splat_value(node.operands[0])
    if value is None:
        return None
    if not node.attributes.is_indexed:
        return 0 if value else 1
    index = int(value)
    return index if 0 <= index < count else count - 1
