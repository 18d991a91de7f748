"""The discrete cosine transform of type 2 and its inverse, of real and complex arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core import dtypes
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import canonicalize_axes, canonicalize_axis, promote_args_inexact

Array = Any


def _check(name: str, type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError(
            f"{name}: only DCT type 2 is implemented, got type {type}. "
            "Write the others with fft, of an extended sequence."
        )
    if norm not in (None, "ortho", "backward"):
        raise ValueError(f"{name}: norm must be None, 'backward' or 'ortho', got {norm!r}")


def _resized(x: Array, n: int | None, axis: int) -> Array:
    """x with zeros appended, or cut, to size n along `axis`."""
    if n is None or n == x.shape[axis]:
        return x
    if n < 1:
        raise ValueError(f"number of data points must be positive, got {n}")
    if n < x.shape[axis]:
        return lax.slice_in_dim(x, 0, n, axis=axis)
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, n - x.shape[axis])
    return jnp.pad(x, pads)


def _row(values: np.ndarray, x: Array, dtype: Any) -> np.ndarray:
    """Factors for the last axis of `x`, of its rank."""
    return values.reshape((1,) * (x.ndim - 1) + (-1,)).astype(dtype)


def _phase(n: int, sign: int) -> np.ndarray:
    return np.exp(sign * 0.5j * np.pi * np.arange(n) / n)


def _orthonormal(n: int) -> np.ndarray:
    """Factors of the coefficients that make the transform orthogonal."""
    factors = np.full(n, np.sqrt(0.5 / n))
    factors[0] = np.sqrt(0.25 / n)
    return factors


def _cosines(v: Array, ortho: bool) -> Array:
    """The transform of real vectors along the last axis."""
    size = v.shape[-1]
    v = jnp.concatenate([v[..., ::2], jnp.flip(v[..., 1::2], -1)], axis=-1)
    spectrum = jnp.fft.fft(v)
    out = 2 * (spectrum * _row(_phase(size, -1), v, spectrum.dtype)).real.astype(v.dtype)
    return out * _row(_orthonormal(size), v, v.dtype) if ortho else out


def _from_cosines(c: Array, ortho: bool) -> Array:
    """The inverse of `_cosines`."""
    size = c.shape[-1]
    if ortho:
        c = c / _row(_orthonormal(size), c, c.dtype)
    mirrored = jnp.concatenate([jnp.zeros_like(c[..., :1]), jnp.flip(c[..., 1:], -1)], axis=-1)
    if c.dtype.itemsize == 2:  # complex numbers have parts of 32 bits at least
        c, mirrored = c.astype(np.float32), mirrored.astype(np.float32)
    spectrum = lax.complex(c, -mirrored)
    v = jnp.fft.ifft(spectrum * _row(0.5 * _phase(size, 1), c, spectrum.dtype)).real
    half = (size + 1) // 2
    out = jnp.zeros_like(v).at[..., ::2].set(v[..., :half])
    return out.at[..., 1::2].set(jnp.flip(v[..., half:], -1))


def _along(
    name: str,
    transform: Callable[[Array, bool], Array],
    x: Array,
    n: int | None,
    axis: int,
    norm: str | None,
) -> Array:
    (x,) = promote_args_inexact(name, x)
    x = jnp.asarray(x)
    along = canonicalize_axis(axis, x.ndim)
    v = jnp.moveaxis(_resized(x, n, along), along, -1)
    ortho = norm == "ortho"
    if dtypes.issubdtype(x.dtype, np.complexfloating):  # linear: one part after the other
        out = lax.complex(transform(v.real, ortho), transform(v.imag, ortho))
    else:
        out = transform(v, ortho).astype(x.dtype)
    return jnp.moveaxis(out, -1, along)


@one_program()
def dct(
    x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """2 Σ x_j cos(π k (2j + 1) / 2n) along `axis` (type 2 only), through an FFT of the same size.

    Args:
      x: real, or complex (then both parts are transformed).
      n: size to cut or pad (with zeros) to.
      norm: None, or "ortho" for an orthogonal transform.
    >>> [round(c, 4) for c in dct(jnp.array([1.0, 2.0])).tolist()]
    [6.0, -1.4142]
    """
    _check("dct", type, norm)
    return _along("dct", _cosines, x, n, axis, norm)


@one_program()
def idct(
    x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of dct with the same arguments.

    >>> idct(jnp.array([2.0, 0.0])).round(3)
    Array([0.5, 0.5], dtype=float32)
    """
    _check("idct", type, norm)
    return _along("idct", _from_cosines, x, n, axis, norm)


def _over_axes(
    transform: Any, x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Array:
    x = jnp.asarray(x)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = canonicalize_axes(tuple(axes), x.ndim)
    sizes = [None] * len(axes) if s is None else list(s)
    if len(sizes) != len(axes):
        raise ValueError(f"s has {len(sizes)} sizes for {len(axes)} axes")
    for axis, size in zip(axes, sizes):
        x = transform(x, n=size, axis=axis, norm=norm)
    return x


@one_program()
def dctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """dct along several axes (default: all).

    >>> dctn(jnp.ones((2, 2)))[0, 0]
    Array(16., dtype=float32)
    """
    _check("dctn", type, norm)
    return _over_axes(dct, x, s, axes, norm)


@one_program()
def idctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of dctn with the same arguments.

    >>> idctn(jnp.array([[4.0, 0.0], [0.0, 0.0]])).round(3)[0, 0]
    Array(0.25, dtype=float32)
    """
    _check("idctn", type, norm)
    return _over_axes(idct, x, s, axes, norm)
