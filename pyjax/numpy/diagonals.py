"""Diagonals and triangles: diag, diagflat, diagonal, trace, tri, tril, triu, vander."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.lax.reshard import broadcast_alike, check_whole_along
from pyjax.numpy import reductions, util
from pyjax.numpy.eager import one_program
from pyjax.numpy.manipulation import moveaxis, ravel
from pyjax.numpy.padding import pad

__all__ = ["diag", "diagflat", "diagonal", "trace", "tri", "tril", "triu", "vander"]


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """N by M matrix with ones on and below diagonal `k`, zeros above.

    >>> jnp.tri(3, dtype=int)
    Array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]], dtype=int32)
    """
    shape = util.canonicalize_shape((N, N if M is None else M))
    dtype = util.check_user_dtype(dtype, "tri") or dtypes.canonicalize_dtype(np.float64)
    return util.convert(_lower(shape, k), dtype)


def _lower(shape: tuple[int, ...], k: Any) -> Any:
    rows = lax.broadcasted_iota(np.int32, shape, 0)
    columns = lax.broadcasted_iota(np.int32, shape, 1)
    return lax.ge(lax.add(rows, util.convert(k, np.dtype(np.int32))), columns)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """`m` with elements above diagonal `k` replaced by zero (in the last two axes).

    >>> jnp.tril(jnp.ones((3, 3), int))
    Array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]], dtype=int32)
    """
    m = util.ensure_arraylike("tril", m)
    return _triangle("tril", m, k, True)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """`m` with elements below diagonal `k` replaced by zero (in the last two axes).

    >>> jnp.triu(jnp.ones((3, 3), int))
    Array([[1, 1, 1],
           [0, 1, 1],
           [0, 0, 1]], dtype=int32)
    """
    m = util.ensure_arraylike("triu", m)
    return _triangle("triu", m, k, False)


def _triangle(name: str, m: Any, k: Any, lower: bool) -> Any:
    if m.ndim < 2:
        raise new_error(
            ValueError, f"Argument to jax.numpy.{name} must be at least 2D, got shape {m.shape}."
        )
    return _masked_triangle(m, k, lower)


@partial(jit, static_argnames=("lower",))
def _masked_triangle(m: Any, k: Any, lower: bool) -> Any:
    offset = util.convert(k, np.dtype(np.int32))
    mask = _lower(m.shape[-2:], offset if lower else offset - 1)
    mask, m = broadcast_alike((mask, m), m.shape)
    zeros = lax.full_like(m, 0)
    return lax.select(mask, m, zeros) if lower else lax.select(mask, zeros, m)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Diagonals of the matrices in axes `axis1` and `axis2`; the diagonal is the last axis.

    >>> diagonal(np.arange(9).reshape(3, 3), 1).tolist()
    [1, 5]
    """
    a = util.ensure_arraylike("diagonal", a)
    if a.ndim < 2:
        raise new_error(ValueError, "diagonal requires an array of at least two dimensions.")
    offset = util.static_int(offset, "offset")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    start_row, start_column = max(-offset, 0), max(offset, 0)
    length = max(0, min(rows - start_row, columns - start_column))
    if length == 0:
        return lax.full((*a.shape[:-2], 0), 0, a.dtype)
    check_whole_along("diagonal", a, (a.ndim - 2, a.ndim - 1))
    return _diagonal(a, start_row, start_column, length)


@partial(jit, static_argnames=("row", "column", "length"))
def _diagonal(a: Any, row: int, column: int, length: int) -> Any:
    lead = a.ndim - 2
    a = lax.slice_in_dim(a, row, row + length, axis=lead)
    a = lax.slice_in_dim(a, column, column + length, axis=lead + 1)
    # Appending a column and reshaping turns the diagonal into a strided slice of the rows.
    flat = lax.reshape(a, (*a.shape[:lead], length * length))
    return lax.slice_in_dim(flat, 0, length * length, stride=length + 1, axis=lead)


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with the 1-d `v` on its k-th diagonal.

    >>> diag(np.array([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    v = util.ensure_arraylike("diag", v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise new_error(ValueError, f"diag input must be 1d or 2d, got shape {v.shape}.")
    return _diag_matrix(v, util.static_int(k, "k"))


@partial(jit, static_argnames=("k",))
def _diag_matrix(v: Any, k: int) -> Any:
    padded = pad(v, (max(-k, 0), max(k, 0))) if k else v
    n = v.shape[0] + abs(k)
    rows = lax.broadcasted_iota(np.int32, (n, n), 0)
    columns = lax.broadcasted_iota(np.int32, (n, n), 1)
    mask = lax.eq(lax.add(rows, np.int32(k)), columns)
    # `padded` is indexed by row: entry (i, i + k) is v[i], |k| places in for k < 0.
    values = lax.broadcast_in_dim(padded, (n, n), (0,))
    mask, values = broadcast_alike((mask, values), (n, n))
    return lax.select(mask, values, lax.full_like(values, 0))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Matrix with the flattened `v` on its k-th diagonal.

    >>> jnp.diagflat(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    util.check_arraylike("diagflat", v)
    out = diag(ravel(v), k)
    return util.convert(out, out.dtype)


@one_program()
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: None = None,
) -> Array:
    """Sum along the diagonal of the matrices in `axis1` and `axis2`.

    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    util.reject_out("trace", out)
    a = util.ensure_arraylike("trace", a)
    if a.ndim > 2 and a.aval.split is not None:
        # Sums of what is beside the diagonal, too, go without elements of other devices.
        a = moveaxis(a, (axis1, axis2), (-2, -1))
        rows, columns = (lax.broadcasted_iota(np.int32, a.shape[-2:], d) for d in (0, 1))
        place = lax.add(rows, np.int32(util.static_int(offset, "offset")))
        mask, kept = broadcast_alike((lax.eq(place, columns), a), a.shape)
        return reductions.sum(lax.select(mask, kept, lax.full_like(kept, 0)), (-2, -1), dtype)
    return reductions.sum(diagonal(a, offset, axis1, axis2), -1, dtype)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Vandermonde matrix: columns are powers of the 1-d `x`, falling unless `increasing`.

    >>> jnp.vander(jnp.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    x = util.ensure_arraylike("vander", x)
    if x.ndim != 1:
        raise new_error(ValueError, "x must be a one-dimensional array")
    n = x.shape[0] if N is None else util.static_int(N, "N")
    if n < 0:
        raise new_error(ValueError, "N must be nonnegative")
    ones = lax.full_like(lax.expand_dims(x, (1,)), 1, x.dtype)
    repeated = lax.broadcast_in_dim(x, (x.shape[0], max(n - 1, 0)), (0,))
    powers = lax.cumprod(lax.concatenate([ones, repeated], 1), 1)
    powers = lax.slice_in_dim(powers, 0, n, axis=1)
    return powers if increasing else lax.rev(powers, (1,))
