"""The discrete cosine transform of type 2 and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.util import canonicalize_axes, canonicalize_axis, promote_args_inexact

Array = Any


def _check(name: str, type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError(f"{name}: only DCT type 2 is implemented, got type {type}.")
    if norm not in (None, "ortho", "backward"):
        raise ValueError(f"{name}: norm must be None, 'backward' or 'ortho', got {norm!r}")


def _resized(x: Array, n: int | None, axis: int) -> Array:
    """x with zeros appended, or cut, to size n along `axis`."""
    if n is None or n == x.shape[axis]:
        return x
    if n < 1:
        raise ValueError(f"number of data points must be positive, got {n}")
    if n < x.shape[axis]:
        return jnp.take(x, np.arange(n), axis=axis)
    pads = [(0, 0)] * x.ndim
    pads[axis] = (0, n - x.shape[axis])
    return jnp.pad(x, pads)


def _phase(n: int, sign: int, dtype: Any) -> np.ndarray:
    kind = np.complex128 if dtype == np.float64 else np.complex64
    return np.exp(sign * 0.5j * np.pi * np.arange(n) / n).astype(kind)


def _orthonormal(n: int, dtype: Any) -> np.ndarray:
    """Factors of the coefficients that make the transform orthogonal."""
    factors = np.full(n, np.sqrt(0.5 / n))
    factors[0] = np.sqrt(0.25 / n)
    return factors.astype(dtype)


def _real(name: str, x: Array) -> Array:
    (x,) = promote_args_inexact(name, x)
    if jnp.iscomplexobj(x):
        raise TypeError(f"{name}: complex input is not supported; transform both parts.")
    return x


def dct(
    x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """2 Σ x_j cos(π k (2j + 1) / 2n) along `axis` (type 2 only), through an FFT of the same size.

    Args:
      n: size to cut or pad (with zeros) to.
      norm: None, or "ortho" for an orthogonal transform.
    """
    _check("dct", type, norm)
    x = _real("dct", x)
    along = canonicalize_axis(axis, x.ndim)
    v = jnp.moveaxis(_resized(x, n, along), along, -1)
    size = v.shape[-1]
    v = jnp.concatenate([v[..., ::2], jnp.flip(v[..., 1::2], -1)], axis=-1)
    out = 2 * (jnp.fft.fft(v) * _phase(size, -1, x.dtype)).real
    if norm == "ortho":
        out = out * _orthonormal(size, x.dtype)
    return jnp.moveaxis(out, -1, along)


def idct(
    x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of dct with the same arguments."""
    _check("idct", type, norm)
    x = _real("idct", x)
    along = canonicalize_axis(axis, x.ndim)
    c = jnp.moveaxis(_resized(x, n, along), along, -1)
    size = c.shape[-1]
    if norm == "ortho":
        c = c / _orthonormal(size, x.dtype)
    mirrored = jnp.concatenate([jnp.zeros_like(c[..., :1]), jnp.flip(c[..., 1:], -1)], axis=-1)
    spectrum = (c - 1j * mirrored) * (0.5 * _phase(size, 1, x.dtype))
    v = jnp.fft.ifft(spectrum).real
    half = (size + 1) // 2
    out = jnp.zeros_like(v).at[..., ::2].set(v[..., :half])
    out = out.at[..., 1::2].set(jnp.flip(v[..., half:], -1))
    return jnp.moveaxis(out, -1, along)


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


def dctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """dct along several axes (default: all)."""
    _check("dctn", type, norm)
    return _over_axes(dct, x, s, axes, norm)


def idctn(
    x: Array,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of dctn with the same arguments."""
    _check("idctn", type, norm)
    return _over_axes(idct, x, s, axes, norm)
