"""The gamma function and its family: beta, factorials, incomplete functions, zeta."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import comb as exact_comb
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.common import in_float64
from pyjax.lax.special.gamma import lgamma_beside_two, stirling_error
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy._special_lanczos import gamma_size, log_beta, positive_gamma
from xla_backend.hlo.special_function_tables import LANCZOS, LANCZOS_FIRST, LANCZOS_G

Array = Any
ArrayLike = Any
_HALF_LOG_2PI = float(np.log(2 * np.pi) / 2)


@one_program(None)
def gammaln(x: ArrayLike) -> Array:
    """log |Γ(x)|; inf at 0 and the negative integers.

    >>> gammaln(jnp.array([5.0])).round(3)
    Array([3.178], dtype=float32)
    """
    return lax.lgamma(*promote_args_inexact("gammaln", x))


@one_program(None)
def loggamma(x: ArrayLike) -> Array:
    """log Γ(x) on the real axis; nan for x ≤ 0, where it is complex.

    >>> loggamma(jnp.array([5.0])).round(2)
    Array([3.18], dtype=float32)
    """
    (x,) = promote_args_inexact("loggamma", x)
    return jnp.where(x > 0, lax.lgamma(x), np.nan)


@one_program(None)
def gammasgn(x: ArrayLike) -> Array:
    """The sign of Γ(x): ±1, that of x at zeros; nan at negative integers and -inf.

    >>> gammasgn(jnp.array([2.0, -0.5]))
    Array([ 1., -1.], dtype=float32)
    """
    (x,) = promote_args_inexact("gammasgn", x)
    below = lax.floor(x)
    odd = lax.ne(lax.rem(below, lax.full_like(x, 2)), lax.full_like(x, 0))
    sign = jnp.where((x < 0) & odd, -1, 1).astype(x.dtype)
    sign = jnp.where(x == 0, jnp.copysign(jnp.ones_like(x), x), sign)
    return jnp.where(((x < 0) & (x == below)) | jnp.isnan(x), np.nan, sign)


@custom_jvp
@in_float64
def _complex_gamma(z: Array) -> Array:
    """Γ(z) by Lanczos' approximation, 15 digits for re z >= 1/2, and reflection."""
    reflected = z.real < 0.5
    w = jnp.where(reflected, 1 - z, z) - 1
    total: Any = jnp.full_like(w, LANCZOS_FIRST)
    for k, coefficient in enumerate(LANCZOS, 1):
        total = total + coefficient / (w + k)
    t = w + (LANCZOS_G + 0.5)
    value = float(np.sqrt(2 * np.pi)) * lax.exp((w + 0.5) * lax.log(t) - t) * total
    return jnp.where(reflected, np.pi / (_sine_of_half_turns(z) * value), value)


def _sine_of_half_turns(z: Array) -> Array:
    """sin(πz), with the whole part of re z taken out, which π z would round."""
    whole = jnp.round(z.real)
    sine = lax.sin(np.pi * lax.complex(z.real - whole, z.imag))
    return jnp.where(whole % 2 == 0, sine, -sine)


def _complex_digamma(z: Array) -> Array:
    """ψ(z) by the recurrence to where the asymptotic series holds, and reflection."""
    reflected = z.real < 0.5
    w = jnp.where(reflected, 1 - z, z)
    shift: Any = jnp.zeros_like(w)
    for k in range(10):
        shift = shift - 1 / (w + k)
    w = w + 10
    u = 1 / (w * w)
    series = jnp.zeros_like(w)
    for coefficient in (1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = coefficient + u * series
    value = shift + lax.log(w) - 0.5 / w - u * series
    return jnp.where(reflected, value - np.pi / lax.tan(np.pi * z), value)


_complex_gamma.defjvps(lambda g, ans, z: g * ans * _complex_digamma(z))


def _positive_gamma(x: Array) -> Array:
    """Γ(x) for x > 0 in float64: exp of its logarithm would magnify the error of that."""
    large = x >= 8
    # Γ(200) is infinite. The power is half of one, so that it is not.
    base = jnp.where(large, jnp.minimum(x, 200), 8.0)
    power = lax.pow(base, base / 2)
    scale = lax.sqrt(2 * np.pi / base) * lax.exp(-base) * lax.exp(stirling_error(base))
    by_stirling = power * scale * power
    # Γ(x) = (x - 1) Γ(x - 1) down to [1, 2), each x exact; below 1 the other way.
    below = x < 1
    rest, factor = jnp.where(below, x + 1, jnp.where(large, 1, x)), jnp.where(below, 1 / x, 1)
    for _ in range(6):
        down = rest >= 2
        rest = jnp.where(down, rest - 1, rest)
        factor = jnp.where(down, factor * rest, factor)
    return jnp.where(large, by_stirling, factor * lax.exp(lax.lgamma(rest)))


@custom_jvp
@partial(in_float64, narrow=lambda x: gammasgn(x) * gamma_size(x))
def _gamma(x: Array) -> Array:
    return jnp.where(x > 0, _positive_gamma(x), gammasgn(x) * lax.exp(lax.lgamma(x)))


_gamma.defjvps(lambda g, ans, x: g * ans * lax.digamma(x))


@one_program(None)
def gamma(x: ArrayLike) -> Array:
    """The gamma function Γ(x), real or complex; nan at negative integers.

    >>> complex(gamma(1 + 1j)).__format__(".4f")
    '0.4980-0.1549j'
    """
    (x,) = promote_args_inexact("gamma", x)
    if jnp.iscomplexobj(x):
        return _complex_gamma(jnp.asarray(x, x.dtype))
    return _gamma(x)


@custom_jvp
@partial(
    in_float64,
    keeps_weak_types=True,
    narrow=lambda n: jnp.where(n < 0, 0, positive_gamma(n + 1)),
)
def _factorial(n: Array) -> Array:
    # From 1 on n Γ(n), as n + 1 may be rounded.
    low = n < 1
    value = _positive_gamma(jnp.where(low, n + 1, n))
    return jnp.where(n < 0, 0, jnp.where(low, value, n * value))


def _factorial_slope(n: Array, value: Array) -> Array:
    return jnp.where(n < 0, 0, value * lax.digamma(n + 1))


_factorial.defjvps(lambda g, ans, n: jnp.where(n < 0, 0, g * _factorial_slope(n, ans)))


@one_program()
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n! = Γ(n + 1); 0 for negative n.

    Raises:
      NotImplementedError: exact=True.

    >>> factorial(jnp.array([0.0, 1.0, 5.0])).round(2)
    Array([  1.,   1., 120.], dtype=float32)
    """
    if exact:
        raise NotImplementedError(
            "factorial with exact=True needs integers of any size; use math.factorial."
        )
    (n,) = promote_args_inexact("factorial", n)
    return _factorial(n)


@one_program(None)
def digamma(x: ArrayLike) -> Array:
    """The derivative of log Γ(x).

    >>> digamma(jnp.array([1.0])).round(3)
    Array([-0.577], dtype=float32)
    """
    return lax.digamma(*promote_args_inexact("digamma", x))


@one_program(None)
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma, n ≥ 0 an integer.

    >>> polygamma(1, jnp.array([1.0])).round(3)
    Array([1.645], dtype=float32)
    """
    n, x = promote_args_inexact("polygamma", n, x)
    return lax.polygamma(*jnp.broadcast_arrays(n, x))


@one_program(None)
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function Σ (k + q)^-x, k ≥ 0; q = 1 (Riemann's) by default.

    >>> zeta(jnp.array([2.0]), 1.0).round(3)
    Array([1.645], dtype=float32)
    """
    x, q = promote_args_inexact("zeta", x, 1.0 if q is None else q)
    return lax.zeta(*jnp.broadcast_arrays(x, q))


@one_program(None)
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function P(a, x).

    >>> gammainc(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return lax.igamma(*jnp.broadcast_arrays(*promote_args_inexact("gammainc", a, x)))


@one_program(None)
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    >>> gammaincc(1.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.igammac(*jnp.broadcast_arrays(*promote_args_inexact("gammaincc", a, x)))


@one_program(None)
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function I_x(a, b).

    >>> betainc(1.0, 1.0, jnp.array([0.25])).round(3)
    Array([0.25], dtype=float32)
    """
    return lax.betainc(*jnp.broadcast_arrays(*promote_args_inexact("betainc", a, b, x)))


@one_program(None)
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log |B(a, b)|, without cancellation where an argument is large.

    >>> betaln(jnp.array([1.0]), 1.0).round(3)
    Array([0.], dtype=float32)
    """
    a, b = jnp.broadcast_arrays(*promote_args_inexact("betaln", a, b))
    return (_betaln if a.dtype == np.float64 else _narrow_betaln)(a, b)


def _betaln(a: Array, b: Array) -> Array:
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    plain = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    # Stirling's formula for the large arguments, with what is common to them taken out by hand.
    # (Not maximum, which gives its operands half of the gradient each at 8.)
    large_b, large_a = jnp.where(b >= 8, b, 8.0), jnp.where(a >= 8, a, 8.0)
    small_a = jnp.clip(a, float(np.finfo(np.float64).smallest_subnormal), 8.0)
    total = small_a + large_b
    mixed = (
        lax.lgamma(small_a)
        - (total - 0.5) * lax.log1p(small_a / large_b)
        - small_a * lax.log(large_b)
        + small_a
        + stirling_error(large_b)
        - stirling_error(total)
    )
    both = large_a + large_b
    large = (
        (large_a - 0.5) * lax.log(large_a / both)
        - large_b * lax.log1p(large_a / large_b)
        - 0.5 * lax.log(large_b)
        + _HALF_LOG_2PI
        + stirling_error(large_a)
        + stirling_error(large_b)
        - stirling_error(both)
    )
    value = jnp.where(a >= 8, large, jnp.where((a > 0) & (b >= 8), mixed, plain))
    # Beside B(1, 1) = 1 the logarithms cancel, and a + b rounds what is left.
    beside = (jnp.abs(a - 1) < 0.25) & (jnp.abs(b - 1) < 0.25) & (jnp.abs(a + b - 2) < 0.25)
    u, v = jnp.where(beside, a - 1, 0), jnp.where(beside, b - 1, 0)
    at_two = lgamma_beside_two(u) + lgamma_beside_two(v) - lgamma_beside_two(u + v)
    return jnp.where(beside, at_two - lax.log1p(u) - lax.log1p(v), value)


_narrow_betaln = partial(in_float64, keeps_weak_types=True)(log_beta)


@one_program(None)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function Γ(a) Γ(b) / Γ(a + b).

    >>> beta(jnp.array([1.0, 2.0]), 1.0).round(3)
    Array([1. , 0.5], dtype=float32)
    """
    return _beta(*jnp.broadcast_arrays(*promote_args_inexact("beta", a, b)))


def _signed_beta(log_size: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * lax.exp(log_size(a, b))


_beta = in_float64(partial(_signed_beta, _betaln), narrow=partial(_signed_beta, log_beta))


@one_program()
def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """log Γ_d(a), the multivariate gamma function of dimension d (a static int).

    >>> multigammaln(jnp.array([3.0]), 1).round(3)
    Array([0.693], dtype=float32)
    """
    dimension = int(d)
    (a,) = promote_args_inexact("multigammaln", a)
    constant = dimension * (dimension - 1) * float(np.log(np.pi)) / 4
    shifts = -np.arange(dimension) / 2
    shifts = np.reshape(shifts.astype(a.dtype), (1,) * np.ndim(a) + (-1,))
    terms = gammaln(jnp.expand_dims(a, -1) + shifts)
    return jnp.sum(terms, axis=-1) + constant


@one_program(None)
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The rising factorial Γ(z + m) / Γ(z); 1 where m is 0.

    >>> poch(jnp.array([2.0]), 3.0).round(2)
    Array([24.], dtype=float32)
    """
    return _poch(*jnp.broadcast_arrays(*promote_args_inexact("poch", z, m)))


@custom_jvp
@in_float64
def _poch(z: Array, m: Array) -> Array:
    end = z + m
    low = jnp.minimum(z, end)
    # Stirling's formula where the difference of two large logarithms would cancel.
    large = (low >= 8) & lax.is_finite(end)
    low, step = jnp.where(large, low, 8.0), jnp.where(large, lax.abs(m), 0)
    rising = (
        (low - 0.5) * lax.log1p(step / low)
        + step * (lax.log(low + step) - 1)
        + stirling_error(low + step)
        - stirling_error(low)
    )
    size = jnp.where(large, jnp.where(m < 0, -rising, rising), lax.lgamma(end) - lax.lgamma(z))
    return jnp.where(m == 0, 1, lax.exp(size) * gammasgn(end) * gammasgn(z))


_poch.defjvps(
    lambda g, ans, z, m: g * (lax.digamma(z + m) - lax.digamma(z)) * ans,
    lambda g, ans, z, m: g * lax.digamma(z + m) * ans,
)


@one_program(2)
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose k of N things (with repetition: more than once), in floating
    point; 0 for k < 0, k > N or N < 0.

    >>> comb(jnp.array([5.0]), 2.0).round(2)
    Array([10.], dtype=float32)
    """
    N, k = jnp.broadcast_arrays(*promote_args_inexact("comb", N, k))
    return _comb(N, k, repetition=repetition)


def _combinations(
    log_beta: Callable[[Array, Array], Array], N: Array, k: Array, repetition: bool
) -> Array:
    nothing = (N == 0) & (k == 0)  # one way to choose none of nothing
    if repetition:
        N = jnp.where(nothing, N, N + k - 1)
    valid = (k >= 0) & (k <= N) & (N >= 0)
    n, r = jnp.where(valid, N, 1), jnp.where(valid, k, 1)
    value = lax.exp(-log_beta(1 + n - r, 1 + r) - lax.log1p(n))
    whole = (n == lax.floor(n)) & (r == lax.floor(r)) & lax.is_finite(value)
    # The correction is no function of n and r: the gradient is that of the smooth value.
    value = value + lax.stop_gradient(jnp.where(whole, jnp.round(value) - value, 0))
    return jnp.where(valid, value, 0)


_comb = in_float64(
    partial(_combinations, _betaln),
    keeps_weak_types=True,
    narrow=partial(_combinations, log_beta),
)


def _exact_bernoulli(n: int) -> list[float]:
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        total = sum((exact_comb(m + 1, j) * numbers[j] for j in range(m)), Fraction(0))
        numbers.append(-total / (m + 1))
    return [float(b) for b in numbers]


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B₀ … B_n (n a static int).

    >>> bernoulli(2).tolist()[:2]
    [1.0, -0.5]
    """
    if n != int(n) or n < 0:
        raise ValueError(f"bernoulli: n must be a non-negative integer, got {n}")
    return jnp.asarray(np.array(_exact_bernoulli(max(int(n), 2))[: int(n) + 1]))
