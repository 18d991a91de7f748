"""Complex arithmetic on pairs of real lanes (real, imaginary), by HLO opcode text.

Components of complex64 are f32: what needs scaling against overflow is computed in f64 there, which
has the range to spare. For complex128 the scaling is explicit. COMPLEX_FUNCTIONS[name](w, ty,
*operands) takes pairs and gives a pair ("real", "imag", "abs" give lanes; "complex" takes lanes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_backend.llvm.math_basics import (
    INF,
    bits,
    fabs,
    fcmp,
    fmt,
    from_bits,
    iop,
    pick,
    two_product,
)
from xla_backend.llvm.math_exp import cosh, exp, expm1, sinh, tanh
from xla_backend.llvm.math_inverse_trig import atan2
from xla_backend.llvm.math_log import log, log1p
from xla_backend.llvm.math_trig import cos, sin, tan
from xla_backend.llvm.types import bits_of, const, mask_of, vector, with_element
from xla_backend.llvm.writer import FunctionWriter

Pair = tuple[str, str]


def _widen(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Runs an emitter of pairs or lanes in f64 when the components are f32."""

    def emitter(w: FunctionWriter, ty: str, *operands: Any) -> Any:
        if bits_of(ty) == 64:
            return fn(w, ty, *operands)
        wide = with_element(ty, "double")

        def up(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(up(v) for v in value)
            return w.cast("fpext", ty, value, wide)

        def down(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(down(v) for v in value)
            return w.cast("fptrunc", wide, value, ty)

        return down(fn(w, wide, *[up(v) for v in operands]))

    return emitter


def add(w: FunctionWriter, ty: str, a: Pair, b: Pair) -> Pair:
    return w.op("fadd", ty, a[0], b[0]), w.op("fadd", ty, a[1], b[1])


def subtract(w: FunctionWriter, ty: str, a: Pair, b: Pair) -> Pair:
    return w.op("fsub", ty, a[0], b[0]), w.op("fsub", ty, a[1], b[1])


def multiply(w: FunctionWriter, ty: str, a: Pair, b: Pair) -> Pair:
    """The textbook product without fusing: a conj(a) stays real and products commute."""
    real = w.op("fsub", ty, w.op("fmul", ty, a[0], b[0]), w.op("fmul", ty, a[1], b[1]))
    imag = w.op("fadd", ty, w.op("fmul", ty, a[0], b[1]), w.op("fmul", ty, a[1], b[0]))
    return real, imag


def _scale_of(w: FunctionWriter, ty: str, a: Pair) -> tuple[str, str]:
    """(2^-k, 2^k) with 2^k the power of two at the larger component, within the normal range."""
    f = fmt(ty)
    larger = w.intrinsic("maxnum", ty, fabs(w, ty, a[0]), fabs(w, ty, a[1]))
    larger = pick(
        w, ty, fcmp(w, ty, "ogt", larger, 2.0 ** (f.bias - 2)), 2.0 ** (f.bias - 2), larger
    )
    larger = pick(
        w, ty, fcmp(w, ty, "olt", larger, 2.0 ** (2 - f.bias)), 2.0 ** (2 - f.bias), larger
    )
    exponent = iop(
        w, ty, "and", bits(w, ty, larger), ((1 << (bits_of(ty) - 1 - f.mantissa)) - 1) << f.mantissa
    )
    power = from_bits(w, ty, exponent)
    return w.op("fdiv", ty, const(ty, 1.0), power), power


@_widen
def divide(w: FunctionWriter, ty: str, a: Pair, b: Pair) -> Pair:
    """a conj(b) / |b|^2 with b scaled to about 1; C99 Annex G for zero and infinite operands."""
    down, _ = _scale_of(w, ty, b)
    down_a, up_a = _scale_of(w, ty, a)
    c, d = w.op("fmul", ty, b[0], down), w.op("fmul", ty, b[1], down)
    x, y = w.op("fmul", ty, a[0], down_a), w.op("fmul", ty, a[1], down_a)
    denominator = w.fma(ty, c, c, w.op("fmul", ty, d, d))

    def cross(p: str, q: str, r: str, s: str) -> str:  # p q + r s with one rounding less
        product, low = two_product(w, ty, p, q)
        return w.op("fadd", ty, w.fma(ty, r, s, product), low)

    def scaled(value: str) -> str:
        quotient = w.op("fdiv", ty, value, denominator)
        # The quotient is at most 4 and up_a at most |a|, so the product overflows with the result
        # only; `down` comes last.
        return w.op("fmul", ty, w.op("fmul", ty, quotient, up_a), down)

    real = scaled(cross(x, c, y, d))
    imag = scaled(cross(y, c, w.fneg(ty, x), d))
    mask = mask_of(ty)
    both_nan = w.op("and", mask, w.cmp("uno", ty, real, real), w.cmp("uno", ty, imag, imag))

    def special() -> list[str]:
        return list(_annex_g_division(w, ty, a, b, real, imag))

    out = w.if_else(
        w.reduce("or", mask, both_nan), [ty, ty], special, lambda: [real, imag], likely=False
    )
    return out[0], out[1]


def _annex_g_division(w: FunctionWriter, ty: str, a: Pair, b: Pair, real: str, imag: str) -> Pair:
    """Recovers infinities and zeros that the plain formula turned into NaN + NaN i."""
    mask = mask_of(ty)

    def either(x: Pair, predicate: str, value: float) -> str:
        return w.op("or", mask, *[fcmp(w, ty, predicate, fabs(w, ty, v), value) for v in x])

    def boxed(x: Pair) -> Pair:  # infinite parts to +-1, finite ones to +-0
        out = [
            w.intrinsic(
                "copysign", ty, pick(w, ty, fcmp(w, ty, "oeq", fabs(w, ty, v), INF), 1.0, 0.0), v
            )
            for v in x
        ]
        return out[0], out[1]

    def times(x: Pair, y: Pair, factor: float) -> Pair:
        k = const(ty, factor)
        re = w.op("fadd", ty, w.op("fmul", ty, x[0], y[0]), w.op("fmul", ty, x[1], y[1]))
        im = w.op("fsub", ty, w.op("fmul", ty, x[1], y[0]), w.op("fmul", ty, x[0], y[1]))
        return w.op("fmul", ty, k, re), w.op("fmul", ty, k, im)

    both_nan = w.op("and", mask, w.cmp("uno", ty, real, real), w.cmp("uno", ty, imag, imag))
    b_zero = w.op("and", mask, *[fcmp(w, ty, "oeq", v, 0.0) for v in b])
    a_number = w.op("or", mask, *[w.cmp("ord", ty, v, v) for v in a])
    a_infinite, b_infinite = either(a, "oeq", INF), either(b, "oeq", INF)
    a_finite = w.op("and", mask, *[fcmp(w, ty, "olt", fabs(w, ty, v), INF) for v in a])
    b_finite = w.op("and", mask, *[fcmp(w, ty, "olt", fabs(w, ty, v), INF) for v in b])
    pole = w.intrinsic("copysign", ty, const(ty, INF), b[0])
    cases = [
        (w.op("and", mask, b_infinite, a_finite), times(a, boxed(b), 0.0)),
        (w.op("and", mask, a_infinite, b_finite), times(boxed(a), b, INF)),
        (
            w.op("and", mask, b_zero, a_number),
            (w.op("fmul", ty, pole, a[0]), w.op("fmul", ty, pole, a[1])),
        ),
    ]
    for condition, (re, im) in cases:
        condition = w.op("and", mask, condition, both_nan)
        real = w.select(condition, ty, re, real)
        imag = w.select(condition, ty, im, imag)
    return real, imag


@_widen
def absolute(w: FunctionWriter, ty: str, a: Pair) -> str:
    """hypot: infinite if either part is, even beside a NaN."""
    down, up = _scale_of(w, ty, a)
    x, y = w.op("fmul", ty, a[0], down), w.op("fmul", ty, a[1], down)
    root = w.intrinsic("sqrt", ty, w.fma(ty, x, x, w.op("fmul", ty, y, y)))
    infinite = w.op("or", mask_of(ty), *[fcmp(w, ty, "oeq", fabs(w, ty, v), INF) for v in a])
    return pick(w, ty, infinite, INF, w.op("fmul", ty, root, up))


def _argument(w: FunctionWriter, ty: str, a: Pair) -> str:
    return atan2(w, ty, a[1], a[0])


def _log_abs(w: FunctionWriter, ty: str, a: Pair) -> str:
    """log|a|; near |a| = 1 from |a|^2 - 1, which does not cancel."""
    down, up = _scale_of(w, ty, a)
    x, y = w.op("fmul", ty, a[0], down), w.op("fmul", ty, a[1], down)
    square = w.fma(ty, x, x, w.op("fmul", ty, y, y))
    exponent = log(w, ty, up)
    far = w.fma(ty, const(ty, 0.5), log(w, ty, square), exponent)
    p, p_low = two_product(w, ty, a[0], a[0])
    q, q_low = two_product(w, ty, a[1], a[1])
    larger, smaller = w.intrinsic("maxnum", ty, p, q), w.intrinsic("minnum", ty, p, q)
    excess = w.op("fadd", ty, w.op("fsub", ty, larger, const(ty, 1.0)), smaller)
    excess = w.op("fadd", ty, excess, w.op("fadd", ty, p_low, q_low))
    near = w.op("fmul", ty, const(ty, 0.5), log1p(w, ty, excess))
    close = fcmp(w, ty, "olt", fabs(w, ty, excess), 0.5)
    infinite = w.op("or", mask_of(ty), *[fcmp(w, ty, "oeq", fabs(w, ty, v), INF) for v in a])
    return pick(w, ty, infinite, INF, w.select(close, ty, near, far))


@_widen
def logarithm(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    return _log_abs(w, ty, a), _argument(w, ty, a)


@_widen
def log_plus_one(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """log(1 + a): |1 + a|^2 - 1 = x (2 + x) + y^2 for small a."""
    one = const(ty, 1.0)
    shifted = (w.op("fadd", ty, a[0], one), a[1])
    excess = w.fma(ty, a[0], w.op("fadd", ty, a[0], const(ty, 2.0)), w.op("fmul", ty, a[1], a[1]))
    near = w.op("fmul", ty, const(ty, 0.5), log1p(w, ty, excess))
    small = w.op(
        "and",
        mask_of(ty),
        fcmp(w, ty, "olt", fabs(w, ty, a[0]), 0.5),
        fcmp(w, ty, "olt", fabs(w, ty, a[1]), 0.5),
    )
    return w.select(small, ty, near, _log_abs(w, ty, shifted)), _argument(w, ty, shifted)


def _zero_if_zero(w: FunctionWriter, ty: str, condition: str, value: str) -> str:
    """value, or the operand's zero where it is zero: keeps 0 * inf from making NaN."""
    return w.select(fcmp(w, ty, "oeq", condition, 0.0), ty, condition, value)


@_widen
def exponential(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """e^x (cos y + i sin y), split in two factors so that e^x may exceed the range alone."""
    half = exp(w, ty, w.op("fmul", ty, a[0], const(ty, 0.5)))
    c, s = cos(w, ty, a[1]), sin(w, ty, a[1])
    direct = exp(w, ty, a[0])
    wild = fcmp(w, ty, "ogt", fabs(w, ty, a[0]), 600.0)

    def times(v: str) -> str:
        twice = w.op("fmul", ty, w.op("fmul", ty, half, v), half)
        return w.select(wild, ty, twice, w.op("fmul", ty, direct, v))

    vanished = fcmp(w, ty, "oeq", a[0], -INF)  # e^-inf is 0 whatever the angle
    real = pick(w, ty, vanished, 0.0, times(c))
    imag = pick(w, ty, vanished, 0.0, _zero_if_zero(w, ty, a[1], times(s)))
    return real, imag


@_widen
def exponential_minus_one(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """expm1(x) cos y - 2 sin(y/2)^2 + i e^x sin y."""
    e = expm1(w, ty, a[0])
    s = sin(w, ty, w.op("fmul", ty, a[1], const(ty, 0.5)))
    square = w.op("fmul", ty, s, s)
    real = w.fma(ty, e, cos(w, ty, a[1]), w.op("fmul", ty, square, const(ty, -2.0)))
    imag = w.op("fmul", ty, exp(w, ty, a[0]), sin(w, ty, a[1]))
    return real, _zero_if_zero(w, ty, a[1], imag)


@_widen
def square_root(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """t = sqrt((|x| + |a|) / 2); the other part is y / (2t). Infinite imaginary parts win."""
    down, up = _scale_of(w, ty, a)
    even = iop(w, ty, "and", iop(w, ty, "lshr", bits(w, ty, up), fmt(ty).mantissa), 1)
    # sqrt(2^k) must be exact: for odd k (biased exponent even) scale by 2^(k+1) instead
    adjust = w.cmp("eq", _int(ty), even, const(_int(ty), 0))
    up = w.select(adjust, ty, w.op("fmul", ty, up, const(ty, 2.0)), up)
    down = w.select(adjust, ty, w.op("fmul", ty, down, const(ty, 0.5)), down)
    x, y = w.op("fmul", ty, a[0], down), w.op("fmul", ty, a[1], down)
    radius = w.intrinsic("sqrt", ty, w.fma(ty, x, x, w.op("fmul", ty, y, y)))
    total = w.op("fadd", ty, radius, fabs(w, ty, x))
    t = w.intrinsic("sqrt", ty, w.op("fmul", ty, total, const(ty, 0.5)))
    zero = w.op("and", mask_of(ty), fcmp(w, ty, "oeq", a[0], 0.0), fcmp(w, ty, "oeq", a[1], 0.0))
    other = w.op("fdiv", ty, fabs(w, ty, y), w.op("fadd", ty, t, t))
    other = pick(w, ty, zero, 0.0, other)
    root_up = w.intrinsic("sqrt", ty, up)
    t, other = w.op("fmul", ty, t, root_up), w.op("fmul", ty, other, root_up)
    left = fcmp(w, ty, "olt", a[0], 0.0)
    real = w.select(left, ty, other, t)
    imag = w.intrinsic("copysign", ty, w.select(left, ty, t, other), a[1])
    # infinities
    y_inf = fcmp(w, ty, "oeq", fabs(w, ty, a[1]), INF)
    x_plus = fcmp(w, ty, "oeq", a[0], INF)
    x_minus = fcmp(w, ty, "oeq", a[0], -INF)
    y_nan = w.cmp("uno", ty, a[1], a[1])
    flat = w.select(y_nan, ty, a[1], w.intrinsic("copysign", ty, const(ty, 0.0), a[1]))
    real = pick(w, ty, x_plus, INF, pick(w, ty, x_minus, fabs(w, ty, flat), real))
    infinite = w.intrinsic("copysign", ty, const(ty, INF), a[1])
    imag = w.select(x_plus, ty, flat, w.select(x_minus, ty, infinite, imag))
    return pick(w, ty, y_inf, INF, real), w.select(y_inf, ty, a[1], imag)


def _int(ty: str) -> str:
    return with_element(ty, f"i{bits_of(ty)}")


@_widen
def reciprocal_square_root(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    one = (const(ty, 1.0), const(ty, 0.0))
    return divide(w, ty, one, square_root(w, ty, a))


@_widen
def cube_root(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """The principal root: e^(log(a) / 3)."""
    third = const(ty, 1.0 / 3.0)
    re, im = logarithm(w, ty, a)
    root = exponential(w, ty, (w.op("fmul", ty, re, third), w.op("fmul", ty, im, third)))
    zero = w.op("and", mask_of(ty), fcmp(w, ty, "oeq", a[0], 0.0), fcmp(w, ty, "oeq", a[1], 0.0))
    return pick(w, ty, zero, 0.0, root[0]), pick(w, ty, zero, 0.0, root[1])


@_widen
def power(w: FunctionWriter, ty: str, a: Pair, b: Pair) -> Pair:
    """e^(b log a); 0 to a power with positive real part is 0, anything to the power 0 is 1."""
    result = exponential(w, ty, multiply(w, ty, b, logarithm(w, ty, a)))
    mask = mask_of(ty)
    a_zero = w.op("and", mask, *[fcmp(w, ty, "oeq", v, 0.0) for v in a])
    b_zero = w.op("and", mask, *[fcmp(w, ty, "oeq", v, 0.0) for v in b])
    gone = w.op("and", mask, a_zero, fcmp(w, ty, "ogt", b[0], 0.0))
    real = pick(w, ty, b_zero, 1.0, pick(w, ty, gone, 0.0, result[0]))
    imag = pick(w, ty, b_zero, 0.0, pick(w, ty, gone, 0.0, result[1]))
    return real, imag


@_widen
def sine(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    real = w.op("fmul", ty, sin(w, ty, a[0]), cosh(w, ty, a[1]))
    imag = w.op("fmul", ty, cos(w, ty, a[0]), sinh(w, ty, a[1]))
    return _zero_if_zero(w, ty, a[0], real), _zero_if_zero(w, ty, a[1], imag)


@_widen
def cosine(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    real = w.op("fmul", ty, cos(w, ty, a[0]), cosh(w, ty, a[1]))
    imag = w.op("fmul", ty, w.fneg(ty, sin(w, ty, a[0])), sinh(w, ty, a[1]))
    zero = w.op("or", mask_of(ty), *[fcmp(w, ty, "oeq", v, 0.0) for v in a])
    return real, pick(w, ty, zero, 0.0, imag)


@_widen
def hyperbolic_tangent(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """With s = sinh x, t = tan y: ((1 + t^2) s cosh x + i t) / (1 + (1 + t^2) s^2)."""
    x = a[0]
    limit = 20.0
    far = fcmp(w, ty, "ogt", fabs(w, ty, x), limit)
    near_x = w.select(far, ty, w.intrinsic("copysign", ty, const(ty, limit), x), x)
    t = tan(w, ty, a[1])
    one = const(ty, 1.0)
    b = w.fma(ty, t, t, one)
    s = sinh(w, ty, near_x)
    ch = cosh(w, ty, near_x)
    denominator = w.fma(ty, w.op("fmul", ty, b, s), s, one)
    real = w.op("fdiv", ty, w.op("fmul", ty, w.op("fmul", ty, b, s), ch), denominator)
    imag = w.op("fdiv", ty, t, denominator)
    # Far out: tanh = +-1 + 4 i sin y cos y e^(-2|x|)
    e = exp(w, ty, w.op("fmul", ty, fabs(w, ty, x), const(ty, -2.0)))
    product = w.op("fmul", ty, sin(w, ty, a[1]), cos(w, ty, a[1]))
    tail = w.op("fmul", ty, w.op("fmul", ty, product, const(ty, 4.0)), e)
    steady = w.intrinsic("copysign", ty, one, x)
    real = w.select(far, ty, steady, real)
    imag = w.select(far, ty, tail, imag)
    flat = fcmp(w, ty, "oeq", a[1], 0.0)
    return w.select(flat, ty, tanh(w, ty, x), real), w.select(flat, ty, a[1], imag)


@_widen
def tangent(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """tan z = -i tanh(i z)."""
    re, im = hyperbolic_tangent(w, ty, (w.fneg(ty, a[1]), a[0]))
    return im, w.fneg(ty, re)


@_widen
def logistic(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """1 / (1 + e^-a), or e^a / (1 + e^a) on the left, where e^-a overflows."""
    left = fcmp(w, ty, "olt", a[0], 0.0)
    x, y = (w.select(left, ty, v, w.fneg(ty, v)) for v in a)
    e = exponential(w, ty, (x, y))
    one = const(ty, 1.0)
    above = w.select(left, ty, e[0], one), w.select(left, ty, e[1], const(ty, 0.0))
    return divide(w, ty, above, (w.op("fadd", ty, e[0], one), e[1]))


@_widen
def sign(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    """a / |a|; 0 for 0."""
    down, _ = _scale_of(w, ty, a)
    x, y = w.op("fmul", ty, a[0], down), w.op("fmul", ty, a[1], down)
    radius = w.intrinsic("sqrt", ty, w.fma(ty, x, x, w.op("fmul", ty, y, y)))
    zero = w.op("and", mask_of(ty), fcmp(w, ty, "oeq", a[0], 0.0), fcmp(w, ty, "oeq", a[1], 0.0))
    radius = pick(w, ty, zero, 1.0, radius)
    return w.op("fdiv", ty, x, radius), w.op("fdiv", ty, y, radius)


def negate(w: FunctionWriter, ty: str, a: Pair) -> Pair:
    return w.fneg(ty, a[0]), w.fneg(ty, a[1])


COMPLEX_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "power": power,
    "abs": absolute,
    "negate": negate,
    "sign": sign,
    "real": lambda w, ty, a: a[0],
    "imag": lambda w, ty, a: a[1],
    "exponential": exponential,
    "exponential-minus-one": exponential_minus_one,
    "log": logarithm,
    "log-plus-one": log_plus_one,
    "logistic": logistic,
    "sqrt": square_root,
    "rsqrt": reciprocal_square_root,
    "cbrt": cube_root,
    "sine": sine,
    "cosine": cosine,
    "tan": tangent,
    "tanh": hyperbolic_tangent,
}


def load_pairs(
    w: FunctionWriter, elem: str, n: int, ptr: str, index: str | int, mask: str | None
) -> Pair:
    """n interleaved elements from `index` on, as (reals, imaginaries)."""
    address = w.gep(f"{{ {elem}, {elem} }}", ptr, index)
    if n == 1:
        if mask is not None:
            loaded = w.if_else(
                mask,
                [elem, elem],
                lambda: [w.load(elem, address), w.load(elem, w.gep(elem, address, 1))],
                lambda: [const(elem, 0.0), const(elem, 0.0)],
            )
            return loaded[0], loaded[1]
        return w.load(elem, address), w.load(elem, w.gep(elem, address, 1))
    both = vector(elem, 2 * n)
    if mask is None:
        raw = w.load(both, address)
    else:
        raw = w.masked_load(both, address, _doubled(w, n, mask))
    return (
        w.shuffle(both, raw, "poison", list(range(0, 2 * n, 2))),
        w.shuffle(both, raw, "poison", list(range(1, 2 * n, 2))),
    )


def store_pairs(
    w: FunctionWriter,
    elem: str,
    n: int,
    value: Pair,
    ptr: str,
    index: str | int,
    mask: str | None,
) -> None:
    address = w.gep(f"{{ {elem}, {elem} }}", ptr, index)
    if n == 1:
        if mask is not None:
            with w.if_(mask):
                w.store(elem, value[0], address)
                w.store(elem, value[1], w.gep(elem, address, 1))
            return
        w.store(elem, value[0], address)
        w.store(elem, value[1], w.gep(elem, address, 1))
        return
    ty, both = vector(elem, n), vector(elem, 2 * n)
    order = [k // 2 + (k % 2) * n for k in range(2 * n)]
    raw = w.shuffle(ty, value[0], value[1], order)
    if mask is None:
        w.store(both, raw, address)
    else:
        w.masked_store(both, raw, address, _doubled(w, n, mask))


def _doubled(w: FunctionWriter, n: int, mask: str) -> str:
    return w.shuffle(f"<{n} x i1>", mask, "poison", [k // 2 for k in range(2 * n)])
