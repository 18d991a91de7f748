"""Spectra of short segments of signals: stft, istft, csd, welch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.signal import get_window

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.source_info import warn_user
from pyjax.numpy.util import canonicalize_axis, check_arraylike, promote_dtypes_inexact
from pyjax.scipy._detrend import detrend as remove_trend

Array = Any
ArrayLike = Any
_BOUNDARIES = (None, "zeros", "even", "odd", "constant")


class _Segments(NamedTuple):
    """How a signal is cut: the window's values, and sizes in samples."""

    window: np.ndarray
    length: int
    step: int
    fft: int


def _segments(window: Any, length: int | None, overlap: int | None, fft: int | None, n: int) -> Any:
    """The cutting of `n` samples: defaults filled in, and what does not fit refused."""
    if isinstance(window, (str, tuple)):
        length = 256 if length is None else int(length)
        if length > n:
            warn_user(f"nperseg={length} is greater than signal length {n}, using nperseg={n}")
            length = n
        if length < 1:
            raise ValueError(f"nperseg must be a positive integer, got {length}")
        values = get_window(window, length)
    else:
        values = np.asarray(window)
        if values.ndim != 1 or (length is not None and len(values) != length):
            raise ValueError(
                f"window must be one-dimensional and as long as nperseg={length}, got shape "
                f"{values.shape}"
            )
        length = len(values)
        if length > n:
            raise ValueError(f"window is longer than input signal: {length} > {n}")
    overlap = length // 2 if overlap is None else int(overlap)
    fft = length if fft is None else int(fft)
    if overlap >= length:
        raise ValueError(f"noverlap must be less than nperseg, got {overlap} and {length}.")
    if fft < length:
        raise ValueError(f"nfft must be greater than or equal to nperseg, got {fft} and {length}.")
    return _Segments(values, length, length - overlap, fft)


def _extended(x: Array, boundary: str | None, n: int) -> Array:
    """`x` with `n` samples more at both ends of the last axis."""
    if boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: {_BOUNDARIES}")
    if boundary is None or n < 1:
        return x
    pads = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary == "zeros":
        return jnp.pad(x, pads)
    if boundary == "constant":
        return jnp.pad(x, pads, mode="edge")
    return jnp.pad(x, pads, mode="reflect", reflect_type=boundary)


def _transforms(x: Array, cut: _Segments, detrend: Any, onesided: bool) -> Array:
    """Windowed transforms [..., segment, frequency] along the last axis of `x`."""
    count = (x.shape[-1] - cut.length) // cut.step + 1
    places = np.arange(count)[:, None] * cut.step + np.arange(cut.length)
    pieces = x[..., places]
    if callable(detrend):
        pieces = detrend(pieces)
    elif detrend:
        pieces = remove_trend(pieces, type=detrend)
    window = cut.window.reshape((1,) * (pieces.ndim - 1) + (-1,)).astype(x.real.dtype)
    transform = jnp.fft.rfft if onesided else jnp.fft.fft
    return transform(pieces * window.astype(pieces.dtype), n=cut.fft)


def _along_axis(name: str, x: Any, axis: int) -> Array:
    check_arraylike(name, x)
    (x,) = promote_dtypes_inexact(jnp.asarray(x))
    return jnp.moveaxis(x, canonicalize_axis(axis, x.ndim), -1)


def _nothing(first: Array, second: Array) -> Array:
    """What there is of frequencies, times and densities of signals without samples."""
    outer = np.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    size = min(first.shape[-1], second.shape[-1])
    return jnp.zeros((*outer, size), first.real.dtype)


def _frequencies(cut: _Segments, fs: Any, onesided: bool, dtype: Any) -> Array:
    make = jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq
    return make(cut.fft, 1 / fs, dtype=dtype)


def _times(count: int, cut: _Segments, fs: Any, start: float, dtype: Any) -> Array:
    return jnp.asarray((start + cut.step * np.arange(count)).astype(dtype)) / jnp.asarray(fs, dtype)


def stft(
    x: Array,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform along `axis`.

    Args:
      fs: samples per unit of time.
      window: a name (or tuple) of `scipy.signal.get_window`, or the values.
      nperseg, noverlap: samples of a segment, and how many two neighbours share (default half).
      nfft: length of the transforms, if segments are to be padded with zeros.
      detrend: False, "constant", "linear" or a function of segments.
      return_onesided: of real signals only frequencies from 0 on.
      boundary: how the signal goes on by half a segment at both ends: None, "zeros", "even", "odd"
        or "constant".
      padded: append zeros so that the last segment is whole.
    Returns:
      (frequencies, times, Zxx): `axis` of Zxx is that of frequencies, the last one that of times.
    Raises:
      ValueError: sizes do not fit together.

    >>> [part.shape for part in stft(jnp.ones(64), nperseg=16)]
    [(9,), (9,), (9, 9)]
    """
    x = _along_axis("stft", x, axis)
    if x.size == 0:
        none = _nothing(x, x)
        return none, none, none.astype(jnp.result_type(none, np.complex64))
    cut = _segments(window, nperseg, noverlap, nfft, x.shape[-1])
    onesided = return_onesided and not jnp.iscomplexobj(x)
    x = _extended(x, boundary, cut.length // 2)
    if padded:
        rest = -(x.shape[-1] - cut.length) % cut.step % cut.length
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)])
    real = x.real.dtype
    result = _transforms(x, cut, detrend, onesided)
    result = result * np.asarray(1 / cut.window.sum(), result.dtype)
    start = 0.0 if boundary is not None else cut.length / 2
    times = _times(result.shape[-2], cut, fs, start, real)
    moved = jnp.moveaxis(jnp.swapaxes(result, -1, -2), -2, axis - 1 if axis < 0 else axis)
    return _frequencies(cut, fs, onesided, real), times, moved


def istft(
    Zxx: Array,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal of a short-time Fourier transform, by overlapping and adding.

    Args:
      Zxx: what `stft` gave.  Other arguments are those that it had.
      boundary: whether the signal was extended at its ends, which are then cut off.
    Returns:
      (times, signal), the signal's axis last.
    Raises:
      ValueError: fewer than two dimensions, or sizes that do not fit together.

    >>> x = jnp.sin(jnp.arange(64.0))
    >>> _, _, z = pyjax.scipy.signal.stft(x, nperseg=16)
    >>> t, back = pyjax.scipy.signal.istft(z, nperseg=16)
    >>> jnp.allclose(back, x, atol=1e-5).item()
    True
    """
    check_arraylike("istft", Zxx)
    z = jnp.asarray(Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    axes = canonicalize_axis(freq_axis, z.ndim), canonicalize_axis(time_axis, z.ndim)
    if axes[0] == axes[1]:
        raise ValueError("Must specify differing time and frequency axes!")
    z = jnp.moveaxis(z, axes, (-1, -2))
    count, bins = z.shape[-2:]
    full = 2 * (bins - 1) if input_onesided else bins
    if nperseg is None and isinstance(window, (str, tuple)):
        nperseg = full
    length = len(window) if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == full + 1 else full
    cut = _segments(window, length, noverlap, nfft, length)
    inverse = jnp.fft.irfft if input_onesided else jnp.fft.ifft
    pieces = inverse(z, n=cut.fft)[..., : cut.length]
    values = (cut.window * cut.window.sum()).reshape((1,) * (pieces.ndim - 1) + (-1,))
    pieces = pieces * values.astype(pieces.dtype)
    size = cut.length + (count - 1) * cut.step
    places = np.arange(count)[:, None] * cut.step + np.arange(cut.length)
    signal = jnp.zeros((*pieces.shape[:-2], size), pieces.dtype).at[..., places].add(pieces)
    norm = np.zeros(size)
    for row in places:
        norm[row] += cut.window**2
    if boundary:
        half = cut.length // 2
        signal, norm = signal[..., half : size - half], norm[half : size - half]
    if np.any(norm <= 1e-10):
        warn_user("NOLA condition failed, STFT may not be invertible")
    norm = np.where(norm > 1e-10, norm, 1.0).reshape((1,) * (signal.ndim - 1) + (-1,))
    signal = signal / norm.astype(signal.dtype)
    real = signal.real.dtype
    times = jnp.asarray(np.arange(signal.shape[-1]).astype(real)) / jnp.asarray(fs, real)
    return times, signal


def csd(
    x: Array,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross power spectral density conj(X) Y by Welch's method, along `axis`.

    Args:
      y: of the size of `x` along `axis` (shorter ones are padded with zeros); None means `x`, and
        the density is real then.
      scaling: "density" (power per frequency) or "spectrum" (power).
      average: "mean" or "median" of the segments.  Others as for `stft`.
    Returns:
      (frequencies, density); frequencies take the place of `axis`. Both are empty if a signal is.
    Raises:
      ValueError: unknown scaling or average, or sizes that do not fit together.

    >>> [part.shape for part in csd(jnp.ones(64), jnp.ones(64), nperseg=16)]
    [(9,), (9,)]
    """
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling}")
    if average not in ("mean", "median"):
        raise ValueError(f"Unknown average method: {average}. Must be 'mean' or 'median'")
    first = _along_axis("csd", x, axis)
    second = first if y is None or y is x else _along_axis("csd", y, axis)
    same = second is first
    if first.size == 0 or second.size == 0:
        none = _nothing(first, second)
        return none, none if y is None else none.astype(jnp.result_type(none, np.complex64))
    if not same:
        first, second = promote_dtypes_inexact(first, second)
        n = max(first.shape[-1], second.shape[-1])
        first, second = (
            jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, n - a.shape[-1])]) for a in (first, second)
        )
    cut = _segments(window, nperseg, noverlap, nfft, first.shape[-1])
    onesided = return_onesided and not jnp.iscomplexobj(first)
    real = first.real.dtype
    power = float(np.sum(cut.window**2)) if scaling == "density" else float(cut.window.sum()) ** 2
    transformed = _transforms(first, cut, detrend, onesided)
    other = transformed if same else _transforms(second, cut, detrend, onesided)
    result = jnp.conj(transformed) * other
    scale = jnp.asarray(1 / power, real)
    if scaling == "density":
        scale = scale / jnp.asarray(fs, real)
    result = result * lax.convert_element_type(scale, result.dtype)
    if onesided:  # each stands for a pair, but for the first and, of even sizes, the last
        pairs = np.full(result.shape[-1], 2.0)
        pairs[0] = 1
        if cut.fft % 2 == 0:
            pairs[-1] = 1
        result = result * pairs.reshape((1,) * (result.ndim - 1) + (-1,)).astype(result.dtype)
    if average == "median":
        bias = 1 + float(np.sum([1 / (i + 1) - 1 / i for i in range(2, result.shape[-2], 2)]))
        parts = (jnp.median(result.real, axis=-2), jnp.median(result.imag, axis=-2))
        result = lax.complex(*parts) / np.asarray(bias, result.dtype)
    else:
        result = jnp.mean(result, axis=-2)
    if y is None:
        result = result.real
    return _frequencies(cut, fs, onesided, real), jnp.moveaxis(result, -1, axis)


def welch(
    x: Array,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density by Welch's method: `csd` of `x` with itself.

    >>> [part.shape for part in welch(jnp.ones(64), nperseg=16)]
    [(9,), (9,)]
    """
    return csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )
