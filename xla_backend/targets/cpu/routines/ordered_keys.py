"""Elements as unsigned integers in the order that sorts have: NaN last (all NaN equal), -0 equal to
0; complemented for descending order."""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import const
from xla_backend.llvm.writer import FunctionWriter

# Exponent masks: a float is NaN when its magnitude bits exceed this pattern.
_INFINITY = {P.BF16: 0x7F80, P.F16: 0x7C00, P.F32: 0x7F800000, P.F64: 0x7FF0000000000000}
_QUIET_NAN = {P.BF16: 0x7FC0, P.F16: 0x7E00, P.F32: 0x7FC00000, P.F64: 0x7FF8000000000000}


def int_type(t: P) -> str:
    return f"i{8 * t.byte_size}"


def encode(w: FunctionWriter, t: P, raw: str, flip: str, ty: str | None = None) -> tuple[str, str]:
    """(key, mask: whether decoding the key does not give the raw bits back); ty: maybe a vector."""
    ty = ty or int_type(t)
    width = 8 * t.byte_size
    lossy = "false"
    key = raw
    if t.is_floating:
        magnitude = w.op("and", ty, raw, const(ty, (1 << (width - 1)) - 1))
        nan = w.cmp("ugt", ty, magnitude, const(ty, _INFINITY[t]))
        zero = w.cmp("eq", ty, magnitude, const(ty, 0))
        plain = w.select(zero, ty, const(ty, 0), raw)
        plain = w.select(nan, ty, const(ty, _QUIET_NAN[t]), plain)
        lossy = w.cmp("ne", ty, plain, raw)
        sign = w.op("ashr", ty, plain, const(ty, width - 1))
        key = w.op("xor", ty, plain, w.op("or", ty, sign, const(ty, 1 << (width - 1))))
    elif t.is_signed_integral:
        key = w.op("xor", ty, raw, const(ty, 1 << (width - 1)))
    return w.op("xor", ty, key, flip), lossy


def decode(w: FunctionWriter, t: P, key: str, flip: str, ty: str | None = None) -> str:
    ty = ty or int_type(t)
    width = 8 * t.byte_size
    key = w.op("xor", ty, key, flip)
    top = const(ty, 1 << (width - 1))
    if t.is_floating:
        positive = w.op("ashr", ty, key, const(ty, width - 1))
        return w.op("xor", ty, key, w.op("or", ty, w.not_(ty, positive), top))
    if t.is_signed_integral:
        return w.op("xor", ty, key, top)
    return key


def flip_of(w: FunctionWriter, flags: str, ty: str) -> str:
    """All ones for descending order, else zero."""
    descending = w.cmp("ne", "i64", w.op("and", "i64", flags, "1"), "0")
    return w.select(descending, ty, const(ty, -1), const(ty, 0))
