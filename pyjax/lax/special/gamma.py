"""lgamma, digamma, polygamma and the Hurwitz zeta function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.lax.arithmetic import abs as abs_
from pyjax.lax.arithmetic import add, div, floor, log, mul, neg, pow, reciprocal, rem, square, sub
from pyjax.lax.bitwise import bitwise_and, bitwise_or
from pyjax.lax.common import FLOATING, shape_of
from pyjax.lax.compare import eq, full_value, le, lt, ne, select
from pyjax.lax.control_flow.while_loop import while_loop
from pyjax.lax.convert import convert_element_type
from pyjax.lax.elementwise import cos, exp, is_finite, sin
from pyjax.lax.nary import define_nary, define_unary
from pyjax.lax.reduce import reduce_or
from pyjax.lax.special.common import alike_operands, const, horner, lower_in_float64, slope_of
from xla_backend.hlo.special_function_tables import LANCZOS, LANCZOS_FIRST, LANCZOS_G

# log gamma(2 + z) = (1 - Euler's constant) z + the sum over k of (-1)^k (zeta(k) - 1) / k z^k
# (Abramowitz and Stegun 6.1.33), here for k = 19 down to 1: enough for |z| < 1/4.
_AT_TWO = (
    -1.0043224823968099e-07,
    2.1207184805554665e-07,
    -4.492469198764566e-07,
    9.55141213040742e-07,
    -2.039215753801366e-06,
    4.374866789907488e-06,
    -9.439488275268397e-06,
    2.050721277567069e-05,
    -4.492623673813314e-05,
    9.945751278180853e-05,
    -0.00022315475845357939,
    0.0005096695247430425,
    -0.001192753911703261,
    0.0028905103307415234,
    -0.007385551028673986,
    0.020580808427784546,
    -0.0673523010531981,
    0.3224670334241132,
    1 - 0.57721566490153286,
)


def _lanczos_quotient() -> tuple[list[float], list[float]]:
    """Lanczos' sum over (x - 1 + i) as a quotient of polynomials in x, highest powers first: all
    coefficients are positive, so that no digits cancel for x > 0."""
    # Lowest powers first; plain lists, as NumPy's polynomials are nine modules to load.
    above, below = [LANCZOS_FIRST], [1.0]
    for i, c in enumerate(LANCZOS):
        above = [a + c * b for a, b in zip(_times(above, i), [*below, 0.0])]
        below = _times(below, i)
    return above[::-1], below[::-1]


def _times(polynomial: list[float], root: float) -> list[float]:
    """The polynomial in x times (x + root)."""
    return [root * a + b for a, b in zip([*polynomial, 0.0], [0.0, *polynomial])]


_LANCZOS_ABOVE, _LANCZOS_BELOW = _lanczos_quotient()
# sin(pi d) / (pi d) in d**2, for d up to 1/2.
_SINE = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(11, -1, -1)]


def _is_integer(x: Array) -> Array:
    return eq(x, floor(x))


def _past_integer(x: Array) -> Array:
    """x less the nearest integer, exactly: sin(pi x) and cot(pi x) up to sign need no more.

    (x - floor(x) would be 1 for a tiny negative x, and lose all its digits.)
    """
    return sub(x, floor(add(x, const(x, 0.5))))


# -- lgamma ----------------------------------------------------------------------------------------


def lgamma_beside_two(z: Array) -> Array:
    """log gamma(2 + z) for |z| < 1/4."""
    return mul(z, horner(z, _AT_TWO))


def lgamma_float64(x: Array) -> Array:
    """log |gamma(x)| of a float64 array."""
    reflects = lt(x, const(x, 0.5))
    y = select(reflects, sub(const(x, 1.0), x), x)
    # Where its powers overflow, the quotient is 1.
    few = select(lt(y, const(y, 1e30)), y, full_value(y, 1e30))
    total = div(horner(few, _LANCZOS_ABOVE), horner(few, _LANCZOS_BELOW))
    # gamma(x) gamma(1 - x) = pi / sin(pi x)
    distance = abs_(_past_integer(x))
    sine = mul(distance, horner(mul(distance, distance), _SINE))
    total = select(reflects, mul(total, sine), total)
    # Next to 0 only that counts, and products would be subnormal.
    tiny = bitwise_and(reflects, lt(distance, const(x, 1e-290)))
    total = select(tiny, distance, total)
    # Beside the zeros at 1 and 2 the terms cancel: there are series, of which one needs log(x).
    at_two = lt(const(x, 1.5), x)
    z = sub(x, select(at_two, full_value(x, 2.0), full_value(x, 1.0)))
    near = lt(abs_(z), const(x, 0.25))
    t = add(y, const(x, LANCZOS_G - 0.5))
    log_t = log(select(near, x, t))
    # (y - 1/2) log t - t in an order that does not overflow early. (y - 1/2 may be 0; where log(t)
    # is below 2, this is not used.)
    main = mul(sub(sub(y, const(x, 0.5)), div(t, log_t)), log_t)
    main = add(main, const(x, 0.5 * math.log(2 * math.pi)))
    value = add(select(tiny, full_value(x, 0.0), main), log(total))
    result = select(reflects, neg(value), value)
    z = select(near, z, full_value(x, 0.0))
    series = lgamma_beside_two(z)
    result = select(near, select(at_two, series, sub(series, log_t)), result)
    pole = bitwise_and(le(x, const(x, 0.0)), _is_integer(x))
    result = select(pole, full_value(x, np.inf), result)
    result = select(is_finite(x), result, full_value(x, np.inf))
    return select(eq(x, x), result, x)


lgamma_p: Primitive = define_unary(
    "lgamma",
    None,
    FLOATING,
    lambda g, ans, x: mul(g, digamma(x)),
    lowering=lower_in_float64(lgamma_float64),
)


def lgamma(x: ArrayLike) -> Array:
    """log |gamma(x)|; inf at 0, at negative integers and at infinities.

    >>> lax.lgamma(jnp.array([1.0, 2.0])).round(3) == 0
    Array([ True,  True], dtype=bool)
    """
    return lgamma_p.bind1(x)


# Of the series of log gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2), in 1 / x**2 (Abramowitz and
# Stegun 6.1.41), from the highest power down: enough for x >= 8.
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def stirling_error(x: Array) -> Array:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2) for x >= 8."""
    return div(horner(reciprocal(square(x)), _STIRLING), x)


# -- digamma ---------------------------------------------------------------------------------------

# Bernoulli numbers B2 .. B16 over 2 k: the asymptotic series of digamma (Abramowitz and Stegun
# 6.3.18).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_DIGAMMA_TERMS = tuple(b / (2 * (k + 1)) for k, b in enumerate(_BERNOULLI))
_SHIFT = 10


def digamma_float64(x: Array) -> Array:
    """Derivative of lgamma for a float64 array."""
    reflects = lt(x, const(x, 0.5))
    y = select(reflects, sub(const(x, 1.0), x), x)
    recurrence: Any = full_value(x, 0.0)
    small = lt(y, const(x, float(_SHIFT)))
    for i in range(_SHIFT):
        recurrence = add(recurrence, reciprocal(add(y, const(x, float(i)))))
    z = select(small, add(y, const(x, float(_SHIFT))), y)
    inverse_square = reciprocal(square(z))
    tail = mul(inverse_square, horner(inverse_square, _DIGAMMA_TERMS[::-1]))
    value = sub(sub(log(z), div(const(x, 0.5), z)), tail)
    value = select(small, sub(value, recurrence), value)
    # psi(1 - x) - psi(x) = pi cot(pi x), which has period 1.
    angle = mul(const(x, math.pi), _past_integer(x))
    cotangent = div(cos(angle), sin(angle))
    result = select(reflects, sub(value, mul(const(x, math.pi), cotangent)), value)
    pole = bitwise_and(le(x, const(x, 0.0)), _is_integer(x))
    result = select(pole, full_value(x, np.nan), result)
    return select(eq(x, const(x, np.inf)), x, result)


digamma_p: Primitive = define_unary(
    "digamma",
    None,
    FLOATING,
    lambda g, ans, x: mul(g, polygamma(full_value(x, 1), x)),
    lowering=lower_in_float64(digamma_float64),
)


def digamma(x: ArrayLike) -> Array:
    """The logarithmic derivative of gamma; nan at 0 and negative integers.

    >>> lax.digamma(jnp.array([1.0])).round(3)
    Array([-0.577], dtype=float32)
    """
    return digamma_p.bind1(x)


# -- zeta ------------------------------------------------------------------------------------------

# Bernoulli numbers B2 .. B24 over (2 k)!, for the Euler-Maclaurin sum.
_ZETA_BERNOULLI = (*_BERNOULLI, 43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730)
_ZETA_TERMS = tuple(b / math.factorial(2 * (k + 1)) for k, b in enumerate(_ZETA_BERNOULLI))
_ZETA_DIRECT = 10


def _zeta_sum(x: Array, q: Array) -> Array:
    """sum over k >= 0 of (q + k)**-x, for x > 1 and q > -1: ten terms, then Euler-Maclaurin."""
    minus_x = neg(x)
    total: Any = pow(q, minus_x)
    for k in range(1, _ZETA_DIRECT):
        total = add(total, pow(add(q, const(q, float(k))), minus_x))
    a = add(q, const(q, float(_ZETA_DIRECT)))
    power = pow(a, minus_x)
    total = add(total, div(mul(power, a), sub(x, const(x, 1.0))))
    total = add(total, mul(power, const(x, 0.5)))
    factor = mul(x, div(power, a))
    inverse_square = reciprocal(square(a))
    for k, c in enumerate(_ZETA_TERMS):
        total = add(total, mul(factor, const(x, c)))
        grow = mul(add(x, const(x, 2.0 * k + 1)), add(x, const(x, 2.0 * k + 2)))
        factor = mul(mul(factor, grow), inverse_square)
    # Large x: the first term is all, and the series' factors overflow.
    return select(is_finite(total), total, pow(q, minus_x))


def _zeta_shifted(x: Array, q: Array) -> Array:
    """_zeta_sum for any q. Below -1, where x is whole, with the fraction f of q: the sum from f on,
    and (-1)**x times that from 1 - f on less that from 1 - q on, which are the other terms.
    """
    one = const(q, 1.0)
    below = lt(q, const(q, -1.0))
    fraction = sub(q, floor(q))
    even = eq(rem(x, const(x, 2.0)), const(x, 0.0))
    sign = select(even, full_value(x, 1.0), full_value(x, -1.0))
    anywhere = reduce_or(below, tuple(range(len(shape_of(q)))))
    # One sum for all three, in a loop that ends after the first if no q is below -1.
    rounds = add(mul(convert_element_type(anywhere, np.int32), np.int32(2)), np.int32(1))

    def body(state: Any) -> Any:
        number, total = state
        second, third = eq(number, np.int32(1)), eq(number, np.int32(2))
        start = select(second, sub(one, fraction), select(below, fraction, q))
        start = select(third, sub(one, q), start)
        term = _zeta_sum(x, start)
        later = add(total, mul(select(third, neg(sign), sign), term))
        total = select(eq(number, np.int32(0)), term, select(below, later, total))
        return add(number, np.int32(1)), total

    start = (np.int32(0), full_value(q, 0.0))
    return while_loop(lambda state: lt(state[0], rounds), body, start)[1]


def zeta_float64(x: Array, q: Array) -> Array:
    """sum over k >= 0 of (q + k)**-x, for x > 1."""
    total = _zeta_shifted(x, q)
    pole = bitwise_and(le(q, const(q, 0.0)), _is_integer(q))
    total = select(pole, full_value(q, np.inf), total)
    undefined = bitwise_and(bitwise_and(le(q, const(q, 0.0)), ne(q, floor(q))), ne(x, floor(x)))
    undefined = bitwise_or(undefined, lt(x, const(x, 1.0)))
    undefined = bitwise_or(undefined, bitwise_or(ne(x, x), ne(q, q)))
    total = select(undefined, full_value(q, np.nan), total)
    return select(eq(x, const(x, 1.0)), full_value(q, np.inf), total)


def zeta_slope_float64(x: Array, q: Array) -> Array:
    """The derivative of zeta_float64 by x, for q > 0: that of each term of its sum."""
    minus_x, less_one = neg(x), sub(x, const(x, 1.0))
    first = neg(mul(log(q), pow(q, minus_x)))
    total: Any = first
    for k in range(1, _ZETA_DIRECT):
        base = add(q, const(q, float(k)))
        total = sub(total, mul(log(base), pow(base, minus_x)))
    a = add(q, const(q, float(_ZETA_DIRECT)))
    power, log_a = pow(a, minus_x), log(a)
    integral = div(mul(power, a), less_one)
    total = sub(total, mul(integral, add(log_a, reciprocal(less_one))))
    total = sub(total, mul(mul(power, const(x, 0.5)), log_a))
    # Of the series' factors, x (x + 1) ... a**-x / a**n, by their logarithmic derivatives.
    factor, slope = mul(x, div(power, a)), sub(reciprocal(x), log_a)
    inverse_square = reciprocal(square(a))
    for k, c in enumerate(_ZETA_TERMS):
        total = add(total, mul(mul(factor, slope), const(x, c)))
        low, high = add(x, const(x, 2.0 * k + 1)), add(x, const(x, 2.0 * k + 2))
        factor = mul(mul(factor, mul(low, high)), inverse_square)
        slope = add(slope, add(reciprocal(low), reciprocal(high)))
    # Large x: as in zeta_float64.
    total = select(is_finite(total), total, first)
    total = select(eq(q, const(q, np.inf)), full_value(q, 0.0), total)
    total = select(eq(x, const(x, 1.0)), full_value(q, -np.inf), total)
    undefined = bitwise_or(le(q, const(q, 0.0)), lt(x, const(x, 1.0)))
    undefined = bitwise_or(undefined, bitwise_or(ne(x, x), ne(q, q)))
    return select(undefined, full_value(q, np.nan), total)


zeta_slope_p: Primitive = define_nary(
    "zeta_slope",
    None,
    (FLOATING, FLOATING),
    (
        lambda g, ans, x, q: slope_of(zeta_slope_float64, 0, g, x, q),
        lambda g, ans, x, q: slope_of(zeta_slope_float64, 1, g, x, q),
    ),
    lowering=lower_in_float64(zeta_slope_float64),
)
zeta_p: Primitive = define_nary(
    "zeta",
    None,
    (FLOATING, FLOATING),
    (
        lambda g, ans, x, q: mul(g, zeta_slope_p.bind1(x, q)),
        lambda g, ans, x, q: neg(mul(g, mul(x, zeta(add(x, const(x, 1.0)), q)))),
    ),
    lowering=lower_in_float64(zeta_float64),
)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz zeta function, the sum of (q + k)**-x over k = 0, 1, ...; nan for x < 1, inf at x =
    1.

    >>> lax.zeta(2.0, jnp.array([1.0])).round(2)
    Array([1.64], dtype=float32)
    """
    x, q = alike_operands("zeta", x, q)
    return zeta_p.bind1(x, q)


# -- polygamma -------------------------------------------------------------------------------------


def _polygamma(m: Array, x: Array) -> Array:
    """(-1)**(m + 1) m! zeta(m + 1, x)."""
    order = add(m, const(m, 1.0))
    sign = select(eq(rem(m, const(m, 2.0)), const(m, 0.0)), full_value(m, -1.0), full_value(m, 1.0))
    value = mul(mul(sign, exp(lgamma_float64(order))), zeta_float64(order, x))
    value = select(eq(m, const(m, 0.0)), digamma_float64(x), value)
    bad_order = bitwise_or(lt(m, const(m, 0.0)), ne(m, floor(m)))
    return select(bad_order, full_value(x, np.nan), value)


def _no_order_derivative(*args: Any) -> Any:
    raise new_error(ValueError, "polygamma gradient with respect to m is not supported")


polygamma_p: Primitive = define_nary(
    "polygamma",
    None,
    (FLOATING, FLOATING),
    (
        _no_order_derivative,
        lambda g, ans, m, x: mul(g, polygamma(add(m, const(m, 1.0)), x)),
    ),
    lowering=lower_in_float64(_polygamma),
)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x; nan unless m is a nonnegative integer (of floating
    dtype).

    >>> lax.polygamma(1.0, jnp.array([1.0])).round(2)
    Array([1.64], dtype=float32)
    """
    m, x = alike_operands("polygamma", m, x)
    return polygamma_p.bind1(m, x)
