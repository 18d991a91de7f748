"""Spherical harmonics, and the Bessel functions of the first kind of whole orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.jvp import jvp
from pyjax.core.errors import ConcretizationTypeError
from pyjax.numpy.util import concrete_or_none, promote_args_inexact, static_int

Array = Any
ArrayLike = Any


def _normalised_legendre(degree: int, cosine: Array, sine: Array) -> list[list[Array]]:
    """Associated Legendre functions P[n][m], 0 ≤ m ≤ n ≤ degree, times the factor that makes
    spherical harmonics orthonormal, with the phase (-1)^m."""
    table: list[list[Array]] = []
    for n in range(degree + 1):
        row = []
        for m in range(n + 1):
            if n == 0:
                value = jnp.full_like(cosine, float(np.sqrt(0.25 / np.pi)))
            elif m == n:
                value = -float(np.sqrt((2 * n + 1) / (2 * n))) * sine * table[n - 1][n - 1]
            else:
                # The recurrence over degrees (Holmes & Featherstone 2002, section 2.1).
                factor = float(np.sqrt((4 * n * n - 1) / (n * n - m * m)))
                value = factor * cosine * table[n - 1][m]
                if m <= n - 2:
                    before = float(np.sqrt(((n - 1) ** 2 - m * m) / (4 * (n - 1) ** 2 - 1)))
                    value = value - factor * before * table[n - 2][m]
            row.append(value)
        table.append(row)
    return table


def sph_harm_y(
    n: Array,
    m: Array,
    theta: Array,
    phi: Array,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics of degree `n` and order `m`, orthonormal, with the phase (-1)^m.

    Args:
      n, m: integers; 0 where |m| > n.  theta: polar angle in [0, π].  phi: azimuth.
        All four broadcast together.
      diff_n: only None: derivatives come from `grad` and `jvp`.
      n_max: the largest degree, a static int; needed where `n` is traced.
    Returns:
      complex array.
    Raises:
      ConcretizationTypeError: `n` is traced and `n_max` is not given.

    >>> complex(sph_harm_y(1, 0, 0.0, 0.0)).real.__format__(".4f")
    '0.4886'
    """
    if diff_n:
        raise NotImplementedError(
            "sph_harm_y with diff_n > 0 is not implemented: differentiate it with jvp or grad."
        )
    degrees = jnp.asarray(n)
    if n_max is None:
        concrete = concrete_or_none(degrees)
        if concrete is None:
            raise ConcretizationTypeError(
                degrees, "The n_max argument of sph_harm_y must be given if n is traced."
            )
        n_max = int(np.max(concrete, initial=0))
    n_max = static_int(n_max, "n_max")
    theta, phi = promote_args_inexact("sph_harm_y", theta, phi)
    degrees, orders, theta, phi = jnp.broadcast_arrays(degrees, jnp.asarray(m), theta, phi)
    table = _normalised_legendre(n_max, jnp.cos(theta), jnp.sin(theta))
    size = jnp.abs(orders)
    value = jnp.zeros_like(theta)
    for degree, row in enumerate(table):
        for order, entry in enumerate(row):
            value = jnp.where((degrees == degree) & (size == order), entry, value)
    odd_and_negative = (orders < 0) & (orders % 2 != 0)
    value = jnp.where(odd_and_negative, -value, value)
    turn = orders.astype(theta.dtype) * phi
    return lax.complex(value * jnp.cos(turn), value * jnp.sin(turn))


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind J_0(z) … J_v(z), stacked along a new first axis.

    Args:
      z: real.  v: the largest order, a static int.
      n_iter: where Miller's backward recurrence begins; larger than |z| and `v` by a good deal.
    Returns:
      [v + 1, ...] with the shape of z.
    Accuracy: within 4 units in the last place, of 1 where the result is smaller.

    >>> [round(x, 4) for x in bessel_jn(jnp.array(1.0), v=1).tolist()]
    [0.7652, 0.4401]
    """
    (z,) = promote_args_inexact("bessel_jn", z)
    order, steps = static_int(v, "v"), static_int(n_iter, "n_iter")
    z = jnp.asarray(z)
    tiny = jnp.abs(z) < 1e-3  # where the recurrence would overflow
    safe = jnp.where(tiny, 1, z)
    big = 1e10
    following, current = jnp.zeros_like(z), jnp.full_like(z, 1e-30)
    total = jnp.zeros_like(z)
    kept: list[Array] = []
    for k in range(max(steps, order + 1), 0, -1):
        previous = 2 * k / safe * current - following
        # Rescaled before it overflows; what was kept and summed with it.
        scale = jnp.where(jnp.abs(previous) > big, 1 / big, 1).astype(z.dtype)
        following, current, total = current * scale, previous * scale, total * scale
        kept = [x * scale for x in kept]
        if k - 1 <= order:
            kept.append(current)
        if (k - 1) % 2 == 0:  # 1 = J_0 + 2 J_2 + 2 J_4 + …
            total = total + (current if k == 1 else 2 * current)
    values = jnp.stack(kept[::-1]) / total[None]
    near_zero = jnp.stack([_bessel_near_zero(k, jnp.where(tiny, z, 0)) for k in range(order + 1)])
    return jnp.where(tiny[None], near_zero, values)


def _bessel_near_zero(order: int, z: Array) -> Array:
    """J of an order by the first terms of its power series (DLMF 10.2.2)."""
    half = z / 2
    square = half * half
    first = half**order / math.factorial(order) if order else jnp.ones_like(z)
    return first * (1 - square / (order + 1) * (1 - square / (2 * (order + 2))))


def _legendre_degree(m: int, n: int, z: Array) -> int:
    """The degree of a table of Legendre functions, its arguments checked."""
    if z.ndim != 1:
        raise ValueError(f"z must be a 1D array, got {z.ndim} dimensions; use z.ravel() or vmap.")
    if z.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"{z.dtype=!s} is not supported: Legendre functions take float32 and float64."
        )
    if m != n:
        raise NotImplementedError(
            f"Computations for m!=n are not supported, got m={m}, n={n}: use m=n, and take the "
            "rows that are needed."
        )
    return static_int(n, "n")


def lpmn_values(m: int, n: int, z: Array, is_normalized: bool) -> Array:
    """Associated Legendre functions P_l^k(z) of all orders k and degrees l up to m = n.

    Args:
      m, n: the largest order and degree, equal static ints.
      z: float32 or float64 [points], in [-1, 1].
      is_normalized: with the factor that makes spherical harmonics orthonormal.
    Returns:
      [n + 1, n + 1, points]: entry [k, l] is order k, degree l, with the phase (-1)^k; 0 for k > l.
    Raises:
      ValueError: z is not one-dimensional.   TypeError: another dtype.
      NotImplementedError: m != n.
    Source: DLMF 14.10.3 for rising degrees, as `sph_harm_y`.

    >>> lpmn_values(1, 1, jnp.array([0.5]), False)[:, 1, 0].round(4).tolist()
    [0.5, -0.8659999966621399]
    """
    degree = _legendre_degree(m, n, z)
    # Orders need sqrt(1 - z²): nan outside of [-1, 1], where whole degrees of order 0 are not.
    sine = jnp.sqrt((1 - z) * (1 + z))
    table = _normalised_legendre(degree, z, sine)
    rows = []
    for k in range(degree + 1):
        row = []
        for l in range(degree + 1):
            if k > l:
                row.append(jnp.zeros_like(z))
                continue
            log_ratio = math.lgamma(l - k + 1) - math.lgamma(l + k + 1)
            norm = math.sqrt((2 * l + 1) / (4 * math.pi)) * math.exp(log_ratio / 2)
            row.append(table[l][k] if is_normalized else table[l][k] / norm)
        rows.append(jnp.stack(row))
    return jnp.stack(rows)


def lpmn(m: int, n: int, z: Array) -> tuple[Array, Array]:
    """Associated Legendre functions P_l^k(z) up to m = n, and their derivatives by z.

    Args:
      m, n: the largest order and degree, equal static ints.
      z: float32 or float64 [points], in [-1, 1].
    Returns:
      Two arrays [n + 1, n + 1, points]: entry [k, l] is order k, degree l, with the phase (-1)^k.
    Raises:
      ValueError: z is not one-dimensional.   TypeError: another dtype.
      NotImplementedError: m != n.
    Special cases: derivatives of odd orders are infinite at ±1.
    Source: DLMF 14.10.3, and its derivative.

    >>> lpmn(1, 1, jnp.array([0.5]))[1][0, :, 0].tolist()
    [0.0, 1.0]
    """
    values = lpmn_values(m, n, z, False)
    return values, jvp(lambda z: lpmn_values(m, n, z, False), (z,), (jnp.ones_like(z),))[1]
