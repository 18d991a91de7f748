"""Signals less their mean or their line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import as_weak_as, canonicalize_axis, promote_args_inexact

Array = Any
ArrayLike = Any


@one_program()
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """`data` less its mean ("constant") or its least-squares line ("linear") along `axis`.

    Args:
      bp: break points between pieces that have a line each.
    Raises:
      ValueError: unknown type, or a break point beyond the data.

    >>> detrend(jnp.array([1.0, 2.0, 3.0]), type="constant")
    Array([-1.,  0.,  1.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError(
            "overwrite_data argument not implemented: arrays are immutable. Leave it out; donate "
            "the argument to jit to reuse its memory."
        )
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (data,) = promote_args_inexact("detrend", data)
    if type == "constant":
        return data - jnp.mean(data, axis, keepdims=True)
    along = canonicalize_axis(axis, data.ndim)
    n = data.shape[along]
    breaks = np.unique(np.concatenate([[0], np.atleast_1d(bp), [n]]))
    if breaks[0] < 0 or breaks[-1] > n:
        raise ValueError(
            "Breakpoints must be non-negative and less than length of data along axis."
        )
    lines = jnp.moveaxis(data, along, -1)
    pieces = []
    for start, end in zip(breaks[:-1].tolist(), breaks[1:].tolist()):
        piece = lines[..., start:end]
        # Orthogonal regressors: the constant, and the centred position.
        position = np.arange(end - start) - (end - start - 1) / 2
        square = max(float(np.sum(position**2)), 1e-30)
        position = np.reshape(position, (1,) * (lines.ndim - 1) + (-1,)).astype(data.dtype)
        slope = jnp.sum(piece * position, axis=-1, keepdims=True) / square
        mean = jnp.mean(piece, axis=-1, keepdims=True)
        pieces.append(piece - mean - slope * position)
    return as_weak_as(jnp.moveaxis(jnp.concatenate(pieces, axis=-1), -1, along), data)
