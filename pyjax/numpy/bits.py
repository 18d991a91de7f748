"""packbits and unpackbits."""

from __future__ import annotations

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.manipulation import moveaxis, ravel

__all__ = ["packbits", "unpackbits"]


def _shifts(bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise new_error(ValueError, f"bitorder must be 'little' or 'big', got {bitorder!r}")
    places = np.arange(8, dtype=np.uint8)
    return places[::-1].copy() if bitorder == "big" else places


@one_program()
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Booleans (or nonzero integers) packed eight to a uint8 along `axis`, padded with zeros.

    >>> jnp.packbits(jnp.array([1, 0, 0, 0, 0, 0, 0, 1]))
    Array([129], dtype=uint8)
    """
    a = util.ensure_arraylike("packbits", a)
    if a.dtype != np.bool_ and not dtypes.issubdtype(a.dtype, np.integer):
        raise new_error(TypeError, "Expected an input array of integer or boolean data type")
    shifts = _shifts(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    bits = util.truth(a)
    bits = moveaxis(util.convert(bits, np.dtype(np.uint8)), axis, -1)
    n = bits.shape[-1]
    extra = -n % 8
    if extra:
        bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, extra, 0)])
    groups = lax.reshape(bits, (*bits.shape[:-1], (n + extra) // 8, 8))
    weighted = lax.shift_left(groups, util.broadcast_array(util.as_array(shifts), groups.shape))
    packed = util.convert(lax.reduce_or(weighted, (groups.ndim - 1,)), np.dtype(np.uint8))
    return moveaxis(packed, -1, axis)


@one_program()
def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of a uint8 array as uint8 zeros and ones along `axis`; `count` of them if given.

    >>> jnp.unpackbits(jnp.array([129], jnp.uint8))
    Array([1, 0, 0, 0, 0, 0, 0, 1], dtype=uint8)
    """
    a = util.ensure_arraylike("unpackbits", a)
    if a.dtype != np.uint8:
        raise new_error(TypeError, "Expected an input array of unsigned byte data type")
    shifts = _shifts(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    moved = moveaxis(a, axis, -1)
    shape = (*moved.shape, 8)
    wide = lax.broadcast_in_dim(moved, shape, tuple(range(moved.ndim)))
    bits = lax.bitwise_and(
        lax.shift_right_logical(wide, util.broadcast_array(util.as_array(shifts), shape)),
        lax.full(shape, 1, np.dtype(np.uint8)),
    )
    flat = lax.reshape(bits, (*moved.shape[:-1], moved.shape[-1] * 8))
    if count is not None:
        n = flat.shape[-1]
        stop = count if count >= 0 else n + count
        if stop > n:
            flat = lax.pad(flat, np.uint8(0), [(0, 0, 0)] * (flat.ndim - 1) + [(0, stop - n, 0)])
        else:
            flat = lax.slice_in_dim(flat, 0, stop, axis=flat.ndim - 1)
    return moveaxis(flat, -1, axis)
