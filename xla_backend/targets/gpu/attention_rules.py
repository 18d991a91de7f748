"""Attention, which a pass has made a fusion of, as one kernel."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.library.attention import attention_kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


def _attention(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return builder.launch(node, lambda name: attention_kernel(node, name))


RULES.fusions[FusionKind.CUSTOM] = _attention
