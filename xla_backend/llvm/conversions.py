"""Conversions: memory <-> register form, rounding to narrow formats, HLO convert, reduce-precision.

Register form (see `types`): narrow floats live in f32 lanes holding values of the narrow type. The
hardware's bf16 instruction flushes subnormals and libcalls for f16 do not exist everywhere, so all
rounding is done on integers except where f16 instructions exist.

API (every function takes w first; `lanes` counts elements)
  from_memory(w, t, lanes, raw) / to_memory(w, t, lanes, value)     raw: vector(memory_type(t),
  lanes) round_to(w, t, ty, x)              f32 lanes rounded to a value of the narrow float type t
  convert(w, source, target, lanes, value)      HLO convert (not complex)
  reduce_precision(w, ty, x, exponent_bits, mantissa_bits)
"""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.math_basics import INF, NAN, bits, fabs, fcmp, from_bits, iop, pick
from xla_backend.llvm.types import (
    bits_of,
    const,
    int_of,
    mask_of,
    memory_type,
    register_type,
    vector,
    with_element,
)
from xla_backend.llvm.writer import FunctionWriter

_NO_NAN = 0


class NarrowFormat(NamedTuple):
    """A float format narrower than f32.

    largest: the largest finite value. infinite: has infinities. nan: the bit pattern written for
    NaN (without sign), _NO_NAN for formats that have none and saturate; signed_zero_is_nan: the
    "fnuz" formats, where 0x80 is the only NaN.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: float
    infinite: bool
    nan: int
    signed_zero_is_nan: bool = False


NARROW: dict[P, NarrowFormat] = {
    P.F16: NarrowFormat(5, 10, 15, 65504.0, True, 0x7E00),
    P.BF16: NarrowFormat(8, 7, 127, 3.3895313892515355e38, True, 0x7FC0),
    P.F8E5M2: NarrowFormat(5, 2, 15, 57344.0, True, 0x7E),
    P.F8E4M3: NarrowFormat(4, 3, 7, 240.0, True, 0x7C),
    P.F8E4M3FN: NarrowFormat(4, 3, 7, 448.0, False, 0x7F),
    P.F8E3M4: NarrowFormat(3, 4, 3, 15.5, True, 0x78),
    P.F8E4M3B11FNUZ: NarrowFormat(4, 3, 11, 30.0, False, 0x80, True),
    P.F8E5M2FNUZ: NarrowFormat(5, 2, 16, 57344.0, False, 0x80, True),
    P.F8E4M3FNUZ: NarrowFormat(4, 3, 8, 240.0, False, 0x80, True),
    P.F6E2M3FN: NarrowFormat(2, 3, 1, 7.5, False, _NO_NAN),
    P.F6E3M2FN: NarrowFormat(3, 2, 3, 28.0, False, _NO_NAN),
    P.F4E2M1FN: NarrowFormat(2, 1, 1, 6.0, False, _NO_NAN),
}


def _round_mantissa(w: FunctionWriter, ty: str, x: str, keep: int) -> str:
    """Round-to-nearest-even of the explicit mantissa to `keep` bits; may carry into the
    exponent.
    """
    drop = (23 if bits_of(ty) == 32 else 52) - keep
    b = bits(w, ty, x)
    odd = iop(w, ty, "and", iop(w, ty, "lshr", b, drop), 1)
    b = iop(w, ty, "add", b, iop(w, ty, "add", odd, (1 << (drop - 1)) - 1))
    return from_bits(w, ty, iop(w, ty, "and", b, -(1 << drop)))


def _to_half(w: FunctionWriter, ty: str, x: str, half: str) -> str:
    """f32 lanes truncated to half. On CPUs the fence keeps LLVM from moving the truncation into
    copysign, which may then take its sign from a double by a conversion that x86 lacks."""
    known = w.narrow_of.get(x)
    if known is not None:
        return known
    fenced = x if w.target.is_nvptx else w.intrinsic("arithmetic.fence", ty, x)
    return w.cast("fptrunc", ty, fenced, half)


def _from_half(w: FunctionWriter, half: str, value: str, ty: str) -> str:
    """Lanes of half as f32, which come back as they were where they are truncated."""
    wide = w.cast("fpext", half, value, ty)
    w.narrow_of[wide] = value
    return wide


def _one_from_half(w: FunctionWriter, value: str, raw: str) -> str:
    """The same for one number on x86, by its bits. LLVM loads it into the lowest lane of whatever
    a register holds, and so waits for what was computed there last; here all of it is written."""
    lanes = w.cast("bitcast", "i64", w.cast("zext", "i16", raw, "i64"), "<4 x half>")
    wide = w.extract("<4 x float>", w.cast("fpext", "<4 x half>", lanes, "<4 x float>"), 0)
    w.narrow_of[wide] = value
    return wide


def round_to(w: FunctionWriter, t: P, ty: str, x: str) -> str:
    """f32 lanes rounded to nearest even values of t, subnormals included; NaN stays NaN."""
    if t is P.F8E8M0FNU:
        return _from_e8m0(w, ty, _to_e8m0(w, ty, x))
    form = NARROW[t]
    if t is P.F16 and w.target.has_half:
        half = with_element(ty, "half")
        return _from_half(w, half, _to_half(w, ty, x, half), ty)
    if t is P.BF16 and w.target.has_bfloat:
        narrow = with_element(ty, "bfloat")
        return w.cast("fpext", narrow, w.cast("fptrunc", ty, x, narrow), ty)
    rounded = _round_mantissa(w, ty, x, form.mantissa_bits)
    a = fabs(w, ty, x)
    if form.exponent_bits < 8:
        # Below the smallest normal the spacing is constant: adding and subtracting a number whose
        # last place is that spacing rounds to it.
        magic = const(ty, 2.0 ** (1 - form.bias - form.mantissa_bits + 23))
        near = w.op("fsub", ty, w.op("fadd", ty, a, magic), magic)
        tiny = fcmp(w, ty, "olt", a, 2.0 ** (1 - form.bias))
        rounded = w.select(tiny, ty, w.intrinsic("copysign", ty, near, x), rounded)
        if form.nan == _NO_NAN:
            top = w.intrinsic("copysign", ty, const(ty, form.largest), x)
            over = fcmp(w, ty, "ugt", fabs(w, ty, rounded), form.largest)
            return w.select(over, ty, top, rounded)
        beyond = const(ty, INF if form.infinite else NAN)
        over = fcmp(w, ty, "ogt", fabs(w, ty, rounded), form.largest)
        rounded = w.select(over, ty, w.intrinsic("copysign", ty, beyond, x), rounded)
        if form.signed_zero_is_nan:
            zero = fcmp(w, ty, "oeq", rounded, 0.0)
            rounded = pick(w, ty, zero, 0.0, rounded)
    quiet = w.op("fadd", ty, x, x) if form.exponent_bits == 8 else x
    if t is P.BF16:  # keep sign and top payload bits, as a truncation of the quiet NaN
        high = iop(w, ty, "and", bits(w, ty, quiet), -(1 << 16))
        quiet = from_bits(w, ty, high)
    return w.select(w.cmp("uno", ty, x, x), ty, quiet, rounded)


def _to_e8m0(w: FunctionWriter, ty: str, x: str) -> str:
    """The exponent byte (as an i32 lane) of the power of two nearest to x, the larger of two; 255
    for NaN and x <= 0. The smallest, 2^-127, has a byte of its own but no exponent in f32."""
    int_ty = int_of(ty)
    b = bits(w, ty, x)
    half = 1 << 22  # also the bits of 2^-127
    least = w.cmp("ule", int_ty, b, const(int_ty, half))
    byte = iop(w, ty, "lshr", iop(w, ty, "add", b, half), 23)
    byte = w.select(least, int_ty, const(int_ty, 0), byte)
    bad = w.op("or", mask_of(ty), fcmp(w, ty, "ule", x, 0.0), fcmp(w, ty, "oeq", x, INF))
    return w.select(bad, int_ty, const(int_ty, 255), byte)


def _from_e8m0(w: FunctionWriter, ty: str, byte: str) -> str:
    int_ty = int_of(ty)
    normal = from_bits(w, ty, iop(w, ty, "shl", byte, 23))
    zero = w.cmp("eq", int_ty, byte, const(int_ty, 0))
    nan = w.cmp("eq", int_ty, byte, const(int_ty, 255))
    return pick(w, ty, nan, NAN, pick(w, ty, zero, 2.0**-127, normal))


def _decode(w: FunctionWriter, t: P, ty: str, raw: str) -> str:
    """Bits of a narrow float (as i32 lanes) to its value: place the fields, scale by a power of
    two.
    """
    if t is P.F8E8M0FNU:
        return _from_e8m0(w, ty, raw)
    form = NARROW[t]
    int_ty = int_of(ty)
    width = form.exponent_bits + form.mantissa_bits
    low = iop(w, ty, "and", raw, (1 << width) - 1)
    placed = from_bits(w, ty, iop(w, ty, "shl", low, 23 - form.mantissa_bits))
    value = w.op("fmul", ty, placed, const(ty, 2.0 ** (127 - form.bias)))
    top = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    if form.infinite:
        special = w.cmp("uge", int_ty, low, const(int_ty, top))
        infinite = w.cmp("eq", int_ty, low, const(int_ty, top))
        value = w.select(special, ty, pick(w, ty, infinite, INF, NAN), value)
    elif not form.signed_zero_is_nan and form.nan != _NO_NAN:
        value = pick(w, ty, w.cmp("eq", int_ty, low, const(int_ty, form.nan)), NAN, value)
    sign = iop(w, ty, "shl", iop(w, ty, "lshr", raw, width), 31)
    value = from_bits(w, ty, iop(w, ty, "or", bits(w, ty, value), sign))
    if form.signed_zero_is_nan:
        value = pick(w, ty, w.cmp("eq", int_ty, raw, const(int_ty, 0x80)), NAN, value)
    return value


def _encode(w: FunctionWriter, t: P, ty: str, x: str) -> str:
    """Bits (as i32 lanes) of f32 lanes that already hold values of t."""
    if t is P.F8E8M0FNU:
        return _to_e8m0(w, ty, x)
    form = NARROW[t]
    int_ty = int_of(ty)
    width = form.exponent_bits + form.mantissa_bits
    a = fabs(w, ty, x)
    scaled = w.op("fmul", ty, a, const(ty, 2.0 ** (form.bias - 127)))
    low = iop(w, ty, "lshr", bits(w, ty, scaled), 23 - form.mantissa_bits)
    if form.infinite:
        top = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
        low = w.select(fcmp(w, ty, "oeq", a, INF), int_ty, const(int_ty, top), low)
    nan = w.cmp("uno", ty, x, x)
    sign = iop(w, ty, "shl", iop(w, ty, "lshr", bits(w, ty, x), 31), width)
    if form.signed_zero_is_nan:
        return w.select(nan, int_ty, const(int_ty, 0x80), iop(w, ty, "or", low, sign))
    if form.nan != _NO_NAN:
        low = w.select(nan, int_ty, const(int_ty, form.nan), low)
    return iop(w, ty, "or", low, sign)


def from_memory(w: FunctionWriter, t: P, n: int, raw: str) -> str:
    """The register form of elements as loaded."""
    raw_ty, ty = vector(memory_type(t), n), vector(register_type(t), n)
    if t is P.PRED:
        return w.cmp("ne", raw_ty, raw, const(raw_ty, 0))
    if raw_ty == ty:
        return _wrap(w, t, ty, raw)  # the upper bits of a stored sub-byte integer mean nothing
    if t is P.F16 and w.target.has_half:
        half = vector("half", n)
        value = w.cast("bitcast", raw_ty, raw, half)
        if n == 1 and w.target.is_x86:
            return _one_from_half(w, value, raw)
        return _from_half(w, half, value, ty)
    if t is P.BF16 and w.target.has_bfloat:
        narrow = vector("bfloat", n)
        return w.cast("fpext", narrow, w.cast("bitcast", raw_ty, raw, narrow), ty)
    wide = w.cast("zext", raw_ty, raw, int_of(ty))
    if t is P.BF16:
        return from_bits(w, ty, iop(w, ty, "shl", wide, 16))
    return _decode(w, t, ty, wide)


def to_memory(w: FunctionWriter, t: P, n: int, value: str) -> str:
    """What to store for elements in register form."""
    raw_ty, ty = vector(memory_type(t), n), vector(register_type(t), n)
    if t is P.PRED:
        return w.cast("zext", ty, value, raw_ty)
    if raw_ty == ty:
        return value
    if t is P.F16 and w.target.has_half:
        half = vector("half", n)
        return w.cast("bitcast", half, _to_half(w, ty, value, half), raw_ty)
    if t is P.BF16 and w.target.has_bfloat:
        narrow = vector("bfloat", n)
        return w.cast("bitcast", narrow, w.cast("fptrunc", ty, value, narrow), raw_ty)
    if t is P.BF16:
        return w.cast("trunc", int_of(ty), iop(w, ty, "lshr", bits(w, ty, value), 16), raw_ty)
    return w.cast("trunc", int_of(ty), _encode(w, t, ty, value), raw_ty)


def reduce_precision(
    w: FunctionWriter, ty: str, x: str, exponent_bits: int, mantissa_bits: int
) -> str:
    """HLO reduce-precision: nearest even mantissa; too large is infinity, too small a signed
    zero.
    """
    own_mantissa, own_exponent = (23, 8) if bits_of(ty) == 32 else (52, 11)
    result = x
    if mantissa_bits < own_mantissa:
        result = _round_mantissa(w, ty, x, mantissa_bits)
    if exponent_bits < own_exponent:
        bias = (1 << (exponent_bits - 1)) - 1
        a = fabs(w, ty, result)
        over = fcmp(w, ty, "oge", a, 2.0 ** (bias + 1))
        under = fcmp(w, ty, "olt", a, 2.0 ** (1 - bias))
        result = w.select(over, ty, w.intrinsic("copysign", ty, const(ty, INF), x), result)
        result = w.select(under, ty, w.intrinsic("copysign", ty, const(ty, 0.0), x), result)
    return w.select(w.cmp("uno", ty, x, x), ty, x, result)


def _float_to_int(w: FunctionWriter, ty: str, x: str, target: P) -> str:
    """Truncation towards zero, saturating; NaN gives 0. Never poison: lanes are made safe first."""
    out_ty = with_element(ty, register_type(target))
    signed = target.is_signed_integral
    width = target.bits
    low = -(2.0 ** (width - 1)) if signed else 0.0
    high = 2.0 ** (width - 1) if signed else 2.0**width
    too_high = fcmp(w, ty, "oge", x, high)
    inside = w.op("and", mask_of(ty), fcmp(w, ty, "olt", x, high), fcmp(w, ty, "ogt", x, low - 1.0))
    safe = pick(w, ty, inside, x, 0.0)
    # Through a signed 32-bit integer where it fits: narrower conversions are not vector
    # instructions.
    wide = out_ty
    if width < 32:
        wide = with_element(ty, "i32")
    opcode = "fptosi" if signed or width < 32 else "fptoui"
    value = w.cast(opcode, ty, safe, wide)
    if wide != out_ty:
        value = w.cast("trunc", wide, value, out_ty)
    bottom = -(1 << (width - 1)) if signed else 0
    top = (1 << (width - 1)) - 1 if signed else (1 << width) - 1
    too_low = fcmp(w, ty, "ole", x, low)
    value = w.select(too_low, out_ty, const(out_ty, bottom), value)
    return w.select(too_high, out_ty, const(out_ty, top), value)


def _wrap(w: FunctionWriter, target: P, ty: str, value: str) -> str:
    """Sub-byte integers live in i8 lanes: wrap to their width."""
    if target.bits >= 8 or not target.is_integral:
        return value
    amount = const(ty, 8 - target.bits)
    shift = "ashr" if target.is_signed_integral else "lshr"
    return w.op(shift, ty, w.op("shl", ty, value, amount), amount)


def _round_to_odd(w: FunctionWriter, wide: str, x: str, ty: str) -> str:
    """f64 -> f32 so that a second rounding to 16 bits is as if done at once."""
    near = w.cast("fptrunc", wide, x, ty)
    back = w.cast("fpext", ty, near, wide)
    larger = w.cmp("ogt", wide, fabs(w, wide, back), fabs(w, wide, x))
    inexact = w.cmp("one", wide, back, x)
    int_ty = int_of(ty)
    b = bits(w, ty, near)
    b = w.select(larger, int_ty, iop(w, ty, "sub", b, 1), b)
    b = w.select(inexact, int_ty, iop(w, ty, "or", b, 1), b)
    return from_bits(w, ty, b)


def convert(w: FunctionWriter, source: P, target: P, n: int, value: str) -> str:
    """HLO convert between real types, register form to register form."""
    if source is target:
        return value
    ty, out_ty = vector(register_type(source), n), vector(register_type(target), n)
    if target is P.PRED:
        if source.is_floating:
            return w.cmp("une", ty, value, const(ty, 0.0))
        return w.cmp("ne", ty, value, const(ty, 0))
    if source.is_floating:
        if target.is_floating:
            return _float_to_float(w, source, target, ty, out_ty, value)
        return _float_to_int(w, ty, value, target)
    signed = source.is_signed_integral
    if target.is_floating:
        compute = "double" if target is P.F64 else "float"
        if bits_of(ty) < 32:  # narrow integers have no conversion instructions
            wide = with_element(ty, "i32")
            value, ty = w.cast("sext" if signed else "zext", ty, value, wide), wide
            signed = True
        result = w.cast("sitofp" if signed else "uitofp", ty, value, with_element(ty, compute))
        if source in (P.S8, P.U8):
            w.bytes.add(result)
        return (
            round_to(w, target, out_ty, result)
            if target in NARROW or target is P.F8E8M0FNU
            else result
        )
    have, want = bits_of(ty), bits_of(out_ty)
    if want > have:
        value = w.cast("sext" if signed else "zext", ty, value, out_ty)
    elif want < have:
        value = w.cast("trunc", ty, value, out_ty)
    return _wrap(w, target, out_ty, value)


def _float_to_float(
    w: FunctionWriter, source: P, target: P, ty: str, out_ty: str, value: str
) -> str:
    if target is P.F64:
        return w.cast("fpext", ty, value, out_ty)
    if source is P.F64:
        if target is P.F16:
            value = _round_to_odd(w, ty, value, out_ty)
        else:
            value = w.cast("fptrunc", ty, value, out_ty)
    if target is P.F32 or (source is not P.F64 and _contains(target, source)):
        return value
    return round_to(w, target, out_ty, value)


def _contains(target: P, source: P) -> bool:
    """Every value of source is one of target, so no rounding is needed."""
    a, b = NARROW.get(target), NARROW.get(source)
    if a is None or b is None or target not in (P.F16, P.BF16):
        return False
    return a.mantissa_bits >= b.mantissa_bits and a.exponent_bits > b.exponent_bits
