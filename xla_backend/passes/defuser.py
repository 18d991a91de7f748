"""Fusions taken apart."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass


class Defuser(HloPass):
    """fusion(f, args) -> the body of f.

    Why: a program optimised for another target brings that target's fusions, up to matrix products
    and calls of its libraries in one fusion; ours are chosen by what our kernels can do.
    Needs: nothing.  Leaves: no fusion instruction.
    """

    name = "defuser"
    opcodes = frozenset({Opcode.FUSION})

    def run(self, module: HloModule) -> bool:
        changed = super().run(module)
        if changed:
            module.remove_unreachable()
        return changed

    def run_on_computation(self, computation: Computation) -> bool:
        fusions = computation.post_order(Opcode.FUSION)
        for fusion in fusions:
            result = computation.inline(fusion.called[0], fusion.operands)
            computation.replace_uses(fusion, result)
            computation.remove(fusion)
        return bool(fusions)
