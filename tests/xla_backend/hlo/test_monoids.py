"""The neutral element of each monoid, of each type, changes no value."""

import numpy as np
import pytest

from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz import reducers

_APPLIED = {
    O.ADD: np.add,
    O.MULTIPLY: np.multiply,
    O.MAXIMUM: np.maximum,
    O.MINIMUM: np.minimum,
    O.AND: np.bitwise_and,
    O.OR: np.bitwise_or,
    O.XOR: np.bitwise_xor,
}
_INTEGERS = (P.S8, P.S16, P.S32, P.S64, P.U8, P.U16, P.U32, P.U64, P.PRED)
_FLOATS = (P.F8E5M2, P.F8E4M3, P.F8E4M3FN, P.F8E5M2FNUZ, P.F16, P.BF16, P.F32, P.F64)
_COMPLEX = (P.C64, P.C128)
_BITWISE, _ORDERED = (O.AND, O.OR, O.XOR), (O.MAXIMUM, O.MINIMUM)


def _opcodes(type: P) -> tuple[O, ...]:
    if type is P.PRED:
        return _ORDERED + _BITWISE
    sums = (O.ADD, O.MULTIPLY)
    return sums + (_ORDERED if type not in _COMPLEX else ()) + (_BITWISE * (type in _INTEGERS))


def _values(type: P) -> np.ndarray:
    if type is P.PRED:
        return np.array([False, True])
    if type in _COMPLEX:
        parts = (0.0, -0.0, 1.5, -2.0)
        return np.array([complex(a, b) for a in parts for b in parts], type.numpy_dtype)
    if type.bits == 8:
        return np.arange(256, dtype=np.uint8).view(type.numpy_dtype)
    if type in _FLOATS:
        return np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]).astype(type.numpy_dtype)
    limits = np.iinfo(type.numpy_dtype)
    return np.array([0, 1, 77, limits.min, limits.max], type.numpy_dtype)


@pytest.mark.parametrize(
    "type, opcode",
    [(t, o) for t in _INTEGERS + _FLOATS + _COMPLEX for o in _opcodes(t)],
    ids=str,
)
def test_neutral_element(type, opcode):
    values = _values(type)
    neutral = np.asarray(identity_of(opcode, type))
    assert neutral.dtype == values.dtype
    with np.errstate(invalid="ignore"):
        combined = np.asarray(_APPLIED[opcode](values, neutral))
    if type in _INTEGERS:
        np.testing.assert_array_equal(combined, values)
        return
    wide = np.complex128 if type in _COMPLEX else np.float64
    want, got = values.astype(wide), combined.astype(wide)
    np.testing.assert_array_equal(got, want)
    if type not in _COMPLEX or opcode is O.ADD:  # a complex product may change the sign of a 0
        signed = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got.real)[signed], np.signbit(want.real)[signed])


@pytest.mark.parametrize("opcode", _APPLIED, ids=str)
@pytest.mark.parametrize("swapped", [False, True])
def test_recognised(opcode, swapped):
    assert monoid(reducers.monoid(opcode, P.S32, swapped=swapped)) is opcode


def test_other_computations_are_none():
    twice = reducers.binary_computation(P.F32, lambda b, x, y: b.add(O.ADD, (x, x)), "twice")
    minus = reducers.binary_computation(P.F32, lambda b, x, y: b.add(O.SUBTRACT, (x, y)), "minus")
    assert monoid(twice) is None and monoid(minus) is None
