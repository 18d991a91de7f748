"""sort: one kernel, in the memory of blocks or in several stages."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.program.kernel_table import computation_key
from xla_backend.targets.gpu.places import arrays_of
from xla_backend.targets.gpu.rules import RULES


@RULES.runs(Opcode.SORT)
def _sort(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    shapes = [operand.shape for operand in node.operands]
    if shapes[0].num_elements == 0:
        return []
    axis = node.attributes.dimension  # type: ignore[attr-defined]
    comparator = node.called[0]

    def build(name: str) -> Kernel:
        return sort_kernel(name, shapes, axis, comparator)

    key = ("sort", tuple(shapes), axis, computation_key(comparator))
    scheduled = builder.kernels.get_built(key, node.name, build, node)
    return [builder.launch_kernel(node.name, scheduled, arrays_of(builder, node))]
