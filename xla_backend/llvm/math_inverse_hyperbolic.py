"""asinh, acosh and atanh for f32 and f64 lanes.

f64: log1p of an argument that rounding spares. f32: the logarithm of the whole sum or quotient in
f64, to 2^-37 of it; below 2^-16 that of a number beside 1 has no digits, and asinh and atanh are x.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    Emitter,
    bits,
    copysign,
    fabs,
    fcmp,
    fmt,
    iop,
    pick,
)
from xla_backend.llvm.math_log import LN2, log1p
from xla_backend.llvm.math_power import log2_for_f32
from xla_backend.llvm.types import bits_of, const, int_of, with_element
from xla_backend.llvm.writer import FunctionWriter

_LINEAR_F32 = 0x37800000  # 2^-16
_ONE_F32 = 0x3F800000


_BIG = 2.0**28  # above this sqrt(x^2 +- 1) is |x| and asinh, acosh are log(2|x|)


def _asinh_f64(w: FunctionWriter, ty: str, x: str) -> str:
    one = const(ty, 1.0)
    a = fabs(w, ty, x)
    big = fcmp(w, ty, "ogt", a, _BIG)
    c = w.select(big, ty, one, a)
    square = w.op("fmul", ty, c, c)
    root = w.intrinsic("sqrt", ty, w.op("fadd", ty, square, one))
    q = w.op("fdiv", ty, square, w.op("fadd", ty, root, one))
    argument = w.select(big, ty, w.op("fsub", ty, a, one), w.op("fadd", ty, c, q))
    result = log1p(w, ty, argument)
    result = w.op("fadd", ty, result, pick(w, ty, big, LN2, 0.0))
    return copysign(w, ty, result, x)


def _acosh_f64(w: FunctionWriter, ty: str, x: str) -> str:
    big = fcmp(w, ty, "ogt", x, _BIG)
    t = w.op("fsub", ty, x, const(ty, 1.0))
    c = pick(w, ty, big, 1.0, t)
    root = w.intrinsic("sqrt", ty, w.fma(ty, c, c, w.op("fadd", ty, c, c)))
    argument = w.select(big, ty, t, w.op("fadd", ty, c, root))
    result = w.op("fadd", ty, log1p(w, ty, argument), pick(w, ty, big, LN2, 0.0))
    return pick(w, ty, fcmp(w, ty, "ult", x, 1.0), NAN, result)


def _atanh_f64(w: FunctionWriter, ty: str, x: str) -> str:
    a = fabs(w, ty, x)
    q = w.op("fdiv", ty, w.op("fadd", ty, a, a), w.op("fsub", ty, const(ty, 1.0), a))
    result = w.op("fmul", ty, log1p(w, ty, q), const(ty, 0.5))
    # Halving a subnormal 2x would round twice.
    result = pick(w, ty, fcmp(w, ty, "olt", a, 2.0**-40), a, result)
    return copysign(w, ty, result, x)


def _between(w: FunctionWriter, ty: str, x: str, first: int, end: int) -> str:
    """Whether the bits of an f32 are a number from `first` on, below `end`."""
    above = iop(w, ty, "sub", bits(w, ty, x), first)
    return w.cmp("ult", int_of(ty), above, const(int_of(ty), end - first))


def _log_f32(w: FunctionWriter, ty: str, x: str, factor: float = 1.0) -> str:
    """factor log x of doubles from 1 on, rounded to f32."""
    wide = with_element(ty, "double")
    log = w.op("fmul", wide, log2_for_f32(w, wide, x), const(wide, factor * LN2))
    return w.cast("fptrunc", wide, log, ty)


def _asinh_f32(w: FunctionWriter, ty: str, x: str) -> str:
    wide, size = with_element(ty, "double"), fabs(w, ty, x)
    a = w.cast("fpext", ty, size, wide)
    root = w.intrinsic("sqrt", wide, w.fma(wide, a, a, const(wide, 1.0)))
    result = _log_f32(w, ty, w.op("fadd", wide, a, root))
    curved = _between(w, ty, size, _LINEAR_F32, fmt(ty).infinity_bits)
    return copysign(w, ty, w.select(curved, ty, result, size), x)


def _acosh_f32(w: FunctionWriter, ty: str, x: str) -> str:
    wide = with_element(ty, "double")
    a = w.cast("fpext", ty, x, wide)
    root = w.intrinsic("sqrt", wide, w.fma(wide, a, a, const(wide, -1.0)))
    result = _log_f32(w, ty, w.op("fadd", wide, a, root))
    other = pick(w, ty, fcmp(w, ty, "oeq", x, INF), INF, NAN)
    return w.select(_between(w, ty, x, _ONE_F32, fmt(ty).infinity_bits), ty, result, other)


def _atanh_f32(w: FunctionWriter, ty: str, x: str) -> str:
    wide, size = with_element(ty, "double"), fabs(w, ty, x)
    a, one = w.cast("fpext", ty, size, wide), const(wide, 1.0)
    quotient = w.op("fdiv", wide, w.op("fadd", wide, one, a), w.op("fsub", wide, one, a))
    result = _log_f32(w, ty, quotient, 0.5)
    end = pick(w, ty, fcmp(w, ty, "oeq", size, 1.0), INF, NAN)
    other = w.select(fcmp(w, ty, "olt", size, 1.0), ty, size, end)
    curved = _between(w, ty, size, _LINEAR_F32, _ONE_F32)
    return copysign(w, ty, w.select(curved, ty, result, other), x)


def _of_width(single: Emitter, double: Emitter) -> Emitter:
    return lambda w, ty, x: (single if bits_of(ty) == 32 else double)(w, ty, x)


asinh = _of_width(_asinh_f32, _asinh_f64)
acosh = _of_width(_acosh_f32, _acosh_f64)
atanh = _of_width(_atanh_f32, _atanh_f64)
