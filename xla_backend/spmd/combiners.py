"""Operations on two scalars by which parts of a result are combined."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType

_SIMPLE = (
    Opcode.ADD,
    Opcode.MULTIPLY,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.AND,
    Opcode.OR,
)


def simple_combiner(computation: Computation) -> Opcode | None:
    """The one operation of a computation of two scalars, if values may be combined by it in any
    order."""
    root = computation.root
    assert root is not None
    if len(computation) == 3 and root.opcode in _SIMPLE:
        if set(root.operands) == set(computation.parameters):
            return root.opcode
    return None


def identity(combiner: Opcode, type: PrimitiveType) -> np.ndarray:
    """The scalar that changes nothing when combined; of float sums -0, as 0 would change -0."""
    dtype = type.numpy_dtype
    if combiner is Opcode.ADD:
        zero = -0.0 if type.is_floating else complex(-0.0, -0.0) if type.is_complex else 0
        return np.array(zero).astype(dtype)
    if combiner is Opcode.MULTIPLY:
        return np.array(1).astype(dtype)
    if combiner in (Opcode.AND, Opcode.OR):
        ones = combiner is Opcode.AND
        return np.array(ones if type is PrimitiveType.PRED else -int(ones)).astype(dtype)
    largest = combiner is Opcode.MINIMUM
    if type.is_floating:
        return np.array(np.inf if largest else -np.inf).astype(dtype)
    if type is PrimitiveType.PRED:
        return np.array(largest)
    limits = ml_dtypes.iinfo(dtype)
    return np.array(limits.max if largest else limits.min).astype(dtype)


def is_identity(init: Instruction, combiner: Opcode) -> bool:
    """Whether combining with a scalar changes nothing, or only the sign of 0."""
    if not init.is_constant or init.shape.rank:
        return False
    return bool(init.literal_array == identity(combiner, init.shape.element_type))


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
