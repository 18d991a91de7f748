"""Operations on two scalars by which parts of a result are combined."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import identity_of
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType


def is_identity(init: Instruction, combiner: Opcode) -> bool:
    """Whether combining with a scalar changes nothing, or only the sign of 0."""
    if not init.is_constant or init.shape.rank:
        return False
    return bool(init.literal_array == identity_of(combiner, init.shape.element_type))


def is_choice(reducer: Computation) -> bool:
    """Whether a reducer only chooses among its operands, so that it does not matter how often it
    meets one, such as the value that it begins with."""
    return all(node.opcode in _CHOOSING for node in reducer)


_CHOOSING = frozenset(
    {Opcode.PARAMETER, Opcode.TUPLE, Opcode.COMPARE, Opcode.SELECT, Opcode.AND, Opcode.OR,
     Opcode.NOT, Opcode.MINIMUM, Opcode.MAXIMUM}
)  # fmt: skip


def joining(type: PrimitiveType) -> Opcode | None:
    """An operation such that combining a value with copies of its identity gives just the value;
    None: there is none for these."""
    if type is PrimitiveType.PRED:
        return Opcode.OR
    return Opcode.ADD if type in _SUMMED else None


P = PrimitiveType
_SUMMED = frozenset(
    {P.S8, P.S16, P.S32, P.S64, P.U8, P.U16, P.U32, P.U64, P.F16, P.BF16, P.F32, P.F64, P.C64,
     P.C128}
)  # fmt: skip
