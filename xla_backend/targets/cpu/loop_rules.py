"""Loop fusions that are no kernels: places that sorts number themselves, transposes by routine."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.cpu.rules import RULES

_are_places = on_first_use("xla_backend.targets.cpu.sort_rules", "are_places")
_transposed = on_first_use("xla_backend.targets.cpu.transpose_rules", "loops")


def _loop_fusion(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    # Most are neither, and then nothing that knows more is loaded.
    only_sorted = all(user.opcode is Opcode.SORT for user in node.users)
    if only_sorted and not node.is_root and _are_places(node):
        return []
    if Opcode.TRANSPOSE in node.called[0].opcodes:
        return _transposed(builder, node)
    return builder.launch(node)


RULES.fusions[FusionKind.LOOP] = _loop_fusion
