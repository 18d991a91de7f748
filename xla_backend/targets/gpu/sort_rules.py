"""sort: one kernel, in the memory of blocks or in several stages."""

from __future__ import annotations

from xla_backend.hlo.attributes import SortAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


@RULES.runs(Opcode.SORT)
def _sort(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    assert isinstance(node.attributes, SortAttributes)
    axis, shapes = node.attributes.dimension, [operand.shape for operand in node.operands]
    return builder.launch(node, lambda name: sort_kernel(name, shapes, axis, node.called[0]))
