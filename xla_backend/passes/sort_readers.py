"""How much of a sort anyone reads: programs that want the k largest or a quantile sort all and
slice."""

from __future__ import annotations

from xla_backend.hlo.attributes import SliceAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode


def places_read(value: Instruction, axis: int, size: int) -> tuple[int, int]:
    """The first place along an axis that anyone reads of an array or of the arrays of a tuple, and
    the one behind the last."""
    if value.is_root:
        return 0, size
    found = []
    for user in value.users:
        if user.opcode is Opcode.SLICE:
            assert isinstance(user.attributes, SliceAttributes)
            found.append((user.attributes.starts[axis], user.attributes.limits[axis]))
        elif user.opcode is Opcode.GET_TUPLE_ELEMENT:
            found.append(places_read(user, axis, size))
        elif user.opcode is Opcode.FUSION:
            for parameter, operand in zip(user.called[0].parameters, user.operands):
                if operand is value:
                    found.append(places_read(parameter, axis, size))
        else:
            return 0, size
    # Of a result that nobody reads there is something to be written all the same.
    return min((lo for lo, _ in found), default=0), max((hi for _, hi in found), default=1)
