"""Custom calls that bring what they mean."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass


class CustomCallInliner(HloPass):
    """custom-call(args) whose one called computation takes these arguments and gives this result
    -> the body of that computation, unless `is_known` says the target has a function.

    Why: such a call names a library of the compiler that made it; the computation says the same.
    Needs: nothing.  Leaves: no custom call with a decomposition and an unknown target.
    """

    name = "custom-call-inliner"
    opcodes = frozenset({Opcode.CUSTOM_CALL})

    def __init__(self, is_known: Callable[[str], bool] = lambda target: False) -> None:
        self.is_known = is_known

    def run(self, module: HloModule) -> bool:
        changed = super().run(module)
        if changed:
            module.remove_unreachable()
        return changed

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.CUSTOM_CALL):
            assert isinstance(node.attributes, CustomCallAttributes)
            if node.is_decomposed_call and not self.is_known(node.attributes.target):
                result = computation.inline(node.called[0], node.operands)
                computation.replace_uses(node, result)
                computation.remove(node)
                changed = True
        return changed
