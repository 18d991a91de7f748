"""Loop fusions that are no kernels: places that sorts number themselves, transposes by routine."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.cpu.rules import RULES
from xla_backend.targets.cpu.sort_rules import are_places
from xla_backend.targets.cpu.transpose_rules import loops


def _loop_fusion(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    return [] if are_places(node) else loops(builder, node)


RULES.fusions[FusionKind.LOOP] = _loop_fusion
