"""sort: one kernel, in the memory of blocks or in several stages. Where all that is read of it is
the first few of each row, as of the k largest, it finds no others."""

from __future__ import annotations

from xla_backend.hlo.attributes import SliceAttributes, SortAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES


@RULES.runs(Opcode.SORT)
def _sort(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    assert isinstance(node.attributes, SortAttributes)
    axis, shapes = node.attributes.dimension, [operand.shape for operand in node.operands]
    first = most_read(node, axis, shapes[0].dimensions[axis])

    def build(name: str) -> Kernel:
        return sort_kernel(name, shapes, axis, node.called[0], first)

    return builder.launch(node, build, first)


def most_read(value: Instruction, axis: int, size: int) -> int:
    """How many elements along an axis, from its start on, anyone reads of an array or of the arrays
    of a tuple."""
    if value.is_root:
        return size
    most = 1
    for user in value.users:
        if user.opcode is Opcode.SLICE:
            assert isinstance(user.attributes, SliceAttributes)
            most = max(most, user.attributes.limits[axis])
        elif user.opcode is Opcode.GET_TUPLE_ELEMENT:
            most = max(most, most_read(user, axis, size))
        elif user.opcode is Opcode.FUSION:
            for parameter, operand in zip(user.called[0].parameters, user.operands):
                if operand is value:
                    most = max(most, most_read(parameter, axis, size))
        else:
            return size
    return most
