"""Element types of HLO arrays: one table with text name, width, class and NumPy dtype."""

from __future__ import annotations

import enum
from functools import cache

import ml_dtypes
import numpy as np


class PrimitiveType(enum.Enum):
    """An HLO element type; the value is the spelling in HLO text."""

    PRED = "pred"
    S1 = "s1"
    S2 = "s2"
    S4 = "s4"
    S8 = "s8"
    S16 = "s16"
    S32 = "s32"
    S64 = "s64"
    U1 = "u1"
    U2 = "u2"
    U4 = "u4"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F8E5M2 = "f8e5m2"
    F8E4M3 = "f8e4m3"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3B11FNUZ = "f8e4m3b11fnuz"
    F8E3M4 = "f8e3m4"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E8M0FNU = "f8e8m0fnu"
    F6E2M3FN = "f6e2m3fn"
    F6E3M2FN = "f6e3m2fn"
    F4E2M1FN = "f4e2m1fn"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    C64 = "c64"
    C128 = "c128"
    TUPLE = "tuple"
    TOKEN = "token"
    OPAQUE = "opaque"
    BUFFER = "b"

    # Identity hash: enum.Enum hashes the name string on every call, which shows up in compile time.
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self._value_

    # Set below, from the tables; the first three of types of arrays only.
    bits: int  # width of one element (pred counts as 8: it is stored in a byte)
    byte_size: int  # bytes that one element takes: sub-byte types are stored one to a byte
    numpy_dtype: np.dtype
    is_array: bool
    is_floating: bool
    is_complex: bool
    is_signed_integral: bool
    is_unsigned_integral: bool
    is_integral: bool  # signed or unsigned; pred is not integral


P = PrimitiveType
_SIGNED = frozenset({P.S1, P.S2, P.S4, P.S8, P.S16, P.S32, P.S64})
_UNSIGNED = frozenset({P.U1, P.U2, P.U4, P.U8, P.U16, P.U32, P.U64})
_COMPLEX = frozenset({P.C64, P.C128})
_NUMPY: dict[PrimitiveType, np.dtype] = {
    P.PRED: np.dtype(np.bool_),
    # One-bit integers came to ml_dtypes in 0.6; before, the next wider type holds their values.
    P.S1: np.dtype(getattr(ml_dtypes, "int1", ml_dtypes.int2)),
    P.S2: np.dtype(ml_dtypes.int2),
    P.S4: np.dtype(ml_dtypes.int4),
    P.S8: np.dtype(np.int8),
    P.S16: np.dtype(np.int16),
    P.S32: np.dtype(np.int32),
    P.S64: np.dtype(np.int64),
    P.U1: np.dtype(getattr(ml_dtypes, "uint1", ml_dtypes.uint2)),
    P.U2: np.dtype(ml_dtypes.uint2),
    P.U4: np.dtype(ml_dtypes.uint4),
    P.U8: np.dtype(np.uint8),
    P.U16: np.dtype(np.uint16),
    P.U32: np.dtype(np.uint32),
    P.U64: np.dtype(np.uint64),
    P.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    P.F8E4M3: np.dtype(ml_dtypes.float8_e4m3),
    P.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    P.F8E4M3B11FNUZ: np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    P.F8E3M4: np.dtype(ml_dtypes.float8_e3m4),
    P.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    P.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    P.F8E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    P.F6E2M3FN: np.dtype(ml_dtypes.float6_e2m3fn),
    P.F6E3M2FN: np.dtype(ml_dtypes.float6_e3m2fn),
    P.F4E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
    P.F16: np.dtype(np.float16),
    P.BF16: np.dtype(ml_dtypes.bfloat16),
    P.F32: np.dtype(np.float32),
    P.F64: np.dtype(np.float64),
    P.C64: np.dtype(np.complex64),
    P.C128: np.dtype(np.complex128),
}
_FLOATING = frozenset(t for t in _NUMPY if t.value.startswith(("f", "bf")))
_SUBBYTE = {
    **dict.fromkeys((P.S1, P.U1), 1),
    **dict.fromkeys((P.S2, P.U2), 2),
    **dict.fromkeys((P.S4, P.U4, P.F4E2M1FN), 4),
    **dict.fromkeys((P.F6E2M3FN, P.F6E3M2FN), 6),
}
_BITS = {t: _SUBBYTE.get(t, d.itemsize * 8) for t, d in _NUMPY.items()}
for _type in PrimitiveType:
    if _type in _NUMPY:
        _type.bits, _type.byte_size = _BITS[_type], max(1, _BITS[_type] // 8)
        _type.numpy_dtype = _NUMPY[_type]
    _type.is_array, _type.is_floating = _type in _NUMPY, _type in _FLOATING
    _type.is_complex = _type in _COMPLEX
    _type.is_signed_integral, _type.is_unsigned_integral = _type in _SIGNED, _type in _UNSIGNED
    _type.is_integral = _type in _SIGNED or _type in _UNSIGNED

BY_NAME: dict[str, PrimitiveType] = {t.value: t for t in PrimitiveType}
_BY_DTYPE: dict[np.dtype, PrimitiveType] = {d: t for t, d in _NUMPY.items()}


@cache
def from_numpy_dtype(dtype: np.dtype) -> PrimitiveType:
    """The element type that stores a NumPy (or ml_dtypes) dtype.

    Raises:
      TypeError: HLO has no such element type (strings, objects, datetimes, long double).
    """
    dtype = np.dtype(dtype)
    try:
        return _BY_DTYPE[dtype.newbyteorder("=")]
    except KeyError:
        raise TypeError(f"HLO has no element type for NumPy dtype {dtype}") from None
