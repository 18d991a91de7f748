"""Operations on two scalars that combine values in any order, and their neutral elements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
_MONOIDS = frozenset(
    {
        Opcode.ADD,
        Opcode.MULTIPLY,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.AND,
        Opcode.OR,
        Opcode.XOR,
    }
)


def monoid(computation: Computation) -> Opcode | None:
    """The opcode if the computation is that one operation on its two parameters."""
    root, parameters = computation.root, computation.parameters
    assert root is not None
    simple = len(parameters) == 2 and set(root.operands) == set(parameters)
    return root.opcode if simple and root.opcode in _MONOIDS else None


def identity_of(opcode: Opcode, type: P) -> Any:
    """The neutral element of a monoid; of float sums -0, as 0 would change -0."""
    dtype = type.numpy_dtype
    if opcode is Opcode.ADD:
        zero = -0.0 if type.is_floating else complex(-0.0, -0.0) if type.is_complex else 0
        return np.asarray(zero).astype(dtype)[()]
    if opcode is Opcode.MULTIPLY:
        return np.asarray(1).astype(dtype)[()]
    if opcode in (Opcode.OR, Opcode.XOR):
        return np.asarray(0).astype(dtype)[()]
    if opcode is Opcode.AND:
        return (
            np.asarray(True)
            if type is P.PRED
            else np.asarray(-1).astype(np.int64).astype(dtype)[()]
        )
    lowest = opcode is Opcode.MAXIMUM
    if type is P.PRED:
        return np.asarray(not lowest)
    if type.is_floating:
        infinity = np.asarray(-np.inf if lowest else np.inf).astype(dtype)
        if np.isinf(infinity.astype(np.float64)):
            return infinity[()]
        limits = ml_dtypes.finfo(dtype)  # a type without infinities
        return limits.min if lowest else limits.max
    bits = type.bits
    if type.is_signed_integral:
        return np.asarray(-(2 ** (bits - 1)) if lowest else 2 ** (bits - 1) - 1).astype(dtype)[()]
    return np.asarray(0 if lowest else 2**bits - 1, np.uint64).astype(dtype)[()]
