"""Attention and its gradient, which a pass has made fusions of, as one kernel each."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionKind
from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.library.attention import attention_kernel
from xla_backend.kernels.library.score_streams import streams_kernel
from xla_backend.passes.attention_fusion import attention_in
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


def _attention(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    is_forward = attention_in(node.called[0]) is not None
    kernel = attention_kernel if is_forward else streams_kernel
    return builder.launch(node, lambda name: kernel(node, name))


RULES.fusions[FusionKind.CUSTOM] = _attention
