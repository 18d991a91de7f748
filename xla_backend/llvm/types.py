"""LLVM spellings of HLO element types, vector types, and exact constants.

A type is its LLVM text ("float", "<16 x float>"); a value is its LLVM text too ("%v7", "0x3FF...",
"splat (i32 1)"). An element has two spellings:

  memory_type(t)    as stored: pred, s4, u4, f8 are i8; bf16 is i16; f16 is i16
  register_type(t)  as computed with: pred is i1; f16, bf16 and f8 are `float`, *always holding a
                    value that the narrow type represents* (each operation rounds its result);
                    sub-byte integers are i8 with a wrapped value; complex is a pair of values

Conversions between the two live in `elemental`.

API
  vector(elem, lanes) -> str         "<lanes x elem>"; the element itself when lanes is 1
  element(ty) / lanes(ty)            the parts of a type; lanes of a scalar is 1
  with_element(ty, elem)             same lanes, another element: with_element("<4 x float>", "i32")
  int_of(ty), mask_of(ty)            same lanes: the integer of equal width / i1
  bits_of(ty)                        width of one element
  const(ty, value)                   exact constant of any scalar or vector type (splat)
  constant_number(text)              the number that a constant of floats is, if it is one
  constant_integer(text)             the integer that a constant is, if it is one
  first_lanes(mask)                  how many lanes a constant mask has, if these are the first
  vector_const(elem, values)         one value per lane
  suffix(ty)                         how intrinsics are mangled: f32, v16f32, i64, p0
"""

from __future__ import annotations

import re
import struct
from functools import cache

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.process.bounded_cache import BoundedCache, Budget

_REGISTER = {
    P.PRED: "i1",
    P.F16: "float",
    P.BF16: "float",
    P.F32: "float",
    P.F64: "double",
    P.C64: "float",
    P.C128: "double",
}
_MEMORY = {P.F32: "float", P.F64: "double", P.C64: "float", P.C128: "double"}
_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}
_FLOAT_SUFFIX = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}
_FLOATS = frozenset({"float", "double", "half", "bfloat"})


@cache
def register_type(t: P) -> str:
    """The LLVM scalar that values of this element type are computed in (a component for
    complex).
    """
    if t in _REGISTER:
        return _REGISTER[t]
    if t.is_floating:
        return "float"
    return f"i{max(8, t.bits)}"


@cache
def memory_type(t: P) -> str:
    """The LLVM scalar one element is stored as (a component for complex: two per element)."""
    return _MEMORY.get(t) or f"i{8 * t.byte_size}"


@cache
def vector(elem: str, lanes: int) -> str:
    return elem if lanes == 1 else f"<{lanes} x {elem}>"


@cache
def element(ty: str) -> str:
    return ty[ty.index(" x ") + 3 : -1] if ty[0] == "<" else ty


@cache
def lanes(ty: str) -> int:
    return int(ty[1 : ty.index(" x ")]) if ty[0] == "<" else 1


@cache
def with_element(ty: str, elem: str) -> str:
    return f"<{lanes(ty)} x {elem}>" if ty[0] == "<" else elem


@cache
def bits_of(ty: str) -> int:
    elem = element(ty)
    return _BITS.get(elem) or int(elem[1:])


@cache
def int_of(ty: str) -> str:
    return with_element(ty, f"i{bits_of(ty)}")


@cache
def mask_of(ty: str) -> str:
    return with_element(ty, "i1")


@cache
def is_float(ty: str) -> bool:
    return element(ty) in _FLOATS


@cache
def suffix(ty: str) -> str:
    """The overload suffix of an intrinsic: f32, v16f32, i64, v4i1, p0."""
    elem = element(ty)
    scalar = _FLOAT_SUFFIX.get(elem, elem)
    return scalar if ty[0] != "<" else f"v{lanes(ty)}{scalar}"


def float_bits(value: float, elem: str) -> str:
    """A floating constant as LLVM reads it bit for bit: the double that equals it, in hex.

    f32 is rounded to nearest first. f16 and bf16 have their own spellings (0xH, 0xR).
    """
    if elem == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if elem == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:  # struct refuses finite values beyond the range; IEEE rounds them
            value = float("inf") if value > 0 else float("-inf")
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if elem == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    word = struct.unpack("<I", struct.pack("<f", value))[0]
    if value == value:
        word += 0x7FFF + ((word >> 16) & 1)
    return f"0xR{(word >> 16) & 0xFFFF:04X}"


def _scalar_const(elem: str, value: float | int | bool) -> str:
    if elem in _FLOATS:
        return float_bits(float(value), elem)
    if elem == "i1":
        return "true" if value else "false"
    if elem == "ptr":
        return f"inttoptr (i64 {int(value)} to ptr)" if value else "null"
    bits = int(elem[1:])
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


_const_cache: BoundedCache[tuple[str, object, str], str] = BoundedCache(
    Budget("LLVM constants", entries=8192)
)


def const(ty: str, value: float | int | bool) -> str:
    """The constant of a scalar or vector type; a vector gets the value in every lane.

    Floats are exact (rounded to the type once); integers wrap to the type's width.
    """
    # repr tells 0.0 from -0.0 and 1 from 1.0 from True, which compare equal as keys.
    key = (ty, value, repr(value))
    text = _const_cache.hot.get(key)
    if text is None:
        elem = element(ty)
        scalar = _scalar_const(elem, value)
        text = scalar if ty[0] != "<" else f"splat ({elem} {scalar})"
        _const_cache.put(key, text)
    return text


# Exponent bits of a float constant's hexadecimal digits, by the letter before them: f32 is written
# as f64.
_EXPONENT_MASK = {"": 0x7FF << 52, "H": 0x1F << 10, "R": 0xFF << 7}
_HEXADECIMAL = re.compile(r"0x([HR]?)([0-9A-F]+)")


def is_nan(constant: str) -> bool:
    """Whether the text of a float constant (or of a vector with that constant in every lane) is a
    NaN of either sign."""
    found = _HEXADECIMAL.search(constant)
    if found is None:
        return False
    mask, digits = _EXPONENT_MASK[found[1]], int(found[2], 16)
    return digits & mask == mask and digits & ((mask & -mask) - 1) != 0


_FLOAT = re.compile(r"0x([0-9A-F]{16})|splat \((?:float|double) 0x([0-9A-F]{16})\)")


def constant_number(text: str) -> float | None:
    """The value of the text of an f32 or f64 constant, or of a vector with that in every lane; None
    of other constants and of values."""
    found = _FLOAT.fullmatch(text)
    if found is None:
        return None
    return struct.unpack("<d", int(found[1] or found[2], 16).to_bytes(8, "little"))[0]


_INTEGER = re.compile(r"-?\d+|splat \(i\d+ (-?\d+)\)")


def constant_integer(text: str) -> int | None:
    """The value of the text of an integer constant, or of a vector with that in every lane; None of
    other constants and of values."""
    found = _INTEGER.fullmatch(text)
    return None if found is None else int(found[1] or found[0])


def first_lanes(mask: str) -> int | None:
    """How many lanes the text of a constant mask has where these are the first ones; None of other
    masks and of values."""
    if not mask.startswith("<i1 "):
        return None
    count = mask.count("true")
    first = vector_const("i1", [lane < count for lane in range(mask.count(",") + 1)])
    return count if mask == first else None


def vector_const(elem: str, values: list) -> str:
    """A vector constant with one value per lane; the plain scalar for one value."""
    texts = [_scalar_const(elem, v) for v in values]
    if len(texts) == 1:
        return texts[0]
    return f"<{', '.join(f'{elem} {t}' for t in texts)}>"
