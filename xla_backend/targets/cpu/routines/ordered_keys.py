"""Elements as signed integers in the order that sorts have: NaN last (all NaN equal), -0 equal to
0; complemented for descending order."""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import const, vector
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter

# Exponent masks: a float is NaN when its magnitude bits exceed this pattern.
_INFINITY = {P.BF16: 0x7F80, P.F16: 0x7C00, P.F32: 0x7F800000, P.F64: 0x7FF0000000000000}
_QUIET_NAN = {P.BF16: 0x7FC0, P.F16: 0x7E00, P.F32: 0x7FC00000, P.F64: 0x7FF8000000000000}


def int_type(t: P) -> str:
    return f"i{8 * t.byte_size}"


def key_type(t: P) -> str:
    """The integers that stand for elements while they are sorted."""
    return "i64" if t.byte_size == 8 else "i32"


def encode(
    w: FunctionWriter, t: P, raw: str, flip: str, ty: str | None = None, *, lossless: bool = False
) -> str:
    """The key of the bits of an element, as wide as these; ty: maybe a vector. `lossless`: it is no
    float whose key does not tell its bits."""
    ty = ty or int_type(t)
    width = 8 * t.byte_size
    key = raw
    if t.is_floating and lossless:
        key = _mirrored(w, width, raw, ty)
    elif t.is_floating:
        zero, nan = zero_or_nan(w, t, raw, ty)
        plain = w.select(zero, ty, const(ty, 0), raw)
        key = _mirrored(w, width, w.select(nan, ty, const(ty, _QUIET_NAN[t]), plain), ty)
    elif not t.is_signed_integral:
        key = w.op("xor", ty, raw, const(ty, 1 << (width - 1)))
    return w.op("xor", ty, key, flip)


def decode(w: FunctionWriter, t: P, key: str, flip: str, ty: str | None = None) -> str:
    """The bits of the element: of 0 where it was a zero, of one NaN where it was any."""
    ty = ty or int_type(t)
    width = 8 * t.byte_size
    key = w.op("xor", ty, key, flip)
    if t.is_floating:
        return _mirrored(w, width, key, ty)
    if t.is_signed_integral:
        return key
    return w.op("xor", ty, key, const(ty, 1 << (width - 1)))


def zero_or_nan(w: FunctionWriter, t: P, raw: str, ty: str) -> tuple[str, str]:
    """Masks: which floats are a zero, and which are NaN; keys do not tell these from each other."""
    magnitude = w.op("and", ty, raw, const(ty, (1 << (8 * t.byte_size - 1)) - 1))
    zero = w.cmp("eq", ty, magnitude, const(ty, 0))
    return zero, w.cmp("ugt", ty, magnitude, const(ty, _INFINITY[t]))


def is_lossy(w: FunctionWriter, t: P, raw: str, ty: str) -> str:
    """Mask: whether the key of a float does not tell its bits."""
    _, nan = zero_or_nan(w, t, raw, ty)
    negative = w.cmp("eq", ty, raw, const(ty, 1 << (8 * t.byte_size - 1)))
    other = w.cmp("ne", ty, raw, const(ty, _QUIET_NAN[t]))
    mask = f"<{lanes_of(ty)} x i1>" if ty[0] == "<" else "i1"
    return w.op("or", mask, negative, w.op("and", mask, nan, other))


def _mirrored(w: FunctionWriter, width: int, bits: str, ty: str) -> str:
    """Negative numbers, which have signs and magnitudes, as complements, or back."""
    sign = w.op("ashr", ty, bits, const(ty, width - 1))
    return w.op("xor", ty, bits, w.op("and", ty, sign, const(ty, (1 << (width - 1)) - 1)))


def flip_of(w: FunctionWriter, flags: str, ty: str) -> str:
    """All ones for descending order, else zero."""
    descending = w.cmp("ne", "i64", w.op("and", "i64", flags, "1"), "0")
    return w.select(descending, ty, const(ty, -1), const(ty, 0))


def widened(w: FunctionWriter, t: P, key: str, lanes: int = 1, to: str | None = None) -> str:
    """Keys as wide as integers that are sorted, or as `to`."""
    return w.cast("sext", vector(int_type(t), lanes), key, vector(to or key_type(t), lanes))
