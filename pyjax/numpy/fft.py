"""pyjax.numpy.fft: discrete Fourier transforms along one, two or several axes.

Arguments of all transforms: `n` (or `s`) cuts or zero-pads the transformed axes, `axis` (`axes`)
names them, `norm` is 'backward' (1/n on the inverse, the default), 'ortho' (1/sqrt(n) on both) or
'forward' (1/n on the forward transform).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.examples import with_example
from pyjax.numpy.manipulation import moveaxis, roll
from pyjax.numpy.ufuncs import conj, is_complex
from pyjax.runtime.placement import result_on

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_FORWARD = (lax.FftType.FFT, lax.FftType.RFFT)


def _scale(norm: Any, sizes: Sequence[int], forward: bool) -> float:
    """The factor on top of lax.fft's own 1/n for inverse transforms."""
    n = util.size_of(sizes)
    if norm in (None, "backward"):
        return 1.0
    if norm == "ortho":
        return n**-0.5 if forward else n**0.5
    if norm == "forward":
        return 1.0 / n if forward else float(n)
    raise new_error(
        ValueError, f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".'
    )


def _transform(name: str, kind: Any, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    full = f"jax.numpy.fft.{name}"
    a = util.ensure_arraylike(full, a)
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    axes = util.canonicalize_axes(tuple(axes), a.ndim, "axes")
    if s is not None and len(s) != len(axes):
        raise new_error(
            ValueError, f"{full}: s and axes must have the same length, got {s} and {axes}."
        )
    if s is not None and any(n is not None and n < 1 for n in s):
        raise new_error(
            ValueError, f"{full}: shape should be non-negative and nonzero, got {tuple(s)}."
        )
    if kind in (lax.FftType.RFFT,) and is_complex(a):
        raise new_error(TypeError, f"{full} only takes real input, got {a.dtype}; use {name[1:]}.")
    to_input = dtypes.to_inexact_dtype if kind is lax.FftType.RFFT else dtypes.to_complex_dtype
    a = util.convert(a, dtypes.canonicalize_dtype(to_input(a.dtype)))
    if a.dtype.itemsize == 2:
        a = util.convert(a, np.dtype(np.float32))
    sizes = [a.shape[i] for i in axes]
    if s is not None:
        sizes = [n if m is None else util.static_int(m, "s") for n, m in zip(sizes, s, strict=True)]
    elif kind is lax.FftType.IRFFT and axes:
        sizes[-1] = max(0, 2 * (sizes[-1] - 1))
    if any(n < 1 for n in sizes):
        return _transform_of_nothing(full, a, axes, sizes, kind)
    a = _resize(a, axes, sizes, kind)
    a = moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    out = _fft_last(a, kind, sizes)
    factor = _scale(norm, sizes, kind in _FORWARD)
    if factor != 1.0:
        out = lax.mul(out, np.asarray(factor, out.dtype))
    return moveaxis(out, tuple(range(out.ndim - len(axes), out.ndim)), axes)


def _transform_of_nothing(
    full: str, a: Any, axes: tuple[int, ...], sizes: list[int], kind: Any
) -> Any:
    """What a transform of no points gives: no frequencies, whatever its other axes are."""
    if kind is lax.FftType.RFFT and sizes[-1] < 1:
        raise new_error(
            ValueError,
            f"{full}: the axis that is halved must not be empty, got sizes {sizes}.\n"
            "  n // 2 + 1 frequencies of no points are one, which is no sum of anything.",
        )
    shape = list(a.shape)
    for axis, n in zip(axes, sizes, strict=True):
        shape[axis] = max(n, 0)
    if kind is lax.FftType.RFFT:
        shape[axes[-1]] = sizes[-1] // 2 + 1
    dtype = np.zeros((), a.dtype).real.dtype
    if kind is not lax.FftType.IRFFT:
        dtype = dtypes.to_complex_dtype(dtype)
    return lax.full(tuple(shape), 0, dtype)


def _resize(a: Any, axes: tuple[int, ...], sizes: list[int], kind: Any) -> Any:
    """Cut or pad the transformed axes; a real inverse reads n // 2 + 1 of its last axis."""
    config = [(0, 0, 0)] * a.ndim
    for place, axis in enumerate(axes):
        last = place == len(axes) - 1
        wanted = sizes[place] // 2 + 1 if kind is lax.FftType.IRFFT and last else sizes[place]
        config[axis] = (0, wanted - a.shape[axis], 0)
    if all(c == (0, 0, 0) for c in config):
        return a
    return lax.pad(a, np.zeros((), a.dtype), config)


def _fft_last(a: Any, kind: Any, sizes: list[int]) -> Any:
    """Transform of the last axes; lax.fft does up to three at a time."""
    if len(sizes) <= 3:
        return lax.fft(a, kind, tuple(sizes)) if sizes else a
    complex_kind = lax.FftType.FFT if kind in _FORWARD else lax.FftType.IFFT
    first, rest = sizes[:-3], sizes[-3:]
    if kind in _FORWARD:
        a = lax.fft(a, kind, tuple(rest))
        return _other_axes(a, complex_kind, first)
    return lax.fft(_other_axes(a, complex_kind, first), kind, tuple(rest))


def _other_axes(a: Any, kind: Any, sizes: list[int]) -> Any:
    for place, n in enumerate(sizes):
        axis = a.ndim - 3 - len(sizes) + place
        a = moveaxis(lax.fft(moveaxis(a, axis, -1), kind, (n,)), -1, axis)
    return a


def _check_one_axis(name: str, axis: Any) -> None:
    if axis is None or isinstance(axis, (list, tuple)):
        raise new_error(
            ValueError,
            f"jax.numpy.fft.{name} does not support multiple axes. Please use "
            f"jax.numpy.fft.{name}n. Got axis = {axis!r}.",
        )


_DETAILS = """

    `n` (or `s`) cuts the transformed axes or pads them with zeros, `axis` (or `axes`) names them.
    `norm`: 'backward' (1/n on the inverse, the default), 'ortho' (1/sqrt(n) on both) or 'forward'.
    float64, complex128 and integers of 64 bits give float64 or complex128, all other dtypes
    float32 or complex64.  A nan spoils the frequencies it is summed into.  Defined as in numpy.fft.

    Raises:
      ValueError: an axis that `a` has not, an unknown `norm`, or a size below 1.
      TypeError: a complex `a` for a transform of real ones."""


def _one_axis(name: str, kind: Any, doc: str) -> Callable[..., Any]:
    def fn(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
        _check_one_axis(name, axis)
        return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)

    return _documented(fn, name, doc)


def _two_axes(name: str, kind: Any, doc: str) -> Callable[..., Any]:
    def fn(
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] = (-2, -1),
        norm: str | None = None,
    ) -> Array:
        if len(axes) != 2:
            raise new_error(
                ValueError, f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}."
            )
        return _transform(name, kind, a, s, axes, norm)

    return _documented(fn, name, doc)


def _many_axes(name: str, kind: Any, doc: str) -> Callable[..., Any]:
    def fn(
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = None,
    ) -> Array:
        return _transform(name, kind, a, s, axes, norm)

    return _documented(fn, name, doc)


def _documented(fn: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    fn.__name__ = fn.__qualname__ = name
    fn.__module__ = "pyjax.numpy.fft"
    fn.__doc__ = with_example(name, doc + _DETAILS)
    return fn


fft = _one_axis("fft", lax.FftType.FFT, "Fourier transform along one axis.")
ifft = _one_axis("ifft", lax.FftType.IFFT, "Inverse Fourier transform along one axis.")
rfft = _one_axis("rfft", lax.FftType.RFFT, "Transform of a real array: n // 2 + 1 frequencies.")
irfft = _one_axis("irfft", lax.FftType.IRFFT, "Real inverse of `rfft`; n defaults to 2 (m - 1).")
fft2 = _two_axes("fft2", lax.FftType.FFT, "Fourier transform along two axes.")
ifft2 = _two_axes("ifft2", lax.FftType.IFFT, "Inverse Fourier transform along two axes.")
rfft2 = _two_axes("rfft2", lax.FftType.RFFT, "Transform of a real array along two axes.")
irfft2 = _two_axes("irfft2", lax.FftType.IRFFT, "Real inverse of `rfft2`.")
fftn = _many_axes("fftn", lax.FftType.FFT, "Fourier transform along several axes.")
ifftn = _many_axes("ifftn", lax.FftType.IFFT, "Inverse Fourier transform along several axes.")
rfftn = _many_axes("rfftn", lax.FftType.RFFT, "Transform of a real array along several axes.")
irfftn = _many_axes("irfftn", lax.FftType.IRFFT, "Real inverse of `rfftn`.")

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _swapped(norm: Any) -> str:
    if norm not in _SWAPPED:
        raise new_error(
            ValueError, f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".'
        )
    return _SWAPPED[norm]


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Transform of a signal with Hermitian symmetry, given by its first half: a real spectrum.

    >>> hfft(jnp.ones(3)).shape
    (4,)
    """
    a = util.ensure_arraylike("jax.numpy.fft.hfft", a)
    _check_one_axis("hfft", axis)
    return irfft(conj(a), n, axis, _swapped(norm))


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `hfft`.

    >>> ihfft(jnp.ones(4)).real
    Array([1., 0., 0.], dtype=float32)
    """
    a = util.ensure_arraylike("jax.numpy.fft.ihfft", a)
    _check_one_axis("ihfft", axis)
    return conj(rfft(a, n, axis, _swapped(norm)))


def _frequencies(name: str, n: Any, d: Any, dtype: Any, device: Any, real: bool) -> Any:
    if isinstance(n, (list, tuple)) or isinstance(d, (list, tuple)):
        raise new_error(
            ValueError,
            f"The n and d arguments of jax.numpy.fft.{name} only take scalars. Got n={n}, d={d}.",
        )
    n = util.static_int(n, "n")
    dtype = util.check_user_dtype(dtype, name) or dtypes.canonicalize_dtype(np.float64)
    if real:
        places = np.arange(0, n // 2 + 1)
    else:
        places = np.concatenate([np.arange(0, (n - 1) // 2 + 1), np.arange(-(n // 2), 0)])
    values = util.convert(util.as_array(places.astype(dtype)), dtype)
    out = lax.div(*util.promote_args(name, values, util.convert(d, dtype) * np.asarray(n, dtype)))
    return result_on(out, device)


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """Frequencies of the bins of `fft`, in cycles per unit of the sample spacing `d`.

    >>> fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, dtype, device, False)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """Frequencies of the bins of `rfft`.

    >>> rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", n, d, dtype, device, True)


def _shift(name: str, x: Any, axes: Any, sign: int) -> Any:
    x = util.ensure_arraylike(name, x)
    axes = util.canonicalize_axes(axes, x.ndim, "axes")
    shifts = [x.shape[i] // 2 if sign > 0 else -(x.shape[i] // 2) for i in axes]
    return roll(x, tuple(shifts), axes) if axes else x


def fftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Frequency zero moved to the middle.

    >>> fftshift(jnp.arange(4))
    Array([2, 3, 0, 1], dtype=int32)
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Any = None) -> Array:
    """Inverse of `fftshift`.

    >>> ifftshift(fftshift(jnp.arange(4)))
    Array([0, 1, 2, 3], dtype=int32)
    """
    return _shift("ifftshift", x, axes, -1)
