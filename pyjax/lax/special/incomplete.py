"""Incomplete gamma and beta functions, and derivatives with respect to their parameters.

Series and continued fractions run in a while loop over the whole array until every element has
converged; see Numerical Recipes (3rd edition) 6.2 and 6.4 for the expansions and Lentz's method.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.lax.arithmetic import abs as abs_
from pyjax.lax.arithmetic import add, div, log, max, min, mul, neg, pow, reciprocal, sub
from pyjax.lax.bitwise import bitwise_and, bitwise_or
from pyjax.lax.common import FLOATING, shape_of
from pyjax.lax.compare import eq, full_value, ge, gt, le, lt, ne, select
from pyjax.lax.control_flow.while_loop import while_loop
from pyjax.lax.elementwise import exp, log1p, sqrt
from pyjax.lax.nary import define_nary
from pyjax.lax.reduce import reduce_or
from pyjax.lax.special.common import alike_operands, const, horner, lower_in_float64, slope_of
from pyjax.lax.special.error_functions import erfc_by_polynomial
from pyjax.lax.special.gamma import digamma, lgamma, stirling_error

_EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-300
_MAX_STEPS = 10000.0


def _any(mask: Array) -> Array:
    return reduce_or(mask, tuple(range(len(shape_of(mask)))))


def _loop(step: Any, active: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    """Run `step(n, state) -> (state, converged)` where active, until nothing is."""

    def running(carry: Any) -> Array:
        n, active, _ = carry
        return bitwise_and(_any(active), lt(n, const(n, _MAX_STEPS)))

    def body(carry: Any) -> Any:
        n, active, state = carry
        n = add(n, const(n, 1.0))
        new, converged = step(n, state)
        new = tuple(select(active, a, b) for a, b in zip(new, state))
        still = bitwise_and(active, eq(converged, full_value(converged, False)))
        return n, still, new

    n = np.asarray(0.0, np.float64)
    return while_loop(running, body, (n, active, state))[2]


# -- the two expansions of the incomplete gamma function -------------------------------------------


def _series(a: Array, x: Array, active: Array) -> tuple[Array, Array]:
    """S = sum x**n / ((a+1) ... (a+n)) and dS/da; P = x**a e**-x / gamma(a+1) * S."""

    def step(n: Array, state: tuple[Array, ...]) -> Any:
        term, d_term, total, d_total = state
        denominator = add(a, n)
        ratio = div(x, denominator)
        d_term = sub(mul(d_term, ratio), div(mul(term, ratio), denominator))
        term = mul(term, ratio)
        total, d_total = add(total, term), add(d_total, d_term)
        done = le(abs_(term), mul(total, const(total, _EPS)))
        d_done = le(abs_(d_term), mul(abs_(d_total), const(total, _EPS)))
        return (term, d_term, total, d_total), bitwise_and(done, d_done)

    one, zero = full_value(a, 1.0), full_value(a, 0.0)
    _, _, total, d_total = _loop(step, active, (one, zero, one, zero))
    return total, d_total


def _series_value(a: Array, x: Array, active: Array) -> Array:
    """S alone: the derivative is half of the work, and converges later."""

    def step(n: Array, state: tuple[Array, ...]) -> Any:
        term, total = state
        term = mul(term, div(x, add(a, n)))
        total = add(total, term)
        return (term, total), le(abs_(term), mul(total, const(total, _EPS)))

    one = full_value(a, 1.0)
    return _loop(step, active, (one, one))[1]


def _fraction_value(a: Array, x: Array, active: Array) -> Array:
    """h alone."""
    one = const(a, 1.0)

    def step(n: Array, state: tuple[Array, ...]) -> Any:
        b, c, d, h = state
        numerator = mul(sub(a, n), n)
        b = add(b, const(b, 2.0))
        d = reciprocal(add(mul(numerator, d), b))
        c = add(b, div(numerator, c))
        change = mul(c, d)
        return (b, c, d, mul(h, change)), le(abs_(sub(change, one)), const(h, _EPS))

    b = add(sub(x, a), one)
    d = reciprocal(b)
    return _loop(step, active, (b, full_value(a, 1 / _TINY), d, d))[3]


def _fraction(a: Array, x: Array, active: Array) -> tuple[Array, Array]:
    """h and dh/da of Q = x**a e**-x / gamma(a) * h, by Lentz's method carried along with its
    derivative.
    """
    one = const(a, 1.0)

    def step(n: Array, state: tuple[Array, ...]) -> Any:
        b, c, dc, d, dd, h, dh = state
        # Numerator n (a - n), denominator b + 2; both depend on a.
        numerator = mul(sub(a, n), n)
        b = add(b, const(b, 2.0))
        d_denominator = sub(add(mul(full_value(a, 1.0), mul(d, n)), mul(numerator, dd)), one)
        denominator = add(mul(numerator, d), b)
        new_d = reciprocal(denominator)
        new_dd = neg(mul(d_denominator, mul(new_d, new_d)))
        quotient = div(numerator, c)
        new_dc = sub(div(sub(mul(full_value(a, 1.0), n), mul(quotient, dc)), c), one)
        new_c = add(b, quotient)
        change = mul(new_c, new_d)
        d_change = add(mul(new_dc, new_d), mul(new_c, new_dd))
        new_h, new_dh = mul(h, change), add(mul(dh, change), mul(h, d_change))
        settled = le(abs_(sub(change, one)), const(h, _EPS))
        moved = abs_(sub(new_dh, dh))
        d_settled = le(moved, mul(abs_(new_dh), const(h, 4 * _EPS)))
        return (b, new_c, new_dc, new_d, new_dd, new_h, new_dh), bitwise_and(settled, d_settled)

    b = add(sub(x, a), one)
    d = reciprocal(b)
    dd = mul(d, d)  # b decreases with a
    zero = full_value(a, 0.0)
    state = (b, full_value(a, 1 / _TINY), zero, d, dd, d, dd)
    *_, h, dh = _loop(step, active, state)
    return h, dh


def _regions(a: Array, x: Array) -> tuple[Array, Array, Array, Array, Array]:
    """nan elements, x == 0, x == inf, elements for the series and for the fraction."""
    zero = const(x, 0.0)
    invalid = bitwise_or(bitwise_or(ne(a, a), ne(x, x)), bitwise_or(le(a, zero), lt(x, zero)))
    at_zero, at_infinity = eq(x, zero), eq(x, const(x, np.inf))
    special = bitwise_or(invalid, bitwise_or(at_zero, at_infinity))
    plain = eq(special, full_value(special, False))
    large = gt(x, add(a, const(a, 1.0)))
    by_series = bitwise_and(plain, eq(large, full_value(large, False)))
    return invalid, at_zero, at_infinity, by_series, bitwise_and(plain, large)


def _safe(mask: Array, v: Array, other: float) -> Array:
    """v where it will be used, a harmless number elsewhere."""
    return select(mask, v, full_value(v, other))


def _deviance(a: Array, x: Array) -> Array:
    """(x - a) / a - log(x / a), without cancellation near a."""
    mu = div(sub(x, a), a)
    near = lt(abs_(mu), const(a, 0.1))
    close = select(near, mu, full_value(a, 0.0))
    return select(
        near,
        mul(mul(close, close), horner(close, _HALF_SQUARE)),
        sub(mu, log(div(x, a))),
    )


def _density_of_large_shape(a: Array, x: Array) -> Array:
    """x**a e**-x / gamma(a) for a >= 8: Stirling's formula, with the powers taken together."""
    exponent = add(mul(a, _deviance(a, x)), stirling_error(a))
    return mul(sqrt(mul(a, const(a, 0.5 / math.pi))), exp(neg(exponent)))


def _density_of_small_shape(a: Array, x: Array) -> Array:
    """The same for a < 8: the product, whose factors do not overflow."""
    power = pow(min(x, full_value(x, 800.0)), a)
    decay = exp(mul(x, const(x, -0.5)))  # twice: it is subnormal later
    value = mul(mul(mul(power, decay), decay), a)
    return mul(value, exp(neg(lgamma(add(a, const(a, 1.0))))))


def _shape_density(a: Array, x: Array) -> Array:
    """x**a e**-x / gamma(a)."""
    large = ge(a, const(a, 8.0))
    by_stirling = _density_of_large_shape(_safe(large, a, 8.0), x)
    by_product = _density_of_small_shape(select(large, full_value(a, 1.0), a), x)
    return select(large, by_stirling, by_product)


# Temme's uniform expansion (1979), DLMF 8.12: coefficients of eta**n, per power of 1 / a.
_TEMME = (
    (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515, -571 / 261273600),
    (-1 / 540, -1 / 288, 1 / 378, -77 / 77760),
    (25 / 6048, -139 / 51840),
)
# From this shape on it is exact to rounding; the steps of the expansions grow with sqrt(a).
_LARGE_SHAPE = 1e5
# mu - log1p(mu) = mu**2 / 2 - mu**3 / 3 + ..., up to mu**17.
_HALF_SQUARE = tuple((-1) ** k / k for k in range(17, 1, -1))


def _gamma_of_large_shape(a: Array, x: Array, upper: bool) -> Array:
    """P or Q for finite a >= 1e5 and x > 0: the normal distribution and a correction."""
    half = _deviance(a, x)
    size = sqrt(mul(half, const(a, 2.0)))
    eta = select(lt(x, a), neg(size), size)
    # Beyond 1 both terms are 0 or 1 whatever the series gives, if only it is finite.
    inner = min(max(eta, full_value(a, -1.0)), full_value(a, 1.0))
    series: Any = const(a, 0.0)
    for coefficients in _TEMME[::-1]:
        series = add(div(series, a), horner(inner, coefficients[::-1]))
    density = div(exp(neg(mul(a, half))), sqrt(mul(a, const(a, 2 * math.pi))))
    correction = mul(density, series)
    z = mul(eta, sqrt(mul(a, const(a, 0.5))))
    if upper:
        return add(mul(erfc_by_polynomial(z), const(a, 0.5)), correction)
    return sub(mul(erfc_by_polynomial(neg(z)), const(a, 0.5)), correction)


def _gamma_pair(a: Array, x: Array, upper: bool) -> Array:
    # Shape 0 puts all mass at 0.
    point_mass = bitwise_and(eq(a, const(a, 0.0)), gt(x, const(x, 0.0)))
    invalid, at_zero, at_infinity, by_series, by_fraction = _regions(a, x)
    plain = bitwise_or(by_series, by_fraction)
    large = bitwise_and(plain, ge(a, const(a, _LARGE_SHAPE)))
    large = bitwise_and(large, lt(a, const(a, np.inf)))
    small = eq(large, full_value(large, False))
    by_large = _gamma_of_large_shape(_safe(large, a, 1e6), _safe(large, x, 1e6), upper)
    by_series, by_fraction = bitwise_and(by_series, small), bitwise_and(by_fraction, small)
    plain = bitwise_and(plain, small)
    a, x = _safe(plain, a, 1.0), _safe(plain, x, 1.0)
    density = _shape_density(a, x)
    one = full_value(a, 1.0)
    total = _series_value(a, x, by_series)
    h = _fraction_value(_safe(by_fraction, a, 1.0), _safe(by_fraction, x, 3.0), by_fraction)
    p, q = div(mul(density, total), a), mul(density, h)
    if upper:
        # Where P rounds to more than one, nothing is left.
        value = select(by_series, max(sub(one, p), full_value(a, 0.0)), q)
        ends = (1.0, 0.0)
    else:
        value = select(by_series, p, sub(one, q))
        ends = (0.0, 1.0)
    value = select(large, by_large, value)
    value = select(at_zero, full_value(a, ends[0]), value)
    # An infinite shape puts it at infinity.
    value = select(eq(a, const(a, np.inf)), full_value(a, ends[0]), value)
    value = select(at_infinity, full_value(a, ends[1]), value)
    value = select(invalid, full_value(a, np.nan), value)
    return select(point_mass, full_value(a, ends[1]), value)


def _parameter_slope(a: Array, x: Array, per_density: bool) -> Array:
    """dP/da, or divided by -dP/dx: how a gamma sample moves with its shape parameter."""
    invalid, at_zero, at_infinity, by_series, by_fraction = _regions(a, x)
    plain = bitwise_or(by_series, by_fraction)
    a, x = _safe(plain, a, 1.0), _safe(plain, x, 1.0)
    log_x = log(x)
    total, d_total = _series(a, x, by_series)
    h, dh = _fraction(_safe(by_fraction, a, 1.0), _safe(by_fraction, x, 3.0), by_fraction)
    psi = digamma(a)  # with its derivative, for second ones
    low = add(d_total, mul(total, sub(sub(log_x, psi), reciprocal(a))))
    low = div(low, a)
    high = neg(add(dh, mul(h, sub(log_x, psi))))
    value = select(by_series, low, high)
    scale = neg(x) if per_density else _shape_density(a, x)
    value = mul(value, scale)
    value = select(bitwise_or(at_zero, at_infinity), full_value(a, 0.0), value)
    return select(invalid, full_value(a, np.nan), value)


def _cumulative_slope(a: Array, x: Array) -> Array:
    return _parameter_slope(a, x, False)


def _sample_slope(a: Array, x: Array) -> Array:
    return _parameter_slope(a, x, True)


# -- primitives ------------------------------------------------------------------------------------


def _density(a: Array, x: Array) -> Array:
    """dP/dx = x**(a-1) e**-x / gamma(a)."""
    density = exp(sub(add(neg(x), mul(sub(a, full_value(a, 1)), log(x))), lgamma(a)))
    return select(eq(x, const(x, np.inf)), full_value(x, 0), density)


igamma_grad_a_p: Primitive = define_nary(
    "igamma_grad_a",
    None,
    (FLOATING, FLOATING),
    (
        lambda g, ans, a, x: slope_of(_cumulative_slope, 0, g, a, x),
        lambda g, ans, a, x: mul(g, mul(_density(a, x), sub(log(x), digamma(a)))),
    ),
    lowering=lower_in_float64(_cumulative_slope),
)
random_gamma_grad_p: Primitive = define_nary(
    "random_gamma_grad",
    None,
    (FLOATING, FLOATING),
    (
        lambda g, ans, a, x: slope_of(_sample_slope, 0, g, a, x),
        # The slope is -P_a / p, and p_x / p = (a - 1) / x - 1.
        lambda g, ans, a, x: neg(
            mul(
                g,
                add(
                    sub(log(x), digamma(a)),
                    mul(ans, sub(div(sub(a, full_value(a, 1)), x), full_value(x, 1))),
                ),
            )
        ),
    ),
    lowering=lower_in_float64(_sample_slope),
)
igamma_p: Primitive = define_nary(
    "igamma",
    None,
    (FLOATING, FLOATING),
    (
        lambda g, ans, a, x: mul(g, igamma_grad_a(a, x)),
        lambda g, ans, a, x: mul(g, _density(a, x)),
    ),
    lowering=lower_in_float64(lambda a, x: _gamma_pair(a, x, False)),
)
igammac_p: Primitive = define_nary(
    "igammac",
    None,
    (FLOATING, FLOATING),
    (
        lambda g, ans, a, x: neg(mul(g, igamma_grad_a(a, x))),
        lambda g, ans, a, x: neg(mul(g, _density(a, x))),
    ),
    lowering=lower_in_float64(lambda a, x: _gamma_pair(a, x, True)),
)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized lower incomplete gamma function P(a, x); nan for a <= 0 or x < 0.

    >>> lax.igamma(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    a, x = alike_operands("igamma", a, x)
    return igamma_p.bind1(a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    >>> lax.igammac(1.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    a, x = alike_operands("igammac", a, x)
    return igammac_p.bind1(a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of igamma(a, x) with respect to a.

    >>> lax.igamma_grad_a(jnp.ones(1), jnp.ones(1)).round(4)
    Array([-0.4317], dtype=float32)
    """
    a, x = alike_operands("igamma_grad_a", a, x)
    return igamma_grad_a_p.bind1(a, x)


def random_gamma_grad(*args: ArrayLike) -> Array:
    """(a, sample): derivative of a gamma(a) sample with respect to a, at fixed probability.

    >>> lax.random_gamma_grad(jnp.ones(1), jnp.ones(1)).round(3)
    Array([1.174], dtype=float32)
    """
    a, x = alike_operands("random_gamma_grad", *args)
    return random_gamma_grad_p.bind1(a, x)


# -- incomplete beta -------------------------------------------------------------------------------


def _beta_fraction(a: Array, b: Array, x: Array, active: Array) -> Array:
    """The continued fraction of the incomplete beta function, two steps at a time, by Lentz's
    method.
    """
    one = const(a, 1.0)
    sum_ab, a_up, a_down = add(a, b), add(a, one), sub(a, one)

    def guarded(v: Array) -> Array:
        return select(lt(abs_(v), const(v, _TINY)), full_value(v, _TINY), v)

    def advance(
        coefficient: Array, c: Array, d: Array, h: Array
    ) -> tuple[Array, Array, Array, Array]:
        d = reciprocal(guarded(add(one, mul(coefficient, d))))
        c = guarded(add(one, div(coefficient, c)))
        change = mul(c, d)
        return c, d, mul(h, change), change

    def step(n: Array, state: tuple[Array, ...]) -> Any:
        c, d, h = state
        twice = add(n, n)
        even = div(mul(mul(n, sub(b, n)), x), mul(add(a_down, twice), add(a, twice)))
        c, d, h, _ = advance(even, c, d, h)
        odd = div(mul(mul(add(a, n), add(sum_ab, n)), x), mul(add(a, twice), add(a_up, twice)))
        c, d, h, change = advance(neg(odd), c, d, h)
        return (c, d, h), le(abs_(sub(change, one)), const(h, 2 * _EPS))

    d = reciprocal(guarded(sub(one, div(mul(sum_ab, x), a_up))))
    return _loop(step, active, (full_value(a, 1.0), d, d))[2]


def _betainc(a: Array, b: Array, x: Array) -> Array:
    zero, one = const(x, 0.0), const(x, 1.0)
    invalid = bitwise_or(le(a, zero), le(b, zero))
    invalid = bitwise_or(invalid, bitwise_or(lt(x, zero), gt(x, one)))
    invalid = bitwise_or(invalid, bitwise_or(ne(a, a), bitwise_or(ne(b, b), ne(x, x))))
    edge = bitwise_or(eq(x, zero), eq(x, one))
    inside = eq(bitwise_or(invalid, edge), full_value(edge, False))
    a0, b0, x0 = _safe(inside, a, 1.0), _safe(inside, b, 1.0), _safe(inside, x, 0.5)
    # The fraction converges fast below the mean; above it, use I_x(a, b) = 1 - I_{1-x}(b, a).
    swap = ge(x0, div(add(a0, one), add(add(a0, b0), const(x, 2.0))))
    p, q = select(swap, b0, a0), select(swap, a0, b0)
    y = select(swap, sub(one, x0), x0)
    log_front = sub(lgamma(add(p, q)), add(lgamma(p), lgamma(q)))
    log_y = select(swap, log1p(neg(x0)), log(x0))
    log_rest = select(swap, log(x0), log1p(neg(x0)))
    log_front = add(log_front, add(mul(p, log_y), mul(q, log_rest)))
    value = div(mul(exp(log_front), _beta_fraction(p, q, y, inside)), p)
    value = select(swap, sub(one, value), value)
    value = max(value, full_value(value, 0.0))
    value = select(edge, x, value)
    value = select(invalid, full_value(x, np.nan), value)
    # One zero parameter puts all mass at an end: at 0 if it is a, at 1 if it is b; an infinite
    # one at the other end.
    infinite_a, infinite_b = eq(a, const(a, np.inf)), eq(b, const(b, np.inf))
    both = bitwise_and(infinite_a, infinite_b)
    mass_at_0 = bitwise_and(
        bitwise_or(eq(a, zero), infinite_b), bitwise_and(gt(b, zero), ge(a, zero))
    )
    mass_at_1 = bitwise_and(
        bitwise_or(eq(b, zero), infinite_a), bitwise_and(gt(a, zero), ge(b, zero))
    )
    value = select(both, full_value(x, np.nan), value)
    mass_at_0, mass_at_1 = (
        bitwise_and(m, eq(both, full_value(both, False))) for m in (mass_at_0, mass_at_1)
    )
    legal = bitwise_and(ge(x, zero), le(x, one))
    above_0 = select(gt(x, zero), full_value(x, 1.0), full_value(x, 0.0))
    at_1 = select(eq(x, one), full_value(x, 1.0), full_value(x, 0.0))
    value = select(bitwise_and(mass_at_0, legal), above_0, value)
    return select(bitwise_and(mass_at_1, legal), at_1, value)


def _no_beta_parameters(*args: Any) -> Any:
    raise new_error(ValueError, "Betainc gradient with respect to a and b not supported.")


def _betainc_jvp(g: Array, ans: Array, a: Array, b: Array, x: Array) -> Array:
    """x**(a-1) (1-x)**(b-1) / B(a, b)."""
    one = full_value(x, 1)
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(mul(sub(b, one), log1p(neg(x))), mul(sub(a, one), log(x)))
    return mul(g, exp(sub(powers, log_beta)))


regularized_incomplete_beta_p: Primitive = define_nary(
    "regularized_incomplete_beta",
    None,
    (FLOATING, FLOATING, FLOATING),
    (_no_beta_parameters, _no_beta_parameters, _betainc_jvp),
    lowering=lower_in_float64(_betainc),
)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularized incomplete beta function I_x(a, b); nan outside a > 0, b > 0, 0 <= x <= 1.

    >>> lax.betainc(1.0, 1.0, jnp.array([0.25])).round(3)
    Array([0.25], dtype=float32)
    """
    a, b, x = alike_operands("betainc", a, b, x)
    return regularized_incomplete_beta_p.bind1(a, b, x)
