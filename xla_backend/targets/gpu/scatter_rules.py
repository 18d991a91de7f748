"""scatter and select-and-scatter: kernels of several stages, so that no two threads write one
place."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.library.scatter import scatter_kernel
from xla_backend.kernels.library.selected_scatter import select_and_scatter_kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


@RULES.runs(Opcode.SCATTER)
def _scatter(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    deterministic = builder.options.gpu.deterministic
    return builder.launch(node, lambda name: scatter_kernel(name, node, deterministic))


@RULES.runs(Opcode.SELECT_AND_SCATTER)
def _select_and_scatter(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return builder.launch(node, lambda name: select_and_scatter_kernel(name, node))
