"""Fast Fourier transforms over the last one to three dimensions."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.dtypes import to_inexact_dtype
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import move_bdim
from pyjax.interpreters.rules import LINEAR
from pyjax.lax.arithmetic import complex as complex_
from pyjax.lax.arithmetic import conj, mul, real
from pyjax.lax.common import (
    aval_of,
    canonical_shape,
    complex_dtype,
    dtype_of,
    is_complex,
    real_dtype,
    scalar_like,
    shape_of,
)
from pyjax.lax.compare import full_value
from pyjax.lax.convert import convert, convert_element_type
from pyjax.lax.nary import define
from pyjax.lax.shape_join import pad
from xla_backend.hlo.attributes import FftAttributes
from xla_backend.hlo.opcode import Opcode


class FftType(enum.IntEnum):
    """Direction and kind of a transform.

    >>> lax.FftType.RFFT.name
    'RFFT'
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _canonical_type(fft_type: Any) -> FftType:
    if isinstance(fft_type, str):
        if fft_type.upper() in FftType.__members__:
            return FftType[fft_type.upper()]
    else:
        try:
            return FftType(fft_type)
        except ValueError:
            pass
    fail(ValueError, f"Unknown FFT type '{fft_type}'; use 'fft', 'ifft', 'rfft' or 'irfft'.")


def _fft_aval(
    x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> list[ShapedArray]:
    n = len(fft_lengths)
    if not 1 <= n <= 3:
        fail(ValueError, f"fft_lengths must have length 1, 2 or 3, got {fft_lengths}")
    if len(x.shape) < n:
        fail(ValueError, f"FFT input shape {x.shape} must have at least {n} dimensions.")
    lead, last = x.shape[:-n], x.shape[-n:]
    if fft_type is FftType.RFFT:
        expected, dtype = fft_lengths, complex_dtype(x.dtype)
        shape = (*lead, *fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    elif fft_type is FftType.IRFFT:
        expected, dtype = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1), real_dtype(x.dtype)
        shape = (*lead, *fft_lengths)
    else:
        expected, dtype, shape = fft_lengths, x.dtype, x.shape
    if last != expected:
        fail(
            ValueError,
            f"{fft_type.name} requires input shape to end with {expected} for fft_lengths "
            f"{fft_lengths}, but got {x.shape}.",
            fix="slice or pad the operand; jnp.fft does it for you.",
        )
    if (fft_type is FftType.RFFT) == is_complex(x.dtype):
        wanted = "real" if fft_type is FftType.RFFT else "complex"
        fail(TypeError, f"{fft_type.name} input must be {wanted}, got {x.str_short()}")
    return [ShapedArray(shape, dtype)]


def _fft_lowering(ctx: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    if 0 in ctx.avals_in[0].shape:
        return ctx.builder.full(ctx.shapes_out[0], 0)
    return ctx.builder.add(
        Opcode.FFT, (x,), FftAttributes(fft_type.name, fft_lengths), shape=ctx.shapes_out[0]
    )


def _half_mask(n: int, dtype: np.dtype, inner: float) -> np.ndarray:
    """Weights of the n // 2 + 1 frequencies of a real signal: `inner` for those that stand for a
    pair.
    """
    mask = np.full(n // 2 + 1, inner, dtype)
    mask[0] = 1
    if n % 2 == 0:
        mask[-1] = 1
    return mask


def _rfft_transpose(ct: Array, fft_lengths: tuple[int, ...], dtype: np.dtype) -> Array:
    """Fill the missing half of the spectrum with zeros and transform: the real part is the answer.

    rfft is fft of a real array, cut; fft is its own transpose.
    """
    n = fft_lengths[-1]
    config = [(0, 0, 0)] * (len(shape_of(ct)) - 1) + [(0, n - n // 2 - 1, 0)]
    filled = pad(ct, scalar_like(0, ct), config)
    return convert_element_type(real(fft(filled, FftType.FFT, fft_lengths)), dtype)


def _irfft_transpose(ct: Array, fft_lengths: tuple[int, ...]) -> Array:
    """The spectrum of the cotangent, scaled; frequencies that stand for a pair count twice."""
    spectrum = fft(ct, FftType.RFFT, fft_lengths)
    part = real_dtype(dtype_of(spectrum))
    mask = _half_mask(fft_lengths[-1], part, 2.0) / math.prod(fft_lengths)
    weights = complex_(
        np.broadcast_to(mask.astype(part), shape_of(spectrum)), full_value(real(spectrum), 0)
    )
    # Cotangents pair without conjugation, the inverse transform has the other sign.
    return conj(mul(spectrum, weights))


def _fft_transpose(
    cts: Sequence[Any], x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    if fft_type is FftType.RFFT:
        return [_rfft_transpose(ct, fft_lengths, x.aval.dtype)]
    if fft_type is FftType.IRFFT:
        return [_irfft_transpose(ct, fft_lengths)]
    return [fft_p.bind1(ct, fft_type=fft_type, fft_lengths=fft_lengths)]


def _fft_batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
    return fft_p.bind_all(move_bdim(args[0], dims[0], 0), **params), [0]


fft_p: Primitive = define(
    "fft",
    abstract_eval=_fft_aval,
    jvp=LINEAR,
    transpose=_fft_transpose,
    batching=_fft_batching,
    lowering=_fft_lowering,
)


def fft(x: ArrayLike, fft_type: Any, fft_lengths: Sequence[int]) -> Array:
    """Discrete Fourier transform over the last len(fft_lengths) dimensions (one to three).

    Args:
      x: complex (real for 'rfft') array whose last sizes are fft_lengths (for 'irfft', the last
        one n // 2 + 1).
      fft_type: 'fft', 'ifft', 'rfft', 'irfft' or an FftType. Inverse transforms divide by the
        product of lengths.
      fft_lengths: sizes of the signal.
    Raises:
      ValueError: sizes do not fit, or an unknown type.   TypeError: real where complex is
        needed, or the reverse.

    >>> lax.fft(jnp.ones(4, complex), "fft", (4,)).real
    Array([4., 0., 0., 0.], dtype=float32)
    """
    kind = _canonical_type(fft_type)
    lengths = canonical_shape(tuple(fft_lengths), "fft_lengths")
    if not lengths:
        return convert(x, weak_type=aval_of(x).weak_type)
    if kind is FftType.RFFT:
        if is_complex(dtype_of(x)):
            fail(
                TypeError,
                f"only real valued inputs supported for rfft, got {aval_of(x).str_short()}",
            )
        dtype = to_inexact_dtype(dtype_of(x))
        x = convert_element_type(x, dtype if dtype == np.float64 else np.float32)
    elif not is_complex(dtype_of(x)):
        x = convert_element_type(x, complex_dtype(dtype_of(x)))
    return fft_p.bind1(x, fft_type=kind, fft_lengths=lengths)
