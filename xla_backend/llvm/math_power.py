"""pow, cbrt, rsqrt for f32 and f64 lanes, and pow for integers.

pow = 2^(y log2 x). For f32 the logarithm in f64 is exact enough. For f64 it is carried in
double-length arithmetic (about 2^-65 relative), because an error in log2 is multiplied by up to
1075. With x = m 2^e a table has a number near log2(e) / m, and what is left of the product is exact
as a sum of two numbers.
"""

from __future__ import annotations

import math

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    any_lane,
    bits,
    clamp_keep_nan,
    copysign,
    estrin,
    fabs,
    fcmp,
    fmt,
    from_bits,
    horner,
    iop,
    pick,
    quick_two_sum,
    two_product,
)
from xla_backend.llvm.registers import fills_registers, lookup, reciprocal_root_guess, scale
from xla_backend.llvm.types import bits_of, const, constant_number, int_of, mask_of, with_element
from xla_backend.llvm.writer import FunctionWriter

# m lies in 16 intervals from the number with these bits on. For each there is c, log2(e) / m but
# for a 32nd, and log2(log2(e) / c) in two parts, of which the first can be added to an exponent.
# Around 1 c is log2(e) itself.
_FIRST_M = 0x3FE6800000000000
_LOG2E = 1.4426950408889634
_FACTORS = (
    2.007227882975949, 1.923593387851951, 1.846649652337873, 1.7756246657094934,
    1.7098607892017343, 1.6487943324445296, 1.5919393554636838, 1.538874710281561,
    1.4892335905950589, 1.4426950408889634, 1.3578306267190243, 1.2823955919013008,
    1.2149010870643902, 1.1541560327111706, 1.0991962216296864, 1.0492327570101552,
)  # fmt: skip
_LOGS = (
    -0.47643804394283507, -0.4150374992786965, -0.3561438102251486, -0.2995602818587031,
    -0.2451124978365442, -0.1926450779424158, -0.14201900487250896, -0.0931094043912708,
    -0.04580368961296699, 0.0, 0.0874628412502716, 0.16992500144215228,
    0.24792751344375574, 0.3219280948874257, 0.3923174227788877, 0.4594316186371543,
)  # fmt: skip
_LOGS_LOW = (
    -1.5210380301417906e-13, -1.472763087065884e-13, -1.2660086268078022e-13,
    -2.0474716408719944e-13, 1.2786585782524667e-14, 1.9945154855490225e-14, 8.100954572822267e-14,
    -2.1069817069029688e-13, -1.5770972574523115e-13, 0.0, 6.785526991363187e-14,
    1.6005595559520916e-13, -1.701655678810667e-13, -6.322757295439908e-14, -1.2748380951698414e-13,
    1.4296858946026595e-13,
)  # fmt: skip
_LOGS_F32 = tuple(high + low for high, low in zip(_LOGS, _LOGS_LOW, strict=True))
# With r = m c - log2(e): log2 m = log2(log2(e) / c) + r + (A[0] + A[1]) r^2 + r^3 L(r), and for f32
# r L(r) behind the first. The second number makes up for the rounded log2(e).
_SQUARE = (-0.34657359027997264, -2.1374986687191837e-17)
_LINEAR_LOW = 1.4109200603052237e-17
_LOG_TAIL = (
    0.1601510046394005,
    -0.08325616299722977,
    0.0461670197166101,
    -0.026667116303489977,
    0.01584363127649294,
    -0.009609208046401727,
    0.005920524095747182,
    -0.0037011761053397352,
    0.0023333254849283807,
)
_LOG2_F32 = (
    1.0000000000041633,
    -0.3465735902879096,
    0.16015096777611362,
    -0.08325612998854436,
    0.0462153681134085,
    -0.026700632334669627,
)
# 2^(k/8) and what rounding has left of it; 2^g = 1 + g G(g) for |g| <= 1/16
_EIGHTHS = (
    1.0, 1.0905077326652577, 1.189207115002721, 1.2968395546510096,
    1.4142135623730951, 1.5422108254079407, 1.681792830507429, 1.8340080864093424,
)  # fmt: skip
_EIGHTHS_LOW = (
    0.0, -3.046782079812471e-17, 3.982015231465646e-17, 2.5382502794888315e-17,
    -9.667293313452913e-17, 7.949834809697621e-17, 8.199010020581497e-17, 3.283107224245627e-17,
)  # fmt: skip
# Of 1.5 * 2^49, whose addition rounds to eighths.
_EIGHTHS_MAGIC = 0x4308000000000000
# Powers of all numbers but 1 are 0 or infinite long before.
_LARGEST_Y = 2.0**900
_EXP2_F32 = (0.6931471746075705, 0.24022650544630922, 0.05551050103294447, 0.009619118793619657)
_EXP2_F64 = (
    0.6931471805599453,
    0.24022650695911454,
    0.05550410866482507,
    0.009618129085607103,
    0.0013333558116001148,
    0.00015404515191522094,
    1.5253697627817532e-05,
)


def _interval(w: FunctionWriter, ty: str, a: str) -> tuple[str, str, str]:
    """(e, m, number of an interval) of a positive normal double, a = m 2^e."""
    mantissa = fmt(ty).mantissa
    from_first = iop(w, ty, "sub", bits(w, ty, a), _FIRST_M)
    e = iop(w, ty, "ashr", from_first, mantissa)
    m = from_bits(w, ty, iop(w, ty, "sub", bits(w, ty, a), iop(w, ty, "shl", e, mantissa)))
    return w.cast("sitofp", int_of(ty), e, ty), m, iop(w, ty, "lshr", from_first, mantissa - 4)


def _to_eighths(w: FunctionWriter, ty: str, t: str) -> tuple[str, str]:
    """t as a multiple of an eighth, and an integer whose last bits are the number of eighths."""
    magic = const(ty, fmt(ty).magic / 8)
    shifted = w.op("fadd", ty, t, magic)
    return w.op("fsub", ty, shifted, magic), bits(w, ty, shifted)


def _scale_by_eighths(w: FunctionWriter, ty: str, x: str, n: str, eighths: str) -> str:
    """x * 2^floor(n) for what `_to_eighths` gives."""
    return scale(w, ty, x, n, iop(w, ty, "ashr", iop(w, ty, "sub", eighths, _EIGHTHS_MAGIC), 3))


def log2_for_f32(w: FunctionWriter, wide: str, a: str) -> str:
    """log2 of a positive normal double, to about 2^-40 of it beside 1 as elsewhere."""
    e, m, interval = _interval(w, wide, a)
    factor = lookup(w, wide, _FACTORS, interval)
    r = w.fma(wide, m, factor, const(wide, -_LOG2E))
    whole = w.op("fadd", wide, e, lookup(w, wide, _LOGS_F32, interval))
    return w.fma(wide, r, horner(w, wide, r, _LOG2_F32), whole)


def _power_f32(w: FunctionWriter, ty: str, a: str, y: str) -> str:
    """a^y for positive finite a and finite y."""
    wide = with_element(ty, "double")
    log = log2_for_f32(w, wide, w.cast("fpext", ty, a, wide))
    return _exp2_for_f32(w, ty, w.op("fmul", wide, log, w.cast("fpext", ty, y, wide)))


def _exp2_for_f32(w: FunctionWriter, ty: str, t: str) -> str:
    """2^t of any doubles, rounded to f32."""
    wide = with_element(ty, "double")
    t = clamp_keep_nan(w, wide, t, -200.0, 200.0)
    n, eighths = _to_eighths(w, wide, t)
    g = w.op("fsub", wide, t, n)
    power = lookup(w, wide, _EIGHTHS, eighths)
    p = w.op("fmul", wide, g, horner(w, wide, g, _EXP2_F32))
    p = _scale_by_eighths(w, wide, w.fma(wide, power, p, power), n, eighths)
    return w.cast("fptrunc", wide, p, ty)


def _log2_double_length(w: FunctionWriter, ty: str, a: str, boost: str) -> tuple[str, str]:
    """log2 of a positive normal double as high + low, less `boost`."""
    e, m, interval = _interval(w, ty, a)
    product, r_low = two_product(w, ty, m, lookup(w, ty, _FACTORS, interval))
    r = w.op("fsub", ty, product, const(ty, _LOG2E))
    z, z_low = two_product(w, ty, r, r)
    z_low = w.fma(ty, w.op("fadd", ty, r, r), r_low, z_low)
    square = const(ty, _SQUARE[0])
    v, v_low = two_product(w, ty, z, square)
    v_low = w.fma(ty, z_low, square, w.fma(ty, z, const(ty, _SQUARE[1]), v_low))
    whole = w.op("fadd", ty, w.op("fsub", ty, e, boost), lookup(w, ty, _LOGS, interval))
    s, lost = quick_two_sum(w, ty, whole, r)
    s, lost_next = quick_two_sum(w, ty, s, v)
    low = w.op("fadd", ty, v_low, w.fma(ty, r, const(ty, _LINEAR_LOW), r_low))
    low = w.op("fadd", ty, low, lookup(w, ty, _LOGS_LOW, interval))
    low = w.op("fadd", ty, w.op("fadd", ty, lost, lost_next), low)
    # r_low counts in the cube as well: near 1 the logarithm is little more than r.
    tail, cube_low = estrin(w, ty, r, _LOG_TAIL), w.fma(ty, r, z_low, w.op("fmul", ty, z, r_low))
    low = w.fma(ty, w.op("fmul", ty, z, r), tail, w.fma(ty, cube_low, tail, low))
    return quick_two_sum(w, ty, s, low)


def _power_f64(w: FunctionWriter, ty: str, a: str, y: str, boost: str) -> str:
    """(a 2^-boost)^y for normal a and finite y."""
    log, log_low = _log2_double_length(w, ty, a, boost)
    if not w.target.has_fma:  # products are taken apart: larger numbers would overflow there
        y = clamp_keep_nan(w, ty, y, -_LARGEST_Y, _LARGEST_Y)
    return _exp2_f64(w, ty, log, log_low, y)


def _exp2_f64(w: FunctionWriter, ty: str, log: str, log_low: str, y: str) -> str:
    """2^((log + log_low) y) of finite numbers."""
    t, t_low = two_product(w, ty, log, y)
    t_low = w.fma(ty, log_low, y, t_low)
    if not fills_registers(w, ty):  # the exponent is an integer then
        t = clamp_keep_nan(w, ty, t, -1100.0, 1100.0)
    n, eighths = _to_eighths(w, ty, t)
    g = w.op("fadd", ty, w.op("fsub", ty, t, n), t_low)
    # Of results that overflow or are 0, too.
    for predicate, limit in (("olt", 0.125), ("ogt", -0.125)):
        g = pick(w, ty, fcmp(w, ty, predicate, g, limit), g, limit)
    p = w.op("fmul", ty, g, horner(w, ty, g, _EXP2_F64))
    power = lookup(w, ty, _EIGHTHS, eighths)
    p = w.op("fadd", ty, power, w.fma(ty, power, p, lookup(w, ty, _EIGHTHS_LOW, eighths)))
    return _scale_by_eighths(w, ty, p, n, eighths)


def power(w: FunctionWriter, ty: str, x: str, y: str) -> str:
    """IEEE pow: x^0 = 1 and 1^y = 1 even for NaN; negative x only to integer powers."""
    single = bits_of(ty) == 32
    exponent = _exponent_of_constant(x)
    if exponent is not None:
        return _power_of_scale(w, ty, exponent, y)
    # x is not positive and finite (for f64 also not normal), or y is not finite.
    infinity, least = fmt(ty).infinity_bits, 1 if single else 1 << fmt(ty).mantissa
    above = iop(w, ty, "sub", bits(w, ty, x), least)
    x_special = w.cmp("uge", int_of(ty), above, const(int_of(ty), infinity - least))
    twice = iop(w, ty, "shl", bits(w, ty, y), 1)
    y_special = w.cmp("uge", int_of(ty), twice, const(int_of(ty), 2 * infinity))
    special = any_lane(w, ty, w.op("or", mask_of(ty), x_special, y_special))
    if single:
        result = _power_f32(w, ty, fabs(w, ty, x), y)
    else:
        a, boost = w.if_else(
            special,
            [ty, ty],
            lambda: _boosted(w, ty, fabs(w, ty, x)),
            lambda: [x, const(ty, 0.0)],
            likely=False,
        )
        result = _power_f64(w, ty, a, y, boost)
    return w.if_else(
        special,
        [ty],
        lambda: [_special_powers(w, ty, x, y, result)],
        lambda: [result],
        likely=False,
    )[0]


def _exponent_of_constant(x: str) -> int | None:
    """The exponent of a constant power of two other than 1; None of other values."""
    number = constant_number(x)
    if number is None or not 0 < number < INF:
        return None
    mantissa, exponent = math.frexp(number)
    return exponent - 1 if mantissa == 0.5 and number != 1 else None


def _power_of_scale(w: FunctionWriter, ty: str, exponent: int, y: str) -> str:
    """(2^exponent)^y, with the bits of `power`: such a logarithm is exact there."""
    if bits_of(ty) == 32:
        wide = with_element(ty, "double")
        t = w.op("fmul", wide, const(wide, exponent), w.cast("fpext", ty, y, wide))
        return _exp2_for_f32(w, ty, t)
    finite = clamp_keep_nan(w, ty, y, -_LARGEST_Y, _LARGEST_Y)
    result = _exp2_f64(w, ty, const(ty, exponent), const(ty, 0.0), finite)
    return pick(w, ty, w.cmp("uno", ty, y, y), y, result)


def _boosted(w: FunctionWriter, ty: str, a: str) -> list[str]:
    """[a 2^boost, boost] so that the first is no subnormal number."""
    tiny = fcmp(w, ty, "olt", a, fmt(ty).min_normal)
    boosted = w.select(tiny, ty, w.op("fmul", ty, a, const(ty, 2.0**54)), a)
    return [boosted, pick(w, ty, tiny, 54.0, 0.0)]


def _special_powers(w: FunctionWriter, ty: str, x: str, y: str, result: str) -> str:
    """x^y of any numbers from |x|^y, as it was computed for finite ones."""
    mask = mask_of(ty)
    a, ay = fabs(w, ty, x), fabs(w, ty, y)
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
    guess = reciprocal_root_guess(w, ty, x)
    if guess is None:
        return w.op("fdiv", ty, const(ty, 1.0), w.intrinsic("sqrt", ty, x))
    # 1 / sqrt(1 - e) is 1 + e / 2 + 3 / 8 e^2, for |e| < 2^-13 to 2^-40. x guess is NaN for 0 and
    # infinity, whose guesses are right.
    e = w.fma(ty, w.fneg(ty, w.op("fmul", ty, x, guess)), guess, const(ty, 1.0))
    more = w.op("fmul", ty, w.op("fmul", ty, guess, e), horner(w, ty, e, (0.5, 0.375)))
    return w.select(w.cmp("ord", ty, e, e), ty, w.op("fadd", ty, guess, more), guess)


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
