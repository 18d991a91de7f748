"""Norms, condition numbers and ranks for pyjax.numpy.linalg."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import manipulation, reductions, util
from pyjax.numpy.eager import one_program
from pyjax.numpy.linalg_factorizations import as_matrices, beside_values, svd, svdvals
from pyjax.numpy.linalg_solvers import inv
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex


def _rcond(rtol: Any, s: Any, shape: tuple[int, ...]) -> Any:
    if rtol is None:
        return float(dtypes.finfo(s.dtype).eps) * max(shape[-2:]) if shape else 0.0
    return rtol


@one_program()
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Vector or matrix norm.

    Args:
      ord: for vectors (one axis): a number p, inf, -inf, 0; for matrices (two axes): 'fro',
        'nuc', 1, -1, 2, -2, inf, -inf.  Default: 2-norm of all elements / Frobenius.
      axis: None flattens (if ord is None), else one axis for vectors, two for matrices.
    Returns:
      A real array of the axes that are left; integers become floats.  nan where an element is nan.
    Raises:
      ValueError: more axes than two, or an `ord` that is none of these.

    Defined as numpy.linalg.norm is.

    >>> norm(np.array([3.0, 4.0])).item()
    5.0
    """
    util.check_arraylike("jnp.linalg.norm", x)
    (x,) = util.promote_dtypes_inexact(util.as_array(x))
    if axis is None and ord is None:
        out = lax.sqrt(reductions.sum(_abs_squared(x)))
        return lax.reshape(out, (1,) * x.ndim) if keepdims else out
    if axis is None:
        if x.ndim not in (1, 2):
            raise new_error(
                ValueError, f"Improper number of axes for norm: got array of shape {x.shape}"
            )
        axes = tuple(range(x.ndim))
    else:
        axes = util.canonicalize_axes(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise new_error(ValueError, f"Improper number of axes for norm: {axes}")
    return _matrix_norm(x, axes, keepdims, "fro" if ord is None else ord)


def _abs_squared(x: Any) -> Any:
    return lax.real(x) ** 2 + lax.imag(x) ** 2 if is_complex(x) else lax.square(x)


def _largest(x: Any, axis: Any, keepdims: bool = False) -> Any:
    """The largest of numbers that are not negative: 0 if there are none."""
    return reductions.max(x, axis, keepdims=keepdims, initial=None if x.size else 0)


def _matrix_norm(x: Any, axes: tuple[int, ...], keepdims: bool, ord: Any) -> Any:
    rows, columns = axes
    if ord in ("fro", "f"):
        return lax.sqrt(reductions.sum(_abs_squared(x), axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = reductions.sum(lax.abs(x), summed, keepdims=True)
        pick = _largest if ord > 0 else reductions.min
        out = pick(sums, other, keepdims=True)
        return out if keepdims else lax.squeeze(out, tuple(sorted(axes)))
    if ord in (2, -2, "nuc"):
        s = svdvals(manipulation.moveaxis(x, axes, (-2, -1)))
        reduce: Any = {2: _largest, -2: reductions.min, "nuc": reductions.sum}[ord]
        out = reduce(s, -1)
        return lax.expand_dims(out, tuple(sorted(axes))) if keepdims else out
    raise new_error(ValueError, f"Invalid order '{ord}' for matrix norm.")


def vector_norm(
    x: ArrayLike, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Norm of vectors along `axis` (of all elements by default).

    >>> vector_norm(jnp.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    util.check_arraylike("jnp.linalg.vector_norm", x)
    x = util.as_array(x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        x = util.convert(x, dtypes.canonicalize_dtype(np.float64))
    if ord is None or ord == 2:
        return lax.sqrt(reductions.sum(_abs_squared(x), axis, keepdims=keepdims))
    if isinstance(ord, str):
        raise new_error(ValueError, f"Invalid order '{ord}' for vector norm.")
    magnitude = lax.abs(x)
    if ord == np.inf:
        return _largest(magnitude, axis, keepdims)
    if ord == -np.inf:
        return reductions.min(magnitude, axis, keepdims=keepdims)
    if ord == 0:
        return reductions.sum(magnitude != 0, axis, magnitude.dtype, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(magnitude, axis, keepdims=keepdims)
    power = util.convert(ord, magnitude.dtype)
    total = reductions.sum(
        lax.pow(magnitude, lax.broadcast(power, magnitude.shape)), axis, keepdims=keepdims
    )
    return lax.pow(total, lax.broadcast(1 / power, total.shape))


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norm of the matrices in the last two axes.

    >>> matrix_norm(jnp.array([[3.0, 4.0], [0.0, 0.0]])).item()
    5.0
    >>> matrix_norm(jnp.array([[3.0, 4.0], [0.0, 0.0]]), ord=1).item()
    4.0
    """
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def cond(x: Any, p: Any = None) -> Array:
    """Condition number: norm(x, p) * norm(inv(x), p); ratio of singular values by default.

    >>> cond(jnp.array([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    >>> cond(jnp.diag(jnp.array([1.0, 0.0]))).item()
    inf
    """
    x = as_matrices("cond", x)
    if 0 in x.shape[-2:]:
        raise new_error(ValueError, f"cond of a matrix without elements, of shape {x.shape}")
    if p in (None, 2, -2):
        s = svdvals(x)
        out = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        if x.shape[-1] != x.shape[-2]:
            raise new_error(
                ValueError, f"cond with p={p} requires square matrices, got shape {x.shape}"
            )
        out = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    nan_in = reductions.any(x != x, (-2, -1))
    return select_where((out != out) & ~nan_in, np.inf, out)


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Array:
    """Number of singular values above rtol * the largest (default: max(m, n) * eps).

    >>> matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array(1, dtype=int32)
    """
    util.check_arraylike("jnp.linalg.matrix_rank", M)
    (m,) = util.promote_dtypes_inexact(util.as_array(M))
    if m.ndim < 2:
        return util.convert(reductions.any(m != 0), np.dtype(np.int32))
    s = svd(m, full_matrices=False, compute_uv=False, hermitian=hermitian)
    limit = beside_values(_rcond(rtol, s, m.shape) if tol is None else tol, s)
    if tol is None:
        limit = limit * reductions.max(s, -1, keepdims=True)
    return reductions.sum(s > limit, -1)
