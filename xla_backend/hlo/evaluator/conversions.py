"""Element type conversions of HLO in NumPy: saturation, wrapping, total order, reduced
precision."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import ReducePrecisionAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

P = PrimitiveType
_INT_RANGE = {
    t: (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1)
    if t.is_signed_integral
    else (0, (1 << t.bits) - 1)
    for t in P
    if t.is_integral
}
_UNSIGNED_OF_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED_OF_SIZE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def type_of(x: np.ndarray) -> PrimitiveType:
    return from_numpy_dtype(x.dtype)


def convert_array(x: np.ndarray, to: PrimitiveType) -> np.ndarray:
    """HLO convert: floats round to nearest even, float to integer saturates (NaN gives 0),
    integers wrap, complex to real drops the imaginary part, anything to pred is `!= 0`."""
    source = type_of(x)
    if source is to:
        return x
    dtype = to.numpy_dtype
    if source.is_complex and not to.is_complex:
        if to is P.PRED:
            return x != 0
        x = x.real
        source = type_of(x)
    if to is P.PRED:
        return x != np.zeros((), x.dtype)
    if source.is_floating:
        if to.is_integral:
            return _float_to_int(x, to)
        if source.bits < 32:
            x = x.astype(np.float32)  # ml_dtypes lacks some of the direct paths
        return x.astype(dtype)
    if to.is_integral and to.bits < 8:
        return wrap_small(x.astype(np.int64), to)
    if source.bits < 8:
        x = x.astype(np.int8)
    if to.is_complex and to is P.C64 and source.is_integral:
        return x.astype(np.float32).astype(dtype)
    return x.astype(dtype)


def wrap_small(x: np.ndarray, to: PrimitiveType) -> np.ndarray:
    """Integers reduced modulo 2**bits into a sub-byte type."""
    low, high = _INT_RANGE[to]
    return (((x - low) & (high - low)) + low).astype(np.int8).astype(to.numpy_dtype)


def _float_to_int(x: np.ndarray, to: PrimitiveType) -> np.ndarray:
    low, high = _INT_RANGE[to]
    wide = x.astype(np.float64)
    # high + 1 is a power of two, so exact in float64: the comparisons are exact for every width.
    inside = (wide > low - 1.0) & (wide < high + 1.0)
    if to.bits == 64:
        inside = (wide >= float(low)) & (wide < float(high + 1))
    safe = np.where(inside, wide, 0.0)
    carrier = (
        np.dtype(np.int8 if to.is_signed_integral else np.uint8) if to.bits < 8 else to.numpy_dtype
    )
    result = safe.astype(carrier)
    result = np.where(wide >= float(high + 1), np.asarray(high, carrier), result)
    result = np.where(wide <= float(low), np.asarray(low, carrier), result)
    return result.astype(to.numpy_dtype)


def bitcast_array(x: np.ndarray, to: PrimitiveType, dimensions: tuple[int, ...]) -> np.ndarray:
    """bitcast-convert, also between widths (the last dimension appears or goes)."""
    source = type_of(x)
    if source.bits < 8 or to.bits < 8:
        if source.bits != to.bits:
            raise UnimplementedError(
                f"bitcast-convert from {source} to {to}: sub-byte types of unequal width; "
                f"convert instead"
            )
        carrier = np.dtype(np.uint8)
        return np.ascontiguousarray(x).view(carrier).view(to.numpy_dtype).reshape(dimensions)
    if not dimensions or not x.ndim:
        x = np.ascontiguousarray(x).reshape(-1)
    return np.ascontiguousarray(x).view(to.numpy_dtype).reshape(dimensions)


def total_order_key(x: np.ndarray) -> np.ndarray:
    """Integers that order as IEEE totalOrder does: -NaN < -inf < ... < -0 < +0 < ... < inf <
    NaN."""
    if not type_of(x).is_floating:
        return x.astype(np.int8) if type_of(x).bits < 8 else x
    if type_of(x) is P.F8E8M0FNU:  # has no sign, and its only NaN is above all numbers
        return unsigned_view(x)
    signed = np.dtype(_SIGNED_OF_SIZE[x.dtype.itemsize])
    bits = np.ascontiguousarray(x).view(signed).reshape(x.shape)
    spare = 8 - type_of(x).bits
    if spare > 0:  # one element to a byte: move the sign up
        bits = (bits.astype(np.int16) << spare).astype(np.int8)
    return np.where(bits < 0, bits ^ (1 << (8 * signed.itemsize - 1)) - 1, bits)


def unsigned_view(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(_UNSIGNED_OF_SIZE[x.dtype.itemsize]).reshape(x.shape)


_EXPONENT_BITS = {P.F16: 5, P.BF16: 8, P.F32: 8, P.F64: 11}


def reduce_precision(node: Instruction, x: np.ndarray) -> np.ndarray:
    """Round to `mantissa_bits` (nearest even), overflow to infinity, flush what is below the
    smallest normal of the target exponent range to a signed zero. NaN stays NaN."""
    a = node.attributes
    assert isinstance(a, ReducePrecisionAttributes)
    source = type_of(x)
    if source not in _EXPONENT_BITS:
        raise UnimplementedError(f"reduce-precision of {source}; convert to f32 first")
    exponent_bits = _EXPONENT_BITS[source]
    mantissa_bits = source.bits - 1 - exponent_bits
    bits = unsigned_view(x)
    one = bits.dtype.type(1)
    sign_mask = bits.dtype.type(1 << (source.bits - 1))
    sign, magnitude = bits & sign_mask, bits & ~sign_mask
    if a.mantissa_bits < mantissa_bits:
        drop = mantissa_bits - a.mantissa_bits
        last = (magnitude >> bits.dtype.type(drop)) & one
        magnitude = magnitude + bits.dtype.type((1 << (drop - 1)) - 1) + last
        magnitude = magnitude & bits.dtype.type(~((1 << drop) - 1) & ((1 << source.bits) - 1))
    if a.exponent_bits < exponent_bits:
        bias = (1 << (exponent_bits - 1)) - 1
        reduced_bias = (1 << (a.exponent_bits - 1)) - 1
        exponent = magnitude >> bits.dtype.type(mantissa_bits)
        too_large = exponent > bias + reduced_bias
        too_small = exponent < bias - reduced_bias + 1
        infinity = bits.dtype.type(((1 << exponent_bits) - 1) << mantissa_bits)
        magnitude = np.where(too_large, infinity, magnitude)
        magnitude = np.where(too_small, bits.dtype.type(0), magnitude)
    result = (sign | magnitude).astype(bits.dtype).view(x.dtype).reshape(x.shape)
    return np.where(np.isnan(x), x, result)
