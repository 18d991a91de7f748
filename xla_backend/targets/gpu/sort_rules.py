"""sort: one kernel, in the memory of blocks or in several stages. Where all that is read of it is
the first few of each row, as of the k largest, it finds no others."""

from __future__ import annotations

from xla_backend.hlo.attributes import SortAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.passes.sort_readers import places_read
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


@RULES.runs(Opcode.SORT)
def _sort(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    assert isinstance(node.attributes, SortAttributes)
    axis, shapes = node.attributes.dimension, [operand.shape for operand in node.operands]
    _, first = places_read(node, axis, shapes[0].dimensions[axis])

    def build(name: str) -> Kernel:
        return sort_kernel(name, shapes, axis, node.called[0], first)

    return builder.launch(node, build, first)
