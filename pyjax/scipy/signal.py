"""Convolution and correlation, and the public names of the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import canonicalize_axes, promote_args_inexact
from pyjax.scipy._detrend import detrend as detrend
from pyjax.scipy._spectral import csd as csd
from pyjax.scipy._spectral import istft as istft
from pyjax.scipy._spectral import stft as stft
from pyjax.scipy._spectral import welch as welch

Array = Any
ArrayLike = Any
_MODES = ("full", "same", "valid")


def _check(name: str, in1: Array, in2: Array, mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"{name}: mode must be one of {_MODES}, got {mode!r}")
    if in1.size == 0 or in2.size == 0:
        raise ValueError(f"{name}: zero-size arrays not supported, got {in1.shape}, {in2.shape}")


def _promoted(name: str, in1: ArrayLike, in2: ArrayLike) -> tuple[Array, ...]:
    if np.ndim(in1) != np.ndim(in2):
        raise ValueError(
            f"{name}: in1 and in2 must have the same number of dimensions, got shapes "
            f"{np.shape(in1)} and {np.shape(in2)}"
        )
    return tuple(jnp.asarray(x) for x in promote_args_inexact(name, in1, in2))


def _larger_first(name: str, in1: Array, in2: Array, axes: Sequence[int]) -> tuple[Array, Array]:
    """For mode "valid": one input must be at least as large in every dimension."""
    if all(in1.shape[a] >= in2.shape[a] for a in axes):
        return in1, in2
    if all(in2.shape[a] >= in1.shape[a] for a in axes):
        return in2, in1
    raise ValueError(
        f"For 'valid' mode, one input of {name} must be at least as large as the other in every "
        f"dimension, got {in1.shape} and {in2.shape}"
    )


def _direct(name: str, in1: Array, in2: Array, mode: str, precision: Any) -> Array:
    if mode == "valid":
        in1, in2 = _larger_first(name, in1, in2, range(in1.ndim))
    pads = {
        "full": [(m - 1, m - 1) for m in in2.shape],
        "same": [(m // 2, (m - 1) // 2) for m in in2.shape],
        "valid": [(0, 0)] * in2.ndim,
    }[mode]
    out = lax.conv_general_dilated(
        in1[None, None],
        jnp.flip(in2)[None, None],
        window_strides=(1,) * in1.ndim,
        padding=pads,
        precision=precision,
    )
    return out[0, 0]


@one_program(2)
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None
) -> Array:
    """The convolution over `axes` (default: all) through Fourier transforms.

    Other axes are broadcast. `mode` is as for convolve.

    >>> fftconvolve(jnp.ones(2), jnp.ones(2)).round(3)
    Array([1., 2., 1.], dtype=float32)
    """
    in1, in2 = _promoted("fftconvolve", in1, in2)
    _check("fftconvolve", in1, in2, mode)
    over = canonicalize_axes(None if axes is None else axes, in1.ndim)
    for axis in range(in1.ndim):
        sizes = in1.shape[axis], in2.shape[axis]
        if axis not in over and sizes[0] != sizes[1] and 1 not in sizes:
            raise ValueError(f"fftconvolve: incompatible shapes {in1.shape} and {in2.shape}")
    if mode == "valid":
        in1, in2 = _larger_first("fftconvolve", in1, in2, over)
    full = [in1.shape[a] + in2.shape[a] - 1 for a in over]
    lengths = [_quick_length(n) for n in full]
    if jnp.iscomplexobj(in1):
        product = jnp.fft.fftn(in1, lengths, axes=over) * jnp.fft.fftn(in2, lengths, axes=over)
        out = jnp.fft.ifftn(product, lengths, axes=over)
    else:
        product = jnp.fft.rfftn(in1, lengths, axes=over) * jnp.fft.rfftn(in2, lengths, axes=over)
        out = jnp.fft.irfftn(product, lengths, axes=over)
    starts, limits = [0] * out.ndim, list(out.shape)
    for axis, size in zip(over, full):
        n, m = in1.shape[axis], in2.shape[axis]
        parts = {"full": (0, size), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}
        starts[axis], length = parts[mode]
        limits[axis] = starts[axis] + length
    return lax.slice(out, starts, limits)


def _quick_length(n: int) -> int:
    """The least even length of at least n whose only prime factors are 2, 3 and 5, of which
    transforms take few steps; up to 4, and where it is known at run time only, n itself."""
    if type(n) is not int or n <= 4:
        return n
    least = 1 << (n - 1).bit_length()
    fives = 1
    while fives < least:
        odd = fives
        while odd < least:
            rest = -(-n // odd)
            least = min(least, odd << max(1, (rest - 1).bit_length()))
            odd *= 3
        fives *= 5
    return least


def _convolve(
    name: str, in1: ArrayLike, in2: ArrayLike, mode: str, method: str, precision: Any
) -> Array:
    in1, in2 = _promoted(name, in1, in2)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    _check(name, in1, in2, mode)
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    return _direct(name, in1, in2, mode, precision)


@one_program(2)
def convolve(
    in1: Array, in2: Array, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The convolution of arrays with the same number of dimensions.

    Args:
      mode: "full"; "same": the centre, with the size of in1; "valid": only complete overlaps.
      method: "direct" (and "auto"), or "fft".
      precision: of the products (direct).

    >>> convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    return _convolve("convolve", in1, in2, mode, method, precision)


@one_program(2)
def correlate(
    in1: Array, in2: Array, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The cross-correlation: convolution with the reversed conjugate of in2; arguments as there.

    >>> correlate(jnp.array([1.0, 2.0]), jnp.array([1.0]), mode="same")
    Array([1., 2.], dtype=float32)
    """
    reversed2 = jnp.flip(jnp.conj(jnp.asarray(in2)))
    return _convolve("correlate", in1, reversed2, mode, method, precision)


def _two_dimensional(name: str, in1: Array, in2: Array, boundary: str, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name}() only supports boundary='fill', fillvalue=0; pad in1 with jnp.pad first."
        )
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs.")


@one_program(2)
def convolve2d(
    in1: Array,
    in2: Array,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """convolve for matrices; zeros beyond the borders.

    >>> convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode="valid")
    Array([[4.]], dtype=float32)
    """
    _two_dimensional("convolve2d", in1, in2, boundary, fillvalue)
    return _convolve("convolve2d", in1, in2, mode, "direct", precision)


@one_program(2)
def correlate2d(
    in1: Array,
    in2: Array,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """correlate for matrices; zeros beyond the borders.

    >>> correlate2d(jnp.ones((2, 2)), jnp.ones((2, 2)), mode="valid")
    Array([[4.]], dtype=float32)
    """
    _two_dimensional("correlate2d", in1, in2, boundary, fillvalue)
    in1, in2 = jnp.asarray(in1), jnp.asarray(in2)
    kernel = jnp.flip(jnp.conj(in2))
    if mode != "same":
        return _convolve("correlate2d", in1, kernel, mode, "direct", precision)
    # For kernels of even size the centre is the other of the two middle elements.
    full = _convolve("correlate2d", in1, kernel, "full", "direct", precision)
    starts = [m // 2 for m in in2.shape]
    return lax.slice(full, starts, [s + n for s, n in zip(starts, in1.shape)])
