"""asin, acos, atan for f64 lanes (f32 goes through f64: see the table in `math`), atan2 for both.

asin: x + x z P(z), z = x^2, up to 1/2; beyond by sqrt((1 - x)/2). atan: one division brings the
argument below tan(pi/8), and the remainder of that division corrects the result. atan2 of f32 is
one polynomial of the smaller number by the larger one in f64, without such a remainder.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    any_lane,
    bits,
    copysign,
    fabs,
    fcmp,
    fmt,
    from_bits,
    horner,
    iop,
    pick,
    remainder_of_quotient,
)
from xla_backend.llvm.types import bits_of, const, int_of, mask_of, with_element
from xla_backend.llvm.writer import FunctionWriter

_PI = (3.141592653589793, 1.2246467991473532e-16)
_PIO2 = (1.5707963267948966, 6.123233995736766e-17)
_PIO4 = (0.7853981633974483, 3.061616997868383e-17)
_ASIN = (
    0.16666666666666763,
    0.07499999999970254,
    0.044642857175168034,
    0.03038194268083205,
    0.022372215737966276,
    0.01735159881499929,
    0.01398097499934248,
    0.011397679057749039,
    0.01078700470340787,
    0.0036814511604684416,
    0.02176699342689118,
    -0.02108187179680659,
    0.03267962054527549,
)
_ATAN = (
    -0.33333333333333326,
    0.1999999999999768,
    -0.14285714285388826,
    0.11111111088208803,
    -0.09090908145321026,
    0.0769228277397207,
    -0.06666226983354122,
    0.05877024214077887,
    -0.05218421936604206,
    0.0450363021234303,
    -0.03347656793771872,
    0.015197530071591232,
)
# atan(x) = x P(x^2) up to 1, as exact as a result of f32 needs it
_ATAN_F32 = (
    0.9999999996282628,
    -0.3333332393476013,
    0.19999604622296285,
    -0.14279159490400106,
    0.11054500511874855,
    -0.08798770201816407,
    0.06716104911965302,
    -0.044357477628389624,
    0.02227435345686926,
    -0.007199388610679586,
    0.0010911126517490735,
)


def _arc_sine_parts(w: FunctionWriter, ty: str, a: str) -> tuple[str, str, str]:
    """(a < 1/2, s, rest): asin(a) = s + rest below 1/2, acos(a) = 2 (s + rest) from there on."""
    small = fcmp(w, ty, "olt", a, 0.5)
    far = w.op("fmul", ty, w.op("fsub", ty, const(ty, 1.0), a), const(ty, 0.5))
    z = w.select(small, ty, w.op("fmul", ty, a, a), far)
    root = w.intrinsic("sqrt", ty, far)
    s = w.select(small, ty, a, root)
    p = w.op("fmul", ty, z, horner(w, ty, z, _ASIN))
    rest = w.op("fmul", ty, s, p)
    lost = remainder_of_quotient(w, ty, far, root, root)
    lost = w.op("fdiv", ty, lost, w.op("fadd", ty, root, root))
    exact = w.op("or", mask_of(ty), small, fcmp(w, ty, "oeq", root, 0.0))
    return small, s, w.op("fadd", ty, rest, pick(w, ty, exact, 0.0, lost))


def _constant_minus(
    w: FunctionWriter, ty: str, constant: tuple[float, float], s: str, rest: str
) -> str:
    """constant - (s + rest), the constant in two parts."""
    high = const(ty, constant[0])
    t = w.op("fsub", ty, high, s)
    lost = w.op("fsub", ty, w.op("fsub", ty, high, t), s)
    lost = w.op("fsub", ty, w.op("fadd", ty, lost, const(ty, constant[1])), rest)
    return w.op("fadd", ty, t, lost)


def asin(w: FunctionWriter, ty: str, x: str) -> str:
    small, s, rest = _arc_sine_parts(w, ty, fabs(w, ty, x))
    near = w.op("fadd", ty, s, rest)
    far = _constant_minus(w, ty, _PIO2, w.op("fadd", ty, s, s), w.op("fadd", ty, rest, rest))
    return copysign(w, ty, w.select(small, ty, near, far), x)


def acos(w: FunctionWriter, ty: str, x: str) -> str:
    small, s, rest = _arc_sine_parts(w, ty, fabs(w, ty, x))
    middle = _constant_minus(w, ty, _PIO2, copysign(w, ty, s, x), _with_sign_of(w, ty, rest, x))
    twice, twice_rest = w.op("fadd", ty, s, s), w.op("fadd", ty, rest, rest)
    right = w.op("fadd", ty, twice, twice_rest)
    left = _constant_minus(w, ty, _PI, twice, twice_rest)
    outer = w.select(fcmp(w, ty, "olt", x, 0.0), ty, left, right)
    return w.select(small, ty, middle, outer)


def _with_sign_of(w: FunctionWriter, ty: str, value: str, x: str) -> str:
    """value, negated where x is negative."""
    return w.select(fcmp(w, ty, "olt", x, 0.0), ty, w.fneg(ty, value), value)


def _arc_tangent(w: FunctionWriter, ty: str, n: str, d: str) -> tuple[str, str]:
    """atan(n / d) for n >= 0, d >= 0, not both 0 or infinite, as a sum of two numbers."""
    steep = w.cmp("ogt", ty, n, w.op("fmul", ty, d, const(ty, 2.414213562373095)))
    middle = w.cmp("ogt", ty, n, w.op("fmul", ty, d, const(ty, 0.41421356237309503)))
    difference = w.op("fsub", ty, n, d)
    lost_n = w.op("fsub", ty, w.op("fsub", ty, n, w.op("fadd", ty, difference, d)), const(ty, 0.0))
    total = w.op("fadd", ty, n, d)
    larger = w.intrinsic("maxnum", ty, n, d)
    smaller = w.intrinsic("minnum", ty, n, d)
    lost_d = w.op("fsub", ty, smaller, w.op("fsub", ty, total, larger))
    num = w.select(steep, ty, w.fneg(ty, d), w.select(middle, ty, difference, n))
    den = w.select(steep, ty, n, w.select(middle, ty, total, d))
    zero = const(ty, 0.0)
    between = w.op("xor", mask_of(ty), steep, middle)
    lost_n = w.select(between, ty, lost_n, zero)
    lost_d = w.select(between, ty, lost_d, zero)
    t = w.op("fdiv", ty, num, den)
    left = w.op("fadd", ty, remainder_of_quotient(w, ty, num, t, den), lost_n)
    left = w.op("fsub", ty, left, w.op("fmul", ty, t, lost_d))
    tail = w.op("fdiv", ty, left, den)
    tail = w.select(fcmp(w, ty, "olt", fabs(w, ty, tail), 1.0), ty, tail, zero)
    z = w.op("fmul", ty, t, t)
    rest = w.fma(ty, w.op("fmul", ty, z, t), horner(w, ty, z, _ATAN), tail)
    base = pick(w, ty, steep, _PIO2[0], pick(w, ty, middle, _PIO4[0], 0.0))
    base_low = pick(w, ty, steep, _PIO2[1], pick(w, ty, middle, _PIO4[1], 0.0))
    s = w.op("fadd", ty, base, t)
    lost = w.op("fsub", ty, t, w.op("fsub", ty, s, base))
    return s, w.op("fadd", ty, lost, w.op("fadd", ty, rest, base_low))


def atan(w: FunctionWriter, ty: str, x: str) -> str:
    a = fabs(w, ty, x)
    # Beyond 2^60 the result is pi/2 for every argument, infinity included.
    n = pick(w, ty, fcmp(w, ty, "ogt", a, 2.0**60), 2.0**60, a)
    s, rest = _arc_tangent(w, ty, n, const(ty, 1.0))
    return copysign(w, ty, w.op("fadd", ty, s, rest), x)


def atan2(w: FunctionWriter, ty: str, y: str, x: str) -> str:
    return (_atan2_f32 if bits_of(ty) == 32 else _atan2_f64)(w, ty, y, x)


def _atan2_f32(w: FunctionWriter, ty: str, y: str, x: str) -> str:
    """c + atan(q), q = the smaller by the larger of |y| and |x|, or -q, and c a number of right
    angles."""
    int_ty, mask = int_of(ty), mask_of(ty)
    infinity, sign = fmt(ty).infinity_bits, const(int_ty, -(2**31))
    # As integers they have the order of numbers, and NaN comes last.
    n, d = bits(w, ty, fabs(w, ty, y)), bits(w, ty, fabs(w, ty, x))
    low, high = w.intrinsic("umin", int_ty, n, d), w.intrinsic("umax", int_ty, n, d)
    steep = w.cmp("ugt", int_ty, n, d)
    x_sign = w.op("and", int_ty, bits(w, ty, x), sign)
    flip = w.op("xor", int_ty, x_sign, w.select(steep, int_ty, sign, const(int_ty, 0)))

    def unusual() -> list[str]:
        one = bits(w, ty, const(ty, 1.0))
        infinite = w.cmp("eq", int_ty, low, const(int_ty, infinity))
        larger = w.op("or", mask, infinite, w.cmp("eq", int_ty, high, const(int_ty, 0)))
        larger = w.op("and", mask, larger, w.cmp("ule", int_ty, high, const(int_ty, infinity)))
        return [w.select(infinite, int_ty, one, low), w.select(larger, int_ty, one, high)]

    # Both are 0, or one is infinite or NaN.
    below = iop(w, ty, "sub", high, 1)
    special = any_lane(w, ty, w.cmp("uge", int_ty, below, const(int_ty, infinity - 1)))
    low, high = w.if_else(special, [int_ty, int_ty], unusual, lambda: [low, high], likely=False)
    wide = with_element(ty, "double")
    low = from_bits(w, ty, w.op("xor", int_ty, low, flip))
    high = from_bits(w, ty, high)
    q = w.op("fdiv", wide, w.cast("fpext", ty, low, wide), w.cast("fpext", ty, high, wide))
    left = w.cmp("slt", int_ty, bits(w, ty, x), const(int_ty, 0))
    base = pick(w, wide, steep, _PIO2[0], pick(w, wide, left, _PI[0], 0.0))
    angle = w.fma(wide, q, horner(w, wide, w.op("fmul", wide, q, q), _ATAN_F32), base)
    return copysign(w, ty, w.cast("fptrunc", wide, angle, ty), y)


def _atan2_f64(w: FunctionWriter, ty: str, y: str, x: str) -> str:
    n, d = fabs(w, ty, y), fabs(w, ty, x)
    infinite = w.op("and", mask_of(ty), fcmp(w, ty, "oeq", n, INF), fcmp(w, ty, "oeq", d, INF))
    n, d = pick(w, ty, infinite, 1.0, n), pick(w, ty, infinite, 1.0, d)
    zero = w.op("and", mask_of(ty), fcmp(w, ty, "oeq", n, 0.0), fcmp(w, ty, "oeq", d, 0.0))
    d = pick(w, ty, zero, 1.0, d)
    # Keep sums finite and quotient remainders normal: work between 2^-900 and 2^1000.
    larger = w.intrinsic("maxnum", ty, n, d)
    factor = pick(w, ty, fcmp(w, ty, "ogt", larger, 2.0**1000), 2.0**-100, 1.0)
    factor = pick(w, ty, fcmp(w, ty, "olt", larger, 2.0**-800), 2.0**200, factor)
    n, d = w.op("fmul", ty, n, factor), w.op("fmul", ty, d, factor)
    far = w.op("or", mask_of(ty), fcmp(w, ty, "oeq", n, INF), fcmp(w, ty, "oeq", d, INF))
    s, rest = _arc_tangent(w, ty, n, d)
    # One of the two infinite: the angle is exactly 0 or pi/2.
    s = w.select(far, ty, pick(w, ty, fcmp(w, ty, "oeq", n, INF), _PIO2[0], 0.0), s)
    rest = pick(w, ty, far, 0.0, rest)
    zero_int = const(int_of(ty), 0)
    left = w.cmp("slt", int_of(ty), bits(w, ty, x), zero_int)
    right_angle = w.op("fadd", ty, s, rest)
    left_angle = _constant_minus(w, ty, _PI, s, rest)
    result = copysign(w, ty, w.select(left, ty, left_angle, right_angle), y)
    unordered = w.cmp("uno", ty, x, y)
    return w.select(unordered, ty, w.op("fadd", ty, x, y), result)
