"""reduce-window: prefix reductions are scans; other windows are plain kernels."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.nests import scan_axis
from xla_backend.kernels.library.cumulative import cumulative_kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


@RULES.runs(Opcode.REDUCE_WINDOW)
def _reduce_window(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    scan = scan_axis(node)
    if scan is None:
        return builder.launch(node)
    return builder.launch(node, lambda name: cumulative_kernel(name, node, *scan))
