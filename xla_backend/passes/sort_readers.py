"""How much of a sort anyone reads: programs that want the k largest sort all and slice."""

from __future__ import annotations

from xla_backend.hlo.attributes import SliceAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode


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
