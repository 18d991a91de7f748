"""The Faddeeva function and its relatives: wofz, erfcx, Dawson's integral."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact
from pyjax.scipy import _special_chebyshev as tables
from pyjax.scipy._special_chebyshev import chebyshev_of_one

Array = Any
ArrayLike = Any
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def in_single(function: Any) -> Any:
    """`function` of arrays, computed in float32 where they are of half precision."""

    def widened(*args: Array) -> Any:
        dtype = jnp.result_type(*args)
        if not jnp.issubdtype(dtype, np.floating) or np.dtype(dtype).itemsize >= 4:
            return function(*args)
        found = function(*(lax.convert_element_type(x, np.float32) for x in args))
        if isinstance(found, tuple):
            return tuple(lax.convert_element_type(part, dtype) for part in found)
        return lax.convert_element_type(found, dtype)

    return widened


def _square_parts(x: Array) -> tuple[Array, Array]:
    """x² as a sum of two: the square of x's leading bits, which is exact, and what is left."""
    bits, mask = (np.int32, -(1 << 12)) if x.dtype == np.float32 else (np.int64, -(1 << 27))
    pattern = lax.bitcast_convert_type(x, bits)
    leading = lax.bitcast_convert_type(pattern & lax.full_like(pattern, mask), x.dtype)
    return leading * leading, (x - leading) * (x + leading)


def exp_minus_square(x: Array, scale: float = 1.0) -> Array:
    """exp(-scale x²) with the error of a rounded x² left out (Cody 1969); scale is 1 or 1/2."""
    x = jnp.clip(x, -60, 60)  # Far below the smallest number at 60, and no overflow in x².
    high, low = _square_parts(x)
    return lax.exp(-scale * high) * lax.exp(-scale * low)


def _step(dtype: Any) -> tuple[float, int]:
    """Step and number of terms of the trapezoidal sums for a precision."""
    count = 7 if np.finfo(dtype).bits == 32 else 12
    return math.sqrt(math.pi / count), count


def _far(dtype: Any) -> float:
    """Where the first term of the series for large arguments is all."""
    return 1e4 if np.finfo(dtype).bits == 32 else 1e9


def _midpoint_sum(square: Array, dtype: Any) -> Array:
    """Σ exp(-τ²) / (square + τ²), τ = (k + 1/2) h."""
    h, count = _step(dtype)
    total = jnp.zeros_like(square)
    for k in range(count):
        node = ((k + 0.5) * h) ** 2
        total = total + math.exp(-node) / (square + node)
    return total


@custom_jvp
def _erfcx(x: Array) -> Array:
    """By the midpoint rule and the residue of its pole: all terms are positive for x >= 0."""
    h, _ = _step(x.dtype)
    y = jnp.minimum(jnp.abs(x), _far(x.dtype))
    value = (2 * h / math.pi) * y * _midpoint_sum(y * y, x.dtype)
    near = jnp.minimum(y, math.pi / h)
    # exp(y²) / (1 + exp(2πy/h)) needs y² - 2πy/h <= 0 only.
    pole = 2 * lax.exp(near * (near - 2 * math.pi / h)) / (1 + lax.exp(-2 * math.pi / h * near))
    value = jnp.where(y < math.pi / h, value + pole, value)
    far = 1 / (math.sqrt(math.pi) * jnp.maximum(jnp.abs(x), 1))
    value = jnp.where(jnp.abs(x) > _far(x.dtype), far, value)
    below = jnp.where(x < 0, x, 0)
    high, low = _square_parts(jnp.maximum(below, -60))
    grown = 2 * lax.exp(high) * lax.exp(low) - value
    return jnp.where(x < 0, grown, jnp.where(jnp.isnan(x), np.nan, value))


_erfcx.defjvps(lambda g, ans, x: g * (2 * x * ans - _TWO_OVER_SQRT_PI))


@one_program(None)
def erfcx(x: ArrayLike) -> Array:
    """The scaled complementary error function exp(x²) erfc(x), without overflow for large x.

    Args:
      x: real or complex, any shape.
    Returns:
      An array of the shape and type of `x`; integers become floats.
    Special cases: 0 at +inf, inf at -inf and wherever 2 exp(x²) overflows.
    Source: the trapezoidal rules of Al Azah & Chandler-Wilde (2021).  Real values are within 4
    units in the last place for x >= 0; the derivative is 2 x erfcx(x) - 2/√π.

    >>> round(float(erfcx(100.0)), 6)
    0.005642
    """
    (x,) = promote_args_inexact("erfcx", x)
    if jnp.iscomplexobj(x):
        return _wofz(x * jnp.asarray(1j, x.dtype))
    return in_single(_erfcx)(x)


# Ends of the intervals of Dawson's integral. The arguments of their series are multiples of x²,
# x, x, x and 1 / x², to which a number is added.
_DAWSN_ENDS = (1.5, 2.5, 4.0, 6.0)
_DAWSN_FACTORS = (2 / 2.25, 2.0, 2 / 1.5, 1.0, 72.0)
_DAWSN_SHIFTS = (-1.0, -4.0, -6.5 / 1.5, -5.0, -1.0)
_DAWSN_SERIES = (
    tables.DAWSN_NEAR,
    tables.DAWSN_FROM_1_5,
    tables.DAWSN_FROM_2_5,
    tables.DAWSN_FROM_4,
    tables.DAWSN_FROM_6,
)


@custom_jvp
def _dawsn(x: Array) -> Array:
    size = jnp.abs(x)
    below = [size < end for end in _DAWSN_ENDS]

    def chosen(values: tuple[float, ...]) -> Array:
        found = lax.full_like(size, values[-1])
        for choice, value in zip(reversed(below), values[-2::-1], strict=True):
            found = lax.select(choice, lax.full_like(size, value), found)
        return found

    inverse = 1 / size
    argument = jnp.where(below[0], size * size, jnp.where(below[-1], size, inverse * inverse))
    u = argument * chosen(_DAWSN_FACTORS) + chosen(_DAWSN_SHIFTS)
    value = chebyshev_of_one(_DAWSN_SERIES, below, u) * jnp.where(below[0], size, inverse)
    return jnp.copysign(value, x)


_dawsn.defjvps(lambda g, ans, x: g * (1 - 2 * jnp.where(jnp.abs(x) == np.inf, 0, x) * ans))


@one_program(None)
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral exp(-x²) ∫₀ˣ exp(t²) dt.

    Args:
      x: real, any shape.
    Returns:
      An array of the shape and type of `x`; integers become floats.
    Raises:
      ValueError: `x` is complex.
    Special cases: odd, with the sign of a zero kept; ±0 at ±inf.
    Source: DLMF 7.2.5, by Chebyshev series; within 4 units in the last place.  The derivative is
    1 - 2 x dawsn(x).

    >>> round(float(dawsn(1.0)), 6)
    0.53808
    """
    (x,) = promote_args_inexact("dawsn", x)
    if jnp.iscomplexobj(x):
        raise ValueError("dawsn does not support complex-valued inputs.")
    return in_single(_dawsn)(x)


def _first_quadrant(x: Array, y: Array) -> Array:
    """w(x + iy) for x, y >= 0: a trapezoidal or midpoint sum, and the residue of the nearest pole.

    Where the poles of one rule are near, the other's are half a step away.
    """
    h, count = _step(x.dtype)
    # There w(z) = i / (√π z) to all digits; the sums would overflow.
    far = jnp.maximum(x, y) > _far(x.dtype)
    zx, zy = jnp.where(far, 1, x), jnp.where(far, 1, y)
    z = lax.complex(zx, zy)
    square = lax.complex((zx - zy) * (zx + zy), 2 * zx * zy)
    midpoint, trapezoid = jnp.zeros_like(z), jnp.zeros_like(z)
    for k in range(count):
        node = ((k + 0.5) * h) ** 2
        midpoint = midpoint + math.exp(-node) / (square - node)
        node = ((k + 1) * h) ** 2
        trapezoid = trapezoid + math.exp(-node) / (square - node)
    factor = lax.complex(-2 * h / math.pi * zy, 2 * h / math.pi * zx)  # 2 i h z / π
    phase = zx / h - lax.floor(zx / h)
    even = (zy < zx) & (phase >= 0.25) & (phase <= 0.75)
    inverse = 1 / jnp.where(z == 0, 1, z)
    start = lax.complex(-inverse.imag, inverse.real) * (h / math.pi)  # i h / (π z)
    value = jnp.where(even, factor * trapezoid + start, factor * midpoint)
    # 2 exp(-z²) / (1 ± exp(-2πiz/h)), with exp(2πiz/h) = q on both sides: |q| <= 1.
    q = lax.exp(-2 * math.pi / h * zy)
    q = lax.complex(q * jnp.cos(2 * math.pi * phase), q * jnp.sin(2 * math.pi * phase))
    size = 2 * exp_minus_square(zx) * lax.exp(zy * (zy - 2 * math.pi / h))
    angle = 2 * math.pi * phase - 2 * zx * zy
    residue = lax.complex(size * jnp.cos(angle), size * jnp.sin(angle))
    residue = residue / jnp.where(even, q - 1, q + 1)
    with_pole = (zy < zx) | (zy < math.pi / h)
    # Far up the residue is nothing, and its factors overflow.
    value = jnp.where(with_pole & (zy < 2 * math.pi / h), value + residue, value)
    return jnp.where(far, _reciprocal(x, y), value)


def _reciprocal(x: Array, y: Array) -> Array:
    """i / (√π z), without overflow."""
    size = jnp.maximum(jnp.maximum(x, y), 1)
    infinite = size == np.inf
    a = jnp.where(infinite, jnp.where(x == np.inf, 1, 0), x / jnp.where(infinite, 1, size))
    b = jnp.where(infinite, jnp.where(y == np.inf, 1, 0), y / jnp.where(infinite, 1, size))
    norm = math.sqrt(math.pi) * jnp.where(a + b == 0, 1, a * a + b * b)
    return lax.complex(b / norm / size, a / norm / size)


@custom_jvp
def _wofz(z: Array) -> Array:
    x, y = z.real, z.imag
    value = _first_quadrant(jnp.abs(x), jnp.abs(y))
    # In the lower half plane w(z̄) = 2 exp(-z̄²) - w(-z̄), and w(-z̄) is the conjugate of w(z).
    down, across = jnp.abs(y), jnp.abs(x)
    growth = 2 * lax.exp((down - across) * (down + across))
    turn = 2 * across * down
    reflected = lax.complex(
        jnp.where(growth == 0, 0, growth * jnp.cos(turn)),
        jnp.where((growth == 0) | (turn == 0), 0, growth * jnp.sin(turn)),
    ) - lax.complex(value.real, -value.imag)
    value = jnp.where(y < 0, reflected, value)
    value = lax.complex(value.real, jnp.where(x < 0, -value.imag, value.imag))
    bad = jnp.isnan(x) | jnp.isnan(y)
    return jnp.where(bad, jnp.asarray(complex(np.nan, np.nan), value.dtype), value)


_wofz.defjvps(lambda g, ans, z: g * (jnp.asarray(_TWO_OVER_SQRT_PI * 1j, z.dtype) - 2 * z * ans))


@one_program(None)
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function w(z) = exp(-z²) erfc(-iz).

    Args:
      z: real or complex, any shape.
    Returns:
      A complex array of the shape of `z`.
    Special cases: i / (√π z) for large z; overflows far below the real axis.
    Source: Al Azah & Chandler-Wilde (2021), modified trapezoidal rules; the error is below 1e-6
    (float32) and 1e-14 (float64) of |w(z)| in the upper half plane.  The derivative is
    2i/√π - 2 z w(z).

    >>> complex(wofz(1 + 1j)).__format__(".4f")
    '0.3047+0.2082j'
    """
    (z,) = promote_args_inexact("wofz", z)
    if jnp.iscomplexobj(z):
        return _wofz(z)
    if np.dtype(z.dtype).itemsize < 4:
        z = lax.convert_element_type(z, np.float32)
    return lax.complex(exp_minus_square_with_jvp(z), _TWO_OVER_SQRT_PI * _dawsn(z))


@custom_jvp
def exp_minus_square_with_jvp(x: Array) -> Array:
    """exp(-x²), differentiable."""
    return jnp.where(jnp.isnan(x), np.nan, exp_minus_square(x))


exp_minus_square_with_jvp.defjvps(lambda g, ans, x: -2 * g * x * ans)
