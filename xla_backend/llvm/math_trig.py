"""sin, cos, tan for f32 and f64 lanes, accurate over the whole range of arguments.

x = q pi/2 + r, |r| <= pi/4. Up to a limit the subtraction of q pi/2 in three short parts (Cody and
Waite) is exact enough; vectors with a larger finite lane take a branch to a scalar routine that
multiplies by 192 bits of 2/pi chosen by the exponent (Payne and Hanek, 1983).
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    any_lane,
    bits,
    fabs,
    fcmp,
    from_bits,
    horner,
    iop,
    quick_two_sum,
    round_to_int,
    through_double,
    two_product,
)
from xla_backend.llvm.types import bits_of, const, int_of, lanes, with_element
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

_TWO_OVER_PI = 0.6366197723675814
_LIMIT_F32 = 71476.0
_LIMIT_F64 = 1647099.0  # 2^20 pi/2
_PIO2_F32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_PIO2_F64 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_SIN_F32 = (
    -0.1666666716337204,
    0.008333329111337662,
    -0.00019839327433146536,
    2.7182402391190408e-06,
)
_SIN_F64 = (
    -0.16666666666666666,
    0.008333333333333323,
    -0.00019841269841255017,
    2.7557319214163326e-06,
    -2.5052104904125474e-08,
    1.605836563098015e-10,
    -7.578646421395703e-13,
)
_COS_F32 = (0.04166664555668831, -0.001388736185617745, 2.443773701088503e-05)
_COS_F64 = (
    0.0416666666666666,
    -0.0013888888888873988,
    2.4801587289394774e-05,
    -2.7557314326373434e-07,
    2.087571965411746e-09,
    -1.135945589819037e-11,
)
# 64 zero bits, then the first 1216 bits of 2/pi.
_TWO_OVER_PI_WORDS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
_HELPER = "pyjax.reduce_by_pio2"


def _emit_payne_hanek(module: ModuleWriter) -> None:
    """void helper(ptr x, ptr r, ptr tail, ptr q, i64 n, double limit), arrays of double / i64.

    Replaces r, tail, q of every finite lane with |x| > limit.
    """
    table = module.constant_bytes(b"".join(v.to_bytes(8, "little") for v in _TWO_OVER_PI_WORDS))
    params = [("ptr", p) for p in ("x", "r", "tail", "q")] + [("i64", "n"), ("double", "limit")]
    w = module.function(_HELPER, params, internal=True, attributes="noinline cold")
    d, wide = "double", "i192"
    with w.loop(0, "%n") as loop:
        x = w.load(d, w.gep(d, "%x", loop.index))
        a = fabs(w, d, x)
        large = w.op("and", "i1", w.cmp("ogt", d, a, "%limit"), fcmp(w, d, "olt", a, INF))
        with w.if_(large):
            b = bits(w, d, a)
            exponent = iop(w, d, "sub", iop(w, d, "lshr", b, 52), 1075)
            mantissa = iop(w, d, "or", iop(w, d, "and", b, (1 << 52) - 1), 1 << 52)
            # x * 2/pi = mantissa * 2^exponent * 2/pi; bits of weight 4 and more do not matter, so
            # start at bit exponent - 2 of 2/pi (the table has 64 bits in front).
            start = iop(w, d, "add", exponent, 62)
            word = iop(w, d, "lshr", start, 6)
            shift = iop(w, d, "and", start, 63)
            entries = [w.load("i64", w.gep("i64", table, w.iadd(word, k))) for k in range(4)]
            window = [
                w.intrinsic("fshl", "i64", entries[k], entries[k + 1], shift) for k in range(3)
            ]
            total = w.cast("zext", "i64", iop(w, d, "mul", window[0], mantissa), wide)
            total = w.op("shl", wide, total, "128")
            m128 = w.cast("zext", "i64", mantissa, "i128")
            for k, at in ((1, "64"), (2, "0")):
                product = w.op("mul", "i128", w.cast("zext", "i64", window[k], "i128"), m128)
                product = w.cast("zext", "i128", product, wide)
                total = w.op("add", wide, total, w.op("shl", wide, product, at))
            # Two integer bits on top, 190 of fraction below: round to the nearest integer.
            q = w.op("lshr", wide, w.op("add", wide, total, str(1 << 189)), "190")
            fraction = w.op("sub", wide, total, w.op("shl", wide, q, "190"))
            negative = w.cmp("slt", wide, fraction, "0")
            magnitude = w.select(negative, wide, w.op("sub", wide, "0", fraction), fraction)
            w.module.declare("llvm.ctlz.i192", wide, [wide, "i1"])
            zeros = w.pure(f"call i192 @llvm.ctlz.i192(i192 {magnitude}, i1 true)", magnitude)
            normal = w.op("shl", wide, magnitude, zeros)
            high = w.cast("trunc", wide, w.op("lshr", wide, normal, "139"), "i64")
            low = w.op("and", wide, w.op("lshr", wide, normal, "86"), str((1 << 53) - 1))
            low = w.cast("trunc", wide, low, "i64")
            # high counts units of 2^(139 - zeros - 190), low units of 2^-53 of that.
            unit = iop(w, d, "sub", const("i64", 1023 - 51), w.cast("trunc", wide, zeros, "i64"))
            unit = from_bits(w, d, iop(w, d, "shl", unit, 52))
            flip = w.op("xor", "i1", negative, fcmp(w, d, "olt", x, 0.0))
            unit = w.select(flip, d, w.fneg(d, unit), unit)
            h = w.op("fmul", d, w.cast("uitofp", "i64", high, d), unit)
            tiny = w.op("fmul", d, unit, const(d, 2.0**-53))
            lo = w.op("fmul", d, w.cast("uitofp", "i64", low, d), tiny)
            pio2, pio2_low = const(d, 1.5707963267948966), const(d, 6.123233995736766e-17)
            r, e = two_product(w, d, h, pio2)
            tail = w.op("fadd", d, e, w.op("fmul", d, h, pio2_low))
            tail = w.op("fadd", d, tail, w.op("fmul", d, lo, pio2))
            r_sum = w.op("fadd", d, r, tail)
            tail = w.op("fsub", d, tail, w.op("fsub", d, r_sum, r))
            quadrant = w.cast("trunc", wide, q, "i64")
            minus = iop(w, d, "sub", const("i64", 0), quadrant)
            quadrant = w.select(fcmp(w, d, "olt", x, 0.0), "i64", minus, quadrant)
            w.store(d, r_sum, w.gep(d, "%r", loop.index))
            w.store(d, tail, w.gep(d, "%tail", loop.index))
            w.store("i64", quadrant, w.gep("i64", "%q", loop.index))
    w.ret()


def _slow_lanes(
    w: FunctionWriter, ty: str, x: str, limit: float, r: str, tail: str, q: str
) -> tuple[str, str, str]:
    """(r, tail, q) with the lanes beyond the limit reduced by the scalar routine."""
    large = fcmp(w, ty, "ogt", fabs(w, ty, x), limit)  # or infinite, which stays as it is
    n, wide, int_ty = lanes(ty), with_element(ty, "double"), with_element(ty, "i64")
    single = bits_of(ty) == 32

    def slow() -> list[str]:
        if not w.module.has_function(_HELPER):
            _emit_payne_hanek(w.module)
        cells = [w.alloca("double", n, 64) for _ in range(3)] + [w.alloca("i64", n, 64)]
        for value, cell in zip((x, r, tail), cells, strict=False):
            w.store(wide, w.cast("fpext", ty, value, wide), cell)
        w.store(int_ty, w.cast("sext", int_of(ty), q, int_ty), cells[3])
        args = [("ptr", c) for c in cells] + [("i64", str(n)), ("double", const("double", limit))]
        w.call(_HELPER, "void", args)
        out = [w.load(wide, cells[1]), w.load(wide, cells[2])]
        quadrant = w.load(int_ty, cells[3])
        return [
            *[w.cast("fptrunc", wide, v, ty) for v in out],
            w.cast("trunc", int_ty, quadrant, int_of(ty)) if single else quadrant,
        ]

    results = w.if_else(
        any_lane(w, ty, large),
        [ty, ty, int_of(ty)],
        slow,
        lambda: [r, tail, q],
        likely=False,
    )
    return results[0], results[1], results[2]


def _reduce(w: FunctionWriter, ty: str, x: str) -> tuple[str, str, str]:
    """x = q pi/2 + r + tail. Sines go with cosines of the same angle often."""
    r, tail, q = w.once(f"reduced by pi/2: {ty} {x}", lambda: _reduced(w, ty, x))
    return r, tail, q


def _reduced(w: FunctionWriter, ty: str, x: str) -> tuple[str, str, str]:
    single = bits_of(ty) == 32
    p1, p2, p3 = _PIO2_F32 if single else _PIO2_F64
    n, q = round_to_int(w, ty, x, _TWO_OVER_PI)
    r = w.fma(ty, n, const(ty, -p1), x)
    # The first difference is exact; from here on keep what rounding loses in `tail`, which may be
    # more than r where that is all but zero. A step may be more than r, too, but then the last bit
    # of r is one of the step's, so that nothing of the sum is lost either.
    if single:
        step, step_low = two_product(w, ty, n, const(ty, -p2))
        r, tail = quick_two_sum(w, ty, r, step)
        tail = w.op("fadd", ty, tail, step_low)
    else:
        step = w.op("fmul", ty, n, const(ty, -p2))  # exact: the part is short
        r, tail = quick_two_sum(w, ty, r, step)
    tail = w.fma(ty, n, const(ty, -p3), tail)
    if not single:  # the tail may be several of r's last bits, which is too much for `_kernels`
        r, tail = quick_two_sum(w, ty, r, tail)
    return _slow_lanes(w, ty, x, _LIMIT_F32 if single else _LIMIT_F64, r, tail, q)


def _kernels(w: FunctionWriter, ty: str, r: str, tail: str) -> tuple[str, str]:
    """sin and cos of r + tail, |r| <= pi/4."""
    single = bits_of(ty) == 32
    z = w.op("fmul", ty, r, r)
    half_z = w.op("fmul", ty, z, const(ty, 0.5))
    one = const(ty, 1.0)
    s = horner(w, ty, z, _SIN_F32 if single else _SIN_F64)
    cube = w.op("fmul", ty, z, r)
    leading = w.op("fsub", ty, one, half_z)
    sine_rest = w.fma(ty, s, cube, w.op("fmul", ty, tail, leading))
    sine = w.op("fadd", ty, r, sine_rest)
    c = horner(w, ty, z, _COS_F32 if single else _COS_F64)
    lost = w.op("fsub", ty, w.op("fsub", ty, one, leading), half_z)
    rest = w.fma(ty, w.op("fmul", ty, z, z), c, w.op("fsub", ty, lost, w.op("fmul", ty, r, tail)))
    return sine, w.op("fadd", ty, leading, rest)


def _sine_like(w: FunctionWriter, ty: str, x: str, quarter: int) -> str:
    r, tail, q = _reduce(w, ty, x)
    sine, cosine = _kernels(w, ty, r, tail)
    if quarter:
        q = iop(w, ty, "add", q, quarter)
    odd = w.cmp("ne", int_of(ty), iop(w, ty, "and", q, 1), const(int_of(ty), 0))
    value = w.select(odd, ty, cosine, sine)
    sign = iop(w, ty, "shl", iop(w, ty, "and", q, 2), bits_of(ty) - 2)
    return from_bits(w, ty, iop(w, ty, "xor", bits(w, ty, value), sign))


def _needs_double(w: FunctionWriter, ty: str) -> bool:
    """The f32 reduction relies on fused products; without them f64 has the bits to spare."""
    return bits_of(ty) == 32 and not w.target.has_fma


def sin(w: FunctionWriter, ty: str, x: str) -> str:
    if _needs_double(w, ty):
        return through_double(sin)(w, ty, x)
    result = _sine_like(w, ty, x, 0)
    return w.select(fcmp(w, ty, "oeq", x, 0.0), ty, x, result)  # keeps -0


def cos(w: FunctionWriter, ty: str, x: str) -> str:
    if _needs_double(w, ty):
        return through_double(cos)(w, ty, x)
    return _sine_like(w, ty, x, 1)


def tan(w: FunctionWriter, ty: str, x: str) -> str:
    r, tail, q = _reduce(w, ty, x)
    sine, cosine = _kernels(w, ty, r, tail)
    odd = w.cmp("ne", int_of(ty), iop(w, ty, "and", q, 1), const(int_of(ty), 0))
    numerator = w.select(odd, ty, w.fneg(ty, cosine), sine)
    result = w.op("fdiv", ty, numerator, w.select(odd, ty, sine, cosine))
    return w.select(fcmp(w, ty, "oeq", x, 0.0), ty, x, result)
