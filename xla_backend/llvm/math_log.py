"""log and log1p for f32 and f64 lanes.

x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1. f32: log(1+f) = f - f^2/2 + f^3 P(f).
f64: with s = f / (2+f), log(1+f) = f - (f^2/2 - s (f^2/2 + R)), R = s^2 L(s^2).
Where registers are permuted by others, log of f32 takes a short number c near 1/m, m in [1, 2), and
log c from tables: r = m c - 1 is exact but for its last bit, log(1+r) = r + r^2 Q(r). At the ends
c is 1 and 1/2, so that log x is exact beside 1.
Polynomials are minimax fits.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    bits,
    fcmp,
    fmt,
    horner,
    iop,
    pick,
    power_of_two,
    quick_two_sum,
    split_exponent,
    two_sum,
)
from xla_backend.llvm.registers import lookup, split
from xla_backend.llvm.types import bits_of, const, int_of
from xla_backend.llvm.writer import FunctionWriter

_LN2_F32 = (0.693145751953125, 1.428606765330187e-06)
_LN2_F64 = (0.6931471805598903, 5.497923018708371e-14)
LN2 = 0.6931471805599453
_LOG_F32 = (
    0.3333331048488617,
    -0.24999986588954926,
    0.20002223551273346,
    -0.16669277846813202,
    0.1421879231929779,
    -0.12383699417114258,
    0.11870915442705154,
    -0.11793554574251175,
    0.06925583630800247,
)
_RECIPROCALS = (
    1.0, 0.9140625, 0.8671875, 0.8203125, 0.78125, 0.7421875, 0.7109375, 0.6796875,
    0.65625, 0.625, 0.6015625, 0.578125, 0.5625, 0.5390625, 0.5234375, 0.5,
)  # fmt: skip
# -log c in two parts, of which the first can be added to a number of log 2.
_LOGS = (
    0.0, 0.08984375, 0.14251708984375, 0.19805908203125,
    0.24688720703125, 0.29815673828125, 0.3411865234375, 0.3861083984375,
    0.42120361328125, 0.47003173828125, 0.50823974609375, 0.5479736328125,
    0.57537841796875, 0.617919921875, 0.6473388671875, _LN2_F32[0],
)  # fmt: skip
_LOGS_LOW = (
    0.0, 1.2579122085298877e-05, -1.702723602647893e-05, 1.0831730833160691e-05,
    -2.712909918045625e-05, -3.365962129464606e-06, -1.57660342665622e-05, 1.374682778987335e-05,
    9.851794857240748e-06, -2.8109036065870896e-05, -1.4904027921147645e-05,
    -8.462096957373433e-06, -1.4273065062297974e-05, 3.837447366095148e-06,
    -1.222658852384484e-06, _LN2_F32[1],
)  # fmt: skip
_LOG_SHORT = (
    -0.4999999925692371,
    0.33333321898965057,
    -0.25001885061956713,
    0.20026168596474317,
    -0.15766403718721345,
)
LOG_F64 = (
    0.6666666666666734,
    0.3999999999941585,
    0.28571428742154276,
    0.22222198594637008,
    0.18183563325571764,
    0.1531407355428185,
    0.14795742825996028,
)


def _log_of_parts(w: FunctionWriter, ty: str, f: str, e: str) -> str:
    """log((1 + f) 2^e), e an integer."""
    e = w.cast("sitofp", int_of(ty), e, ty)
    z = w.op("fmul", ty, f, f)
    if bits_of(ty) == 32:
        high, low = _LN2_F32
        y = w.op("fmul", ty, w.op("fmul", ty, f, z), horner(w, ty, f, _LOG_F32))
        y = w.fma(ty, e, const(ty, low), y)
        y = w.fma(ty, z, const(ty, -0.5), y)
        return w.fma(ty, e, const(ty, high), w.op("fadd", ty, f, y))
    high, low = _LN2_F64
    half_square = w.op("fmul", ty, z, const(ty, 0.5))
    s = w.op("fdiv", ty, f, w.op("fadd", ty, f, const(ty, 2.0)))
    s2 = w.op("fmul", ty, s, s)
    r = w.op("fmul", ty, s2, horner(w, ty, s2, LOG_F64))
    inner = w.fma(ty, s, w.op("fadd", ty, half_square, r), w.op("fmul", ty, e, const(ty, low)))
    rest = w.op("fsub", ty, w.op("fsub", ty, half_square, inner), f)
    return w.fma(ty, e, const(ty, high), w.fneg(ty, rest))


def _log_by_table(w: FunctionWriter, ty: str, x: str) -> str:
    e, m = split(w, ty, x, subnormals=True)
    interval = iop(w, ty, "lshr", bits(w, ty, m), fmt(ty).mantissa - 4)
    r = w.fma(ty, m, lookup(w, ty, _RECIPROCALS, interval), const(ty, -1.0))
    high, low = (const(ty, part) for part in _LN2_F32)
    whole = w.fma(ty, e, high, lookup(w, ty, _LOGS, interval))
    whole_low = w.fma(ty, e, low, lookup(w, ty, _LOGS_LOW, interval))
    s, lost = quick_two_sum(w, ty, whole, r)
    # NaN where the sum is infinite, which it stays.
    lost = pick(w, ty, fcmp(w, ty, "ogt", lost, -1.0), lost, -1.0)
    curve = w.fma(ty, w.op("fmul", ty, r, r), horner(w, ty, r, _LOG_SHORT), lost)
    return w.op("fadd", ty, s, w.op("fadd", ty, curve, whole_low))


def log(w: FunctionWriter, ty: str, x: str) -> str:
    if bits_of(ty) == 32 and w.target.permutes_registers:
        return _log_by_table(w, ty, x)
    m, e = split_exponent(w, ty, x)
    result = _log_of_parts(w, ty, w.op("fsub", ty, m, const(ty, 1.0)), e)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, INF), x, result)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, 0.0), -INF, result)
    return pick(w, ty, fcmp(w, ty, "ult", x, 0.0), NAN, result)


def log1p(w: FunctionWriter, ty: str, x: str) -> str:
    """log of the unrounded 1 + x: what the addition lost is put back into f."""
    one = const(ty, 1.0)
    u, lost = two_sum(w, ty, one, x)
    m, e = split_exponent(w, ty, u)
    f = w.op("fsub", ty, m, one)
    # Beyond 2^60 the loss does not matter, and 2^-e must stay normal.
    shift = w.intrinsic("smin", int_of(ty), e, const(int_of(ty), 60))
    minus = w.op("sub", int_of(ty), const(int_of(ty), 0), shift)
    f = w.fma(ty, lost, power_of_two(w, ty, minus), f)
    result = _log_of_parts(w, ty, f, e)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, INF), x, result)
    result = pick(w, ty, fcmp(w, ty, "oeq", x, -1.0), -INF, result)
    result = pick(w, ty, fcmp(w, ty, "ult", x, -1.0), NAN, result)
    return pick(w, ty, fcmp(w, ty, "oeq", x, 0.0), x, result)
