"""The confluent and the Gaussian hypergeometric function of real arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.jit import jit
from pyjax.api.jvp import jvp
from pyjax.lax.special.common import in_float64
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy._special_gamma import gammasgn

Array = Any
ArrayLike = Any
_MOST_TERMS = 20_000


def _or_one(x: Array) -> Array:
    return jnp.where(x == 0, 1, x)


def _is_pole(x: Array) -> Array:
    """Whether x is 0 or a negative integer."""
    return (x <= 0) & (x == lax.floor(x))


def _series(a: Array, b: Array | None, c: Array, x: Array, scale: float | Array = 1.0) -> Array:
    """scale Σ (a)_k (b)_k / (c)_k x^k / k!, without (b)_k where b is None.

    It ends where a bound of the terms is negligible. The bound leaves zero factors out, so that
    the derivatives by parameters of series that end are right, too.
    """
    eps = float(np.finfo(x.dtype).eps) / 4
    # Only derivatives need terms behind the end, and where |x| >= 1 those do not converge.
    grows = jnp.abs(x) >= 1 if b is not None else jnp.zeros_like(x, bool)

    def unfinished(state: Any) -> Any:
        k, term, bound, total = state
        size = jnp.where(grows, jnp.abs(term), bound)
        return (k < _MOST_TERMS) & jnp.any((size > eps * jnp.abs(total)) & (size < np.inf))

    def step(state: Any) -> Any:
        k, term, bound, total = state
        index = lax.convert_element_type(k, x.dtype)
        above = a + index if b is None else (a + index) * (b + index)
        below = (c + index) * (index + 1)
        ratio = above / _or_one(below) * x
        larger = _or_one(a + index) if b is None else _or_one(a + index) * _or_one(b + index)
        term = term * ratio
        bound = bound * jnp.abs(lax.stop_gradient(larger / _or_one(below) * x))
        return k + 1, term, bound, total + term

    first = jnp.full_like(x, scale) if isinstance(scale, float) else scale
    begin = (jnp.zeros((), np.int32), first, lax.stop_gradient(first), first)
    found: Array = lax.while_loop(unfinished, step, begin)[3]
    return found


def _undefined(a: Array, b: Array | None, c: Array) -> Array:
    """Whether c is a pole that no factor above reaches before."""
    ends = _is_pole(a) & (a > c)
    if b is not None:
        ends = ends | (_is_pole(b) & (b > c))
    same = (a == c) if b is None else (a == c) | (b == c)
    return _is_pole(c) & ~ends & ~same


def _ratio_of_gammas(above: Array, below: Array) -> Array:
    """Γ(above) / Γ(below); 0 at the poles of the lower one."""
    pole = _is_pole(below)
    safe = jnp.where(pole, 1, below)
    value = gammasgn(above) * gammasgn(safe) * lax.exp(lax.lgamma(above) - lax.lgamma(safe))
    return jnp.where(pole, 0, value)


@jit
def _hyp1f1_value(a: Array, b: Array, x: Array) -> Array:
    kummer = x < 0
    # e^x M(b - a, b, -x) has positive terms where M(a, b, x) cancels (DLMF 13.2.39).
    first = jnp.where(kummer, b - a, a)
    size = jnp.abs(x)
    # Far out the asymptotic series is short (DLMF 13.7.1, 13.7.2).
    edge = 1200.0
    spread = lax.stop_gradient((jnp.abs(a) + 1) * (jnp.abs(a - b) + 2))
    bound = jnp.clip(4 * spread, 60, edge)
    far = kummer & (size > bound)
    near = jnp.where(far, 0, size)
    # e^-size is one half before the series and one behind: neither under- nor overflows.
    half = jnp.where(kummer, lax.exp(-near / 2), 1)
    value = half * _series(first, None, b, near, half)
    large = jnp.where(far, size, bound)
    total = term = jnp.ones_like(x)
    for n in range(24):
        term = term * (a + n) * (a - b + 1 + n) / ((n + 1) * large)
        total = total + term
    tail = _ratio_of_gammas(b, b - a) * lax.exp(-a * lax.log(large)) * total
    tail = jnp.where(size == np.inf, jnp.where(a > 0, 0, tail), tail)
    value = jnp.where(far, tail, value)
    ends = _is_pole(a)
    value = jnp.where((x == np.inf) & ~ends, jnp.inf * _ratio_of_gammas(b, a), value)
    value = jnp.where(_undefined(a, None, b), np.inf, value)
    value = jnp.where((a == 0) | (x == 0), 1, value)
    return jnp.where(jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(x), np.nan, value)


def _along(function: Any, args: tuple[Array, ...], which: int) -> Array:
    """The derivative of `function` by one of its arguments."""

    def of_one(v: Array) -> Array:
        return function(*args[:which], v, *args[which + 1 :])

    return jvp(of_one, (args[which],), (jnp.ones_like(args[which]),))[1]


@custom_jvp
def _hyp1f1(a: Array, b: Array, x: Array) -> Array:
    return _hyp1f1_value(a, b, x)


_hyp1f1.defjvps(
    lambda g, ans, a, b, x: g * _along(_hyp1f1_value, (a, b, x), 0),
    lambda g, ans, a, b, x: g * _along(_hyp1f1_value, (a, b, x), 1),
    lambda g, ans, a, b, x: g * a / b * _hyp1f1(a + 1, b + 1, x),
)


@one_program(None)
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function ₁F₁(a; b; x) = Σ (a)_k / (b)_k x^k / k!.

    Args:
      a, b, x: real, broadcastable.
    Returns:
      An array of the broadcast shape and promoted type; integers become floats.
    Raises:
      ValueError: an argument is complex.
    Special cases: 1 where a or x is 0 (a = b = 0, too); inf where b is 0 or a negative integer
    that the series reaches.
    Source: DLMF 13.2.2; negative x by Kummer's transformation, or the asymptotic series.  Digits
    are lost where terms of both signs cancel: for negative a, and x that is large beside b.
    Derivatives by all arguments; those by `a` and `b` only once in reverse mode.

    >>> round(float(hyp1f1(1.0, 2.0, 0.5)), 6)
    1.297443
    """
    a, b, x = promote_args_inexact("hyp1f1", a, b, x)
    if jnp.iscomplexobj(x):
        raise ValueError("hyp1f1 does not support complex-valued inputs.")
    return in_float64(_hyp1f1)(*jnp.broadcast_arrays(a, b, x))


_START = 0.6  # Where the series by powers of x ends and steps towards 1 begin.


def _step_towards_one(
    a: Array, b: Array, c: Array, at: Array, to: Array, value: Array, slope: Array
) -> tuple[Array, Array]:
    """F and F' at `to` from those at `at`: Taylor's series from the differential equation.

    x (1-x) F'' + (c - (a+b+1) x) F' - a b F = 0 (DLMF 15.10.1) gives its coefficients. The step
    is half of the way to 1, the radius of convergence.
    """
    terms = 30 if at.dtype == np.float32 else 60
    t = to - at
    p0, p1 = at * (1 - at), 1 - 2 * at
    q0 = c - (a + b + 1) * at

    def step(n: Any, state: Any) -> Any:
        # before and current are the terms of t^n and t^(n+1): coefficients alone would overflow.
        before, current, total, weighted = state
        n = lax.convert_element_type(n, at.dtype)
        following = (t * ((n + a) * (n + b) * t * before - (n + 1) * (p1 * n + q0) * current)) / (
            p0 * (n + 2) * (n + 1)
        )
        return current, following, total + following, weighted + (n + 2) * following

    begin = (value, slope * t, value + slope * t, slope * t)
    _, _, total, weighted = lax.fori_loop(0, terms, step, begin)
    return total, weighted / t


def _between_zero_and_one(a: Array, b: Array, c: Array, x: Array) -> Array:
    """F for 0 <= x < 1 and what ends: the series, and steps from where it gets slow."""
    ends = _is_pole(a) | _is_pole(b)
    # What grows without bound near 1 is a power of 1 - x times what does not (DLMF 15.8.1).
    excess = c - a - b
    euler = (excess < 0) & ~ends
    a, b = jnp.where(euler, c - a, a), jnp.where(euler, c - b, b)
    factor = jnp.where(euler, lax.exp(excess * lax.log1p(-jnp.where(ends, 0, x))), 1)
    start = jnp.where(ends, x, jnp.minimum(x, _START))
    value = _series(a, b, c, start)
    slope = a * b / _or_one(c) * _series(a + 1, b + 1, c + 1, jnp.where(ends, 0, start))

    def unfinished(state: Any) -> Any:
        return jnp.any(state[0] < x)

    def step(state: Any) -> Any:
        at, value, slope = state
        to = jnp.minimum(x, (at + 1) / 2)
        done = (at >= x) | ends
        begin, to = jnp.where(done, _START, at), jnp.where(done, 0.7, to)
        after, after_slope = _step_towards_one(a, b, c, begin, to, value, slope)
        return (
            jnp.where(done, x, to),
            jnp.where(done, value, after),
            jnp.where(done, slope, after_slope),
        )

    found: Array = lax.while_loop(unfinished, step, (start, value, slope))[1]
    return factor * found


@jit
def _hyp2f1_value(a: Array, b: Array, c: Array, x: Array) -> Array:
    ends = _is_pole(a) | _is_pole(b)
    # Negative x by Pfaff's transformation (DLMF 15.8.1), with the parameter that ends the series
    # kept in its place.
    a, b = jnp.where(_is_pole(b) & ~_is_pole(a), b, a), jnp.where(_is_pole(b) & ~_is_pole(a), a, b)
    pfaff = (x < 0) & (x > -np.inf) & ~(ends & (x > -1))
    inside = jnp.where(pfaff, x / (x - 1), x)
    second = jnp.where(pfaff, c - b, b)
    usable = (inside < 1) | ends
    bad = _undefined(a, b, c)
    argument = jnp.where(usable & ~bad & (jnp.abs(inside) < np.inf), inside, 0)
    value = _between_zero_and_one(a, second, c, argument)
    value = jnp.where(pfaff, lax.exp(-a * lax.log1p(-jnp.where(pfaff, x, 0))), 1) * value
    # At 1 by Gauss' sum (DLMF 15.4.20), which has a limit where c - a - b > 0.
    excess = c - a - b
    converges = excess > 0
    gauss = _ratio_of_gammas(c, jnp.where(converges, c - a, 1)) * _ratio_of_gammas(
        jnp.where(converges, excess, 1), jnp.where(converges, c - b, 1)
    )
    value = jnp.where((x == 1) & ~ends, jnp.where(converges, gauss, np.inf), value)
    value = jnp.where((x > 1) & ~ends, np.inf, value)
    value = jnp.where((x == -np.inf) & ~ends & (a > 0) & (b > 0), 0, value)
    value = jnp.where(bad, np.inf, value)
    value = jnp.where((a == 0) | (b == 0) | (x == 0), 1, value)
    return jnp.where(jnp.isnan(a + b + c + x), np.nan, value)


@custom_jvp
def _hyp2f1(a: Array, b: Array, c: Array, x: Array) -> Array:
    return _hyp2f1_value(a, b, c, x)


_hyp2f1.defjvps(
    lambda g, ans, a, b, c, x: g * _along(_hyp2f1_value, (a, b, c, x), 0),
    lambda g, ans, a, b, c, x: g * _along(_hyp2f1_value, (a, b, c, x), 1),
    lambda g, ans, a, b, c, x: g * _along(_hyp2f1_value, (a, b, c, x), 2),
    lambda g, ans, a, b, c, x: g * a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x),
)


@one_program(None)
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss' hypergeometric function ₂F₁(a, b; c; x) = Σ (a)_k (b)_k / (c)_k x^k / k!.

    Args:
      a, b, c, x: real, broadcastable; x <= 1, unless a or b is 0 or a negative integer, where the
        series ends.
    Returns:
      An array of the broadcast shape and promoted type; integers become floats.
    Raises:
      ValueError: an argument is complex.
    Special cases: 1 where a, b or x is 0; inf for x > 1, at 1 where c <= a + b, and where c is 0
    or a negative integer that the series reaches.
    Source: DLMF 15.2.1; negative x by Pfaff's transformation, x > 0.6 by Taylor's steps along the
    differential equation.  Digits are lost where terms of both signs cancel, and for parameters
    beyond about 20.  Derivatives by all arguments; those by parameters only once in reverse mode.

    >>> round(float(hyp2f1(1.0, 2.0, 3.0, 0.5)), 4)
    1.5452
    """
    a, b, c, x = promote_args_inexact("hyp2f1", a, b, c, x)
    if jnp.iscomplexobj(x):
        raise ValueError("hyp2f1 does not support complex-valued inputs.")
    return in_float64(_hyp2f1)(*jnp.broadcast_arrays(a, b, c, x))
