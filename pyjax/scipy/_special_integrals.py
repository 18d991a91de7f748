"""Fresnel's integrals, the sine and cosine integrals, Spence's and Owen's functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.lax.special.common import in_float64
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy import _special_chebyshev as tables
from pyjax.scipy._special_chebyshev import chebyshev
from pyjax.scipy._special_faddeeva import erfcx, exp_minus_square, in_single

Array = Any
ArrayLike = Any


def _quarter_turns(x: Array) -> Array:
    """x² modulo 4 for x >= 0, without the error of a rounded x²."""
    bits, mask = (np.int32, -(1 << 12)) if x.dtype == np.float32 else (np.int64, -(1 << 27))
    pattern = lax.bitcast_convert_type(x, bits)
    high = lax.bitcast_convert_type(pattern & lax.full_like(pattern, mask), x.dtype)
    low = x - high
    # Each product is exact: the halves have half of the bits.
    total = jnp.mod(high * high, 4) + jnp.mod(2 * high * low, 4) + jnp.mod(low * low, 4)
    return jnp.mod(total, 4)


def _between(table: tuple[float, ...], power: Array, low: float, high: float) -> Array:
    """The series of `table` in 1/x^k (`power`), whose interval is low ... high."""
    inside = jnp.clip(power, low, high)
    return chebyshev(table, (2 * inside - (low + high)) / (high - low))


def _sine_cosine_of_turns(x: Array) -> tuple[Array, Array]:
    turns = _quarter_turns(x)
    return jnp.sin(math.pi / 2 * turns), jnp.cos(math.pi / 2 * turns)


@custom_jvp
def _fresnel(x: Array) -> tuple[Array, Array]:
    size = jnp.abs(x)
    small = jnp.minimum(size, 1.6)
    u = small**4 * (2 / 1.6**4) - 1
    near_s = small**3 * chebyshev(tables.FRESNEL_S_NEAR, u)
    near_c = small * chebyshev(tables.FRESNEL_C_NEAR, u)
    # Beyond 1e6 the integrals are 1/2 to 3e-7 or less; the square would overflow later.
    large = jnp.clip(size, 1.6, 1e6)
    power, split = 1 / large**4, 1 / 2.4**4
    middle = large < 2.4
    f = jnp.where(
        middle,
        _between(tables.FRESNEL_F_FROM_1_6, power, split, 1 / 1.6**4),
        _between(tables.FRESNEL_F_FROM_2_4, power, 0, split),
    ) / (math.pi * large)
    g = jnp.where(
        middle,
        _between(tables.FRESNEL_G_FROM_1_6, power, split, 1 / 1.6**4),
        _between(tables.FRESNEL_G_FROM_2_4, power, 0, split),
    ) / (math.pi**2 * large**3)
    sine, cosine = _sine_cosine_of_turns(large)
    far_s = 0.5 - f * cosine - g * sine  # DLMF 7.5.3, 7.5.4
    far_c = 0.5 + f * sine - g * cosine
    pair = []
    for near, far in ((near_s, far_s), (near_c, far_c)):
        value = jnp.where(size < 1.6, near, jnp.where(size > 1e12, 0.5, far))
        pair.append(jnp.where(jnp.isnan(x), np.nan, jnp.copysign(value, x)))
    return pair[0], pair[1]


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (g,) = primals, tangents
    sine, cosine = _sine_cosine_of_turns(jnp.abs(x))
    # Differentiable anew: the remainder of the square has the square's derivative.
    turn = math.pi / 2 * (x * x - lax.stop_gradient(x * x))
    slope_s = lax.stop_gradient(sine) * jnp.cos(turn) + lax.stop_gradient(cosine) * jnp.sin(turn)
    slope_c = lax.stop_gradient(cosine) * jnp.cos(turn) - lax.stop_gradient(sine) * jnp.sin(turn)
    return _fresnel(x), (g * slope_s, g * slope_c)


@one_program(None)
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals S(x) = ∫₀ˣ sin(πt²/2) dt and C(x) = ∫₀ˣ cos(πt²/2) dt.

    Args:
      x: real, any shape.
    Returns:
      (S, C), each of the shape and type of `x`; integers become floats.
    Raises:
      NotImplementedError: `x` is complex.
    Special cases: odd; ±1/2 at ±inf.
    Source: DLMF 7.2.7 to 7.2.11, by Chebyshev series; errors are below 4 units in the last place,
    with the phase πx²/2 reduced exactly.

    >>> [round(float(part), 6) for part in fresnel(1.0)]
    [0.438259, 0.779893]
    """
    (x,) = promote_args_inexact("fresnel", x)
    if jnp.iscomplexobj(x):
        raise NotImplementedError(
            "fresnel of complex numbers is not implemented, as in JAX: with t = √π/2 (1 ∓ i) z, "
            "C ± iS = (1 ± i)/2 erf(t), and erf of complex numbers comes from wofz."
            " Call scipy.special.fresnel through pure_callback."
        )
    found: tuple[Array, Array] = in_single(_fresnel)(x)
    return found


@custom_jvp
@in_float64
def _sici(x: Array) -> tuple[Array, Array]:
    size = jnp.abs(x)
    small = jnp.minimum(size, 4)
    square = small * small
    near_s = small * chebyshev(tables.SI_NEAR, square / 8 - 1)
    near_c = square * chebyshev(tables.CI_NEAR, square / 8 - 1)
    near_c = float(np.euler_gamma) + lax.log(small) + near_c
    large = jnp.maximum(size, 4)
    inverse = 1 / large
    power, middle = inverse * inverse, large < 8
    f = inverse * jnp.where(
        middle,
        _between(tables.SICI_F_FROM_4, power, 1 / 64, 1 / 16),
        _between(tables.SICI_F_FROM_8, power, 0, 1 / 64),
    )
    g = power * jnp.where(
        middle,
        _between(tables.SICI_G_FROM_4, power, 1 / 64, 1 / 16),
        _between(tables.SICI_G_FROM_8, power, 0, 1 / 64),
    )
    finite = jnp.where(large == np.inf, 0, large)
    sine, cosine = jnp.sin(finite), jnp.cos(finite)
    far_s = math.pi / 2 - f * cosine - g * sine  # DLMF 6.2.19, 6.2.20
    far_c = f * sine - g * cosine
    integral_s = jnp.copysign(jnp.where(size < 4, near_s, far_s), x)
    integral_c = jnp.where(size < 4, near_c, far_c)
    integral_c = jnp.where(jnp.isnan(x) | (x == -np.inf), np.nan, integral_c)
    return jnp.where(jnp.isnan(x), np.nan, integral_s), integral_c


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (g,) = primals, tangents
    return _sici(x), (g * jnp.sinc(x / math.pi), g * jnp.cos(x) / x)


@one_program(None)
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The integrals Si(x) = ∫₀ˣ sin t / t dt and Ci(x) = γ + log |x| + ∫₀ˣ (cos t - 1)/t dt.

    Args:
      x: real, any shape.
    Returns:
      (Si, Ci), each of the shape and type of `x`; integers become floats.
    Raises:
      ValueError: `x` is complex.
    Special cases: Si is odd, ±π/2 at ±inf.  Ci of a negative number is the real part, that of the
    positive one; -inf at 0, 0 at inf, nan at -inf.
    Source: DLMF 6.2, by Chebyshev series, in float64.

    >>> [round(float(part), 6) for part in sici(1.0)]
    [0.946083, 0.337404]
    """
    (x,) = promote_args_inexact("sici", x)
    if jnp.iscomplexobj(x):
        raise ValueError(f"Argument `x` to sici must be real-valued. Got dtype {x.dtype}.")
    found: tuple[Array, Array] = _sici(x)
    return found


# B_2k / (2k + 1)! of the series of the dilogarithm in -log(1 - z), for k = 1, 2, ...
_DILOGARITHM = (
    1 / 36,
    -1 / 3600,
    1 / 211680,
    -1 / 10886400,
    1 / 526901760,
    -691 / 16999766784000,
    1 / 1120863744000,
    -3617 / 181400588328960000,
    43867 / 97072790126247936000,
    -174611 / 16860010916664115200000,
)


def _dilogarithm(u: Array) -> Array:
    """Li₂(1 - exp(-u)) for |u| <= 0.7."""
    square = u * u
    total = jnp.full_like(u, _DILOGARITHM[-1])
    for coefficient in _DILOGARITHM[-2::-1]:
        total = total * square + coefficient
    return u - square / 4 + u * square * total


@custom_jvp
def _spence(x: Array) -> Array:
    below, above = x < 0.5, x > 2
    middle = jnp.where(below | above, 1, x)
    near = _dilogarithm(-_log(middle))
    tiny = jnp.where(below & (x > 0), x, 0.25)
    log_tiny = lax.log(tiny)
    low = math.pi**2 / 6 - log_tiny * lax.log1p(-tiny) - _dilogarithm(-lax.log1p(-tiny))
    large = jnp.where(above & (x < np.inf), x, 4)
    log_large, rest = lax.log(large), -lax.log1p(-1 / large)
    # Li₂(1 - x) of large x by inversion, then by reflection of 1/x.
    high = log_large * (rest - log_large / 2) - math.pi**2 / 6 + _dilogarithm(rest)
    value = jnp.where(below, low, jnp.where(above, high, near))
    value = jnp.where(x == 1, 0, jnp.where(x == 0, math.pi**2 / 6, value))
    value = jnp.where(x == np.inf, -np.inf, value)
    return jnp.where((x < 0) | jnp.isnan(x), np.nan, value)


def _log(x: Array) -> Array:
    return lax.log1p(x - 1)


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (g,) = primals, tangents
    at_one = x == 1
    safe = jnp.where(at_one, 2, x)
    # log x / (1 - x), and its series where x is 1, so that it can be differentiated again.
    slope = jnp.where(at_one, -1 + (x - 1) / 2 - (x - 1) ** 2 / 3, lax.log(safe) / (1 - safe))
    return _spence(x), g * slope


@one_program(None)
def spence(x: Array) -> Array:
    """Spence's function ∫₁ˣ log t / (1 - t) dt, the dilogarithm of 1 - x.

    Args:
      x: float32 or float64, any shape.
    Returns:
      An array of the shape and type of `x`.
    Raises:
      TypeError: another dtype.
    Special cases: π²/6 at 0, 0 at 1, -inf at inf, nan below 0.
    Source: DLMF 25.12, by the series in -log x and its reflections.

    >>> round(float(spence(0.5)), 6)
    0.582241
    """
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"{x.dtype=!s} is not supported: spence takes float32 and float64; convert with "
            "x.astype('float32')."
        )
    return _spence(x)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(31)


def _owens_quadrature(h: Array, a: Array) -> Array:
    """T(h, a) for h >= 0 and 0 <= a <= 1, by Gauss and Legendre on what is not negligible."""
    top = jnp.minimum(a, 9.0 / jnp.maximum(h, 1e-3))
    total = jnp.zeros_like(top)
    scaled = jnp.minimum(h, 1e4) * top
    for node, weight in zip((_NODES + 1) / 2, _WEIGHTS / 2, strict=True):
        t, u = float(node) * top, float(node) * scaled
        total = total + float(weight) * lax.exp(-0.5 * u * u) / (1 + t * t)
    return exp_minus_square(h, 0.5) * top * total / (2 * math.pi)


@custom_jvp
@in_float64
def _owens_t(h: Array, a: Array) -> Array:
    size_h, size_a = jnp.abs(h), jnp.abs(a)
    steep = size_a > 1
    # T(h, a) for a > 1 from T(ah, 1/a) (Patefield & Tandy 2000, equations 2.1 to 2.3).
    product = jnp.where(size_h == 0, 0, size_h * size_a)
    inner_h = jnp.where(steep, product, size_h)
    inner_a = jnp.where(steep, 1 / jnp.where(steep, size_a, 1), size_a)
    value = _owens_quadrature(inner_h, inner_a)
    root = math.sqrt(0.5)
    erf_h, erf_ah = lax.erf(root * size_h), lax.erf(root * product)
    # erfc(x / √2) = exp(-x²/2) erfcx(x / √2) keeps the digits that rounding x / √2 would cost.
    tail_h = exp_minus_square(size_h, 0.5) * erfcx(root * size_h) / 2
    tail_ah = exp_minus_square(product, 0.5) * erfcx(root * product) / 2
    # Through erf for small h, through the tails for large: neither cancels.
    whole = jnp.where(
        size_h <= 0.67, 0.25 - erf_h * erf_ah / 4, (tail_h + tail_ah) / 2 - tail_h * tail_ah
    )
    value = jnp.where(steep, whole - value, value)
    value = jnp.where((size_h == np.inf) | (size_a == 0), 0, value)
    value = jnp.where(jnp.isnan(h) | jnp.isnan(a), np.nan, value)
    return jnp.copysign(value, a)


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    (h, a), (dh, da) = primals, tangents
    density = lax.exp(-0.5 * h * h)
    slope_h = -density * lax.erf(a * h * math.sqrt(0.5)) / math.sqrt(8 * math.pi)
    slope_a = density * lax.exp(-0.5 * (h * a) ** 2) / (2 * math.pi * (1 + a * a))
    return _owens_t(h, a), slope_h * dh + slope_a * da


@one_program(None)
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function ∫₀ᵃ exp(-h²(1 + x²)/2) / (1 + x²) dx / 2π.

    Args:
      h, a: real, broadcastable.
    Returns:
      An array of the broadcast shape and promoted type; integers become floats.
    Raises:
      ValueError: an argument is complex.
    Special cases: even in h, odd in a; 0 at h = ±inf; T(0, a) = arctan(a) / 2π; T(h, ±inf) is
    ±erfc(|h|/√2) / 4; nan if either is nan.
    Source: Owen (1956); Patefield & Tandy (2000) for |a| > 1; Gauss-Legendre with 31 nodes, in
    float64.

    >>> round(float(owens_t(1.0, 2.0)), 7)
    0.0784682
    """
    h, a = promote_args_inexact("owens_t", h, a)
    if jnp.iscomplexobj(h):
        raise ValueError("owens_t does not support complex-valued inputs.")
    h, a = jnp.broadcast_arrays(h, a)
    return _owens_t(h, a)
