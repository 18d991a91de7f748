"""Window functions for signal processing: bartlett, blackman, hamming, hanning, kaiser."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.numpy import util
from pyjax.numpy.arithmetic import i0
from pyjax.numpy.eager import one_program

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _places(name: str, M: Any) -> tuple[int, Any]:
    size = util.static_int(M, f"M argument of jnp.{name}")
    return size, lax.iota(dtypes.canonicalize_dtype(np.float64), max(size, 0))


def _cosines(name: str, M: Any, coefficients: tuple[float, ...]) -> Any:
    """Sum of a_k cos(2 pi k n / (M - 1)), the form of most windows; ones for M <= 1."""
    size, n = _places(name, M)
    if size <= 1:
        return lax.full((max(size, 0),), 1, n.dtype)
    out: Any = lax.full_like(n, coefficients[0])
    for k, a in enumerate(coefficients[1:], 1):
        angle = n * np.asarray(2 * np.pi * k / (size - 1), n.dtype)
        out = out + lax.cos(angle) * np.asarray(a, n.dtype)
    return out


def blackman(M: int) -> Array:
    """Blackman window of M points.

    >>> jnp.blackman(3).round(4)
    Array([-0.,  1., -0.], dtype=float32)
    """
    return _cosines("blackman", M, (0.42, -0.5, 0.08))


def hamming(M: int) -> Array:
    """Hamming window of M points.

    >>> jnp.hamming(3).round(4)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _cosines("hamming", M, (0.54, -0.46))


def hanning(M: int) -> Array:
    """Hann window of M points, zero at both ends.

    >>> jnp.hanning(3).round(4)
    Array([0., 1., 0.], dtype=float32)
    """
    return _cosines("hanning", M, (0.5, -0.5))


def bartlett(M: int) -> Array:
    """Triangular window of M points, zero at both ends.

    >>> jnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    size, n = _places("bartlett", M)
    if size <= 1:
        return lax.full((max(size, 0),), 1, n.dtype)
    return 1 - lax.abs(2 * n + 1 - size) / np.asarray(size - 1, n.dtype)


def kaiser(M: int, beta: Any) -> Array:
    """Kaiser window of M points with shape parameter `beta`.

    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    size, n = _places("kaiser", M)
    if size <= 1:
        return lax.full((max(size, 0),), 1, n.dtype)
    return _kaiser(n, beta)


@one_program(2)
def _kaiser(n: Any, beta: Any) -> Any:
    alpha = np.asarray(0.5 * (n.shape[0] - 1), n.dtype)
    beta = util.convert(beta, n.dtype)
    inside = 1 - lax.square((n - alpha) / alpha)
    return i0(beta * lax.sqrt(lax.max(inside, lax.full_like(inside, 0)))) / i0(beta)
