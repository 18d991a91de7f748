"""pow, cbrt, rsqrt for f32 and f64 lanes, and pow for integers.

pow = 2^(y log2 x). For f32 the logarithm in f64 is exact enough. For f64 it is carried in
double-length arithmetic (about 2^-65 relative), because an error in log2 is multiplied by up to
1075.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    bits,
    copysign,
    fabs,
    fcmp,
    from_bits,
    horner,
    iop,
    pick,
    quick_two_sum,
    remainder_of_quotient,
    round_to_int,
    scale,
    split_exponent,
    two_product,
    two_sum,
)
from xla_backend.llvm.math_exp import EXP_F64
from xla_backend.llvm.math_log import LOG_F64
from xla_backend.llvm.types import bits_of, const, int_of, mask_of, with_element
from xla_backend.llvm.writer import FunctionWriter

_INV_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# log((1+s)/(1-s)) = 2s + 2/3 s^3 + s^5 P(s^2)
_LOG_TAIL = (
    0.4000000000000205,
    0.2857142857018151,
    0.2222222250734053,
    0.18181785338827294,
    0.1538671708506651,
    0.13257672170428805,
    0.13189020714428026,
)


def _log2(w: FunctionWriter, ty: str, a: str) -> str:
    """log2 of a positive double that is normal, to a few units in the last place."""
    m, e = split_exponent(w, ty, a)
    one = const(ty, 1.0)
    s = w.op("fdiv", ty, w.op("fsub", ty, m, one), w.op("fadd", ty, m, one))
    z = w.op("fmul", ty, s, s)
    p = w.op("fmul", ty, z, horner(w, ty, z, LOG_F64))
    log = w.fma(ty, s, p, w.op("fadd", ty, s, s))
    return w.fma(ty, log, const(ty, _INV_LN2[0]), w.cast("sitofp", int_of(ty), e, ty))


def _log2_double_length(w: FunctionWriter, ty: str, a: str) -> tuple[str, str]:
    """log2 of a positive double as high + low."""
    m, e = split_exponent(w, ty, a)
    one = const(ty, 1.0)
    f = w.op("fsub", ty, m, one)
    d = w.op("fadd", ty, m, one)
    d_low = w.op("fsub", ty, m, w.op("fsub", ty, d, one))
    s = w.op("fdiv", ty, f, d)
    left = remainder_of_quotient(w, ty, f, s, d)
    left = w.op("fsub", ty, left, w.op("fmul", ty, s, d_low))
    s_low = w.op("fdiv", ty, left, d)
    z, z_low = two_product(w, ty, s, s)
    z_low = w.fma(ty, w.op("fadd", ty, s, s), s_low, z_low)
    a_high, a_low = two_product(w, ty, z, const(ty, _TWO_THIRDS[0]))
    a_low = w.fma(ty, z, const(ty, _TWO_THIRDS[1]), a_low)
    a_low = w.fma(ty, z_low, const(ty, _TWO_THIRDS[0]), a_low)
    tail = w.op("fmul", ty, w.op("fmul", ty, z, z), horner(w, ty, z, _LOG_TAIL))
    sum_high, sum_low = quick_two_sum(w, ty, a_high, tail)
    u, u_low = quick_two_sum(w, ty, const(ty, 2.0), sum_high)
    u_low = w.op("fadd", ty, u_low, w.op("fadd", ty, sum_low, a_low))
    log, log_low = two_product(w, ty, u, s)
    log_low = w.fma(ty, u, s_low, w.fma(ty, u_low, s, log_low))
    g, g_low = two_product(w, ty, log, const(ty, _INV_LN2[0]))
    g_low = w.fma(ty, log, const(ty, _INV_LN2[1]), g_low)
    g_low = w.fma(ty, log_low, const(ty, _INV_LN2[0]), g_low)
    h, h_low = two_sum(w, ty, w.cast("sitofp", int_of(ty), e, ty), g)
    return quick_two_sum(w, ty, h, w.op("fadd", ty, h_low, g_low))


def _exp2(w: FunctionWriter, ty: str, t: str, t_low: str | None) -> str:
    """2^(t + t_low)."""
    limit = 1100.0
    large = fcmp(w, ty, "ogt", fabs(w, ty, t), limit)
    t = w.select(large, ty, copysign(w, ty, const(ty, limit), t), t)
    n, n_int = round_to_int(w, ty, t)
    r = w.op("fsub", ty, t, n)
    g, g_low = two_product(w, ty, r, const(ty, _LN2[0]))
    g_low = w.fma(ty, r, const(ty, _LN2[1]), g_low)
    if t_low is not None:
        g_low = w.fma(ty, pick(w, ty, large, 0.0, t_low), const(ty, _LN2[0]), g_low)
    curve = w.op("fmul", ty, w.op("fmul", ty, g, g), horner(w, ty, g, EXP_F64))
    # The low part moves the result by e^g * g_low.
    tail = w.fma(ty, g_low, w.op("fadd", ty, g, curve), w.op("fadd", ty, curve, g_low))
    p = w.op("fadd", ty, const(ty, 1.0), w.op("fadd", ty, g, tail))
    return scale(w, ty, p, n_int)


def _magnitude(w: FunctionWriter, ty: str, a: str, y: str) -> str:
    """a^y for positive finite a and finite y; special cases come later."""
    if bits_of(ty) == 32:
        wide = with_element(ty, "double")
        log = _log2(w, wide, w.cast("fpext", ty, a, wide))
        t = w.op("fmul", wide, log, w.cast("fpext", ty, y, wide))
        return w.cast("fptrunc", wide, _exp2(w, wide, t, None), ty)
    log, log_low = _log2_double_length(w, ty, a)
    t, t_low = two_product(w, ty, log, y)
    return _exp2(w, ty, t, w.fma(ty, log_low, y, t_low))


def power(w: FunctionWriter, ty: str, x: str, y: str) -> str:
    """IEEE pow: x^0 = 1 and 1^y = 1 even for NaN; negative x only to integer powers."""
    mask = mask_of(ty)
    a, ay = fabs(w, ty, x), fabs(w, ty, y)
    result = _magnitude(w, ty, a, y)
    y_integer = w.cmp("oeq", ty, w.intrinsic("rint", ty, y), y)
    half = w.op("fmul", ty, y, const(ty, 0.5))
    y_odd = w.op("and", mask, y_integer, w.cmp("one", ty, w.intrinsic("rint", ty, half), half))
    y_negative = fcmp(w, ty, "olt", y, 0.0)
    x_infinite = fcmp(w, ty, "oeq", a, INF)
    # 0 and infinity to a finite power
    extreme = w.op("or", mask, fcmp(w, ty, "oeq", a, 0.0), x_infinite)
    to_infinity = w.op("xor", mask, x_infinite, y_negative)
    result = w.select(extreme, ty, pick(w, ty, to_infinity, INF, 0.0), result)
    # any number to an infinite power
    y_infinite = fcmp(w, ty, "oeq", ay, INF)
    grows = w.op("xor", mask, fcmp(w, ty, "ogt", a, 1.0), y_negative)
    limit = pick(w, ty, fcmp(w, ty, "oeq", a, 1.0), 1.0, pick(w, ty, grows, INF, 0.0))
    result = w.select(y_infinite, ty, limit, result)
    # negative base
    zero = const(int_of(ty), 0)
    x_sign = w.cmp("slt", int_of(ty), bits(w, ty, x), zero)
    negate = w.op("and", mask, x_sign, y_odd)
    result = w.select(negate, ty, w.fneg(ty, result), result)
    finite = w.op("and", mask, fcmp(w, ty, "one", a, INF), fcmp(w, ty, "one", ay, INF))
    undefined = w.op("and", mask, fcmp(w, ty, "olt", x, 0.0), w.not_(mask, y_integer))
    result = pick(w, ty, w.op("and", mask, undefined, finite), NAN, result)
    unordered = w.cmp("uno", ty, x, y)
    result = w.select(unordered, ty, w.op("fadd", ty, x, y), result)
    trivial = w.op("or", mask, fcmp(w, ty, "oeq", y, 0.0), fcmp(w, ty, "oeq", x, 1.0))
    return pick(w, ty, trivial, 1.0, result)


def rsqrt(w: FunctionWriter, ty: str, x: str) -> str:
    return w.op("fdiv", ty, const(ty, 1.0), w.intrinsic("sqrt", ty, x))


_CBRT = (
    0.6274216152109778,
    0.44900180074270446,
    -0.08368549641437426,
    0.009567999822770954,
    -0.0004311724779575849,
)


def cbrt(w: FunctionWriter, ty: str, x: str) -> str:
    """f64: |x| = m 8^q, m in [1, 8); a polynomial guess, one Halley step, one exact Newton step."""
    a = fabs(w, ty, x)
    tiny = fcmp(w, ty, "olt", a, 2.0**-1022)
    boosted = w.select(tiny, ty, w.op("fmul", ty, a, const(ty, 2.0**54)), a)
    b = bits(w, ty, boosted)
    # exponent + 3072 > 0 is 3 (q + 1024) + r; 21846 / 2^16 is a third, close enough for 13 bits
    exponent = iop(w, ty, "add", iop(w, ty, "lshr", b, 52), 3072 - 1023)
    third = iop(w, ty, "lshr", iop(w, ty, "mul", exponent, 21846), 16)
    r = iop(w, ty, "sub", exponent, iop(w, ty, "mul", third, 3))
    mantissa = iop(w, ty, "and", b, (1 << 52) - 1)
    m_bits = iop(w, ty, "or", mantissa, iop(w, ty, "shl", iop(w, ty, "add", r, 1023), 52))
    m = from_bits(w, ty, m_bits)
    y = horner(w, ty, m, _CBRT)
    cube = w.op("fmul", ty, y, w.op("fmul", ty, y, y))
    m2 = w.op("fadd", ty, m, m)
    above = w.op("fadd", ty, cube, m2)
    below = w.op("fadd", ty, w.op("fadd", ty, cube, cube), m)
    y = w.op("fdiv", ty, w.op("fmul", ty, y, above), below)
    square, square_low = two_product(w, ty, y, y)
    cube, cube_low = two_product(w, ty, square, y)
    left = w.op("fsub", ty, w.op("fsub", ty, m, cube), w.fma(ty, square_low, y, cube_low))
    y = w.op("fadd", ty, y, w.op("fdiv", ty, left, w.op("fmul", ty, square, const(ty, 3.0))))
    q = iop(w, ty, "sub", third, 1024)
    int_ty = int_of(ty)
    q = w.select(tiny, int_ty, iop(w, ty, "sub", q, 18), q)
    factor = from_bits(w, ty, iop(w, ty, "shl", iop(w, ty, "add", q, 1023), 52))
    result = copysign(w, ty, w.op("fmul", ty, y, factor), x)
    special = w.op("or", mask_of(ty), fcmp(w, ty, "oeq", a, 0.0), fcmp(w, ty, "ueq", a, INF))
    return w.select(special, ty, x, result)


def integer_power(w: FunctionWriter, ty: str, x: str, y: str, signed: bool) -> str:
    """x^y by squaring, wrapping; negative powers are 0 except of 1 and -1."""
    zero, one, mask = const(ty, 0), const(ty, 1), mask_of(ty)

    def more(values: list[str]) -> str:
        return w.reduce("or", mask, w.cmp("ne", ty, values[2], zero))

    def step(values: list[str]) -> list[str]:
        result, base, exponent = values
        odd = w.cmp("ne", ty, w.op("and", ty, exponent, one), zero)
        result = w.select(odd, ty, w.op("mul", ty, result, base), result)
        return [result, w.op("mul", ty, base, base), w.op("lshr", ty, exponent, one)]

    count = y
    negative = w.cmp("slt", ty, y, zero) if signed else ""
    if signed:
        count = w.select(negative, ty, zero, y)
    result = w.while_([(ty, one), (ty, x), (ty, count)], more, step)[0]
    if not signed:
        return result
    minus = const(ty, -1)
    odd = w.cmp("ne", ty, w.op("and", ty, y, one), zero)
    alternating = w.select(odd, ty, minus, one)
    tail = w.select(w.cmp("eq", ty, x, minus), ty, alternating, zero)
    tail = w.select(w.cmp("eq", ty, x, one), ty, one, tail)
    return w.select(negative, ty, tail, result)
