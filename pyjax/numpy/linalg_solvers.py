"""Solutions of linear equations, inverses and determinants for pyjax.numpy.linalg."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.structural import as_split
from pyjax.lax.creation import iota_like
from pyjax.numpy import diagonals, linear_algebra, reductions, util
from pyjax.numpy.index_functions import take_along_axis
from pyjax.numpy.linalg_factorizations import adjoint, as_matrices, beside_values, svd
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex


class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Any
    logabsdet: Any


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """x with a @ x = b, for square `a`; `b` is one vector if 1-d, else (stacks of) columns.

    Args:
      a: of shape (..., n, n); b: of shape (n,) or (..., n, k).  Their first axes are broadcast, and
        their dtypes promoted to one of floats or complex numbers, which is that of the result.
    Returns:
      An array of the shape of `b`, with the broadcast first axes; inf or nan if `a` is singular.
    Raises:
      ValueError: `a` is not square, or `b` has another number of rows.

    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    util.check_arraylike("jnp.linalg.solve", a, b)
    a, b = (util.as_array(x) for x in util.promote_dtypes_inexact(a, b))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise new_error(
            ValueError,
            f"jnp.linalg.solve: a must be square matrices ([..., n, n]), got shape {a.shape}.",
        )
    if b.ndim < 1:
        raise new_error(ValueError, "jnp.linalg.solve: b must have at least one axis.")
    vector = b.ndim == 1
    b = lax.expand_dims(b, (1,)) if vector else b
    if b.shape[-2] != a.shape[-1]:
        raise new_error(
            ValueError,
            f"jnp.linalg.solve: a {a.shape} and b {b.shape[:-1] if vector else b.shape} have "
            "different numbers of rows.",
            "Each row of a is one equation, whose right-hand side is one row of b.",
            "Transpose b, or use jnp.linalg.lstsq if a is not square.",
        )
    batch = util.broadcast_shapes("solve", [a.shape[:-2], b.shape[:-2]])
    out = _solve(
        util.broadcast_array(a, (*batch, *a.shape[-2:])),
        util.broadcast_array(b, (*batch, *b.shape[-2:])),
    )
    return lax.squeeze(out, (out.ndim - 1,)) if vector else out


@jit
def _solve(a: Any, b: Any) -> Any:
    # The factorization is outside differentiation: custom_linear_solve derives with respect to
    # a and b through two more solves.
    factors, _, permutation = lax.linalg.lu(lax.stop_gradient(a))

    def forward(_: Any, rhs: Any) -> Any:
        return _lu_solve(factors, permutation, rhs, False)

    def backward(_: Any, rhs: Any) -> Any:
        return _lu_solve(factors, permutation, rhs, True)

    return lax.custom_linear_solve(
        lambda x: linear_algebra.matmul(a, x, precision=lax.Precision.HIGHEST), b, forward, backward
    )


def _lu_solve(factors: Any, permutation: Any, rhs: Any, transposed: bool) -> Any:
    solve_with = partial(lax.linalg.triangular_solve, factors, left_side=True)
    rows = lax.expand_dims(permutation, (permutation.ndim,))
    if not transposed:
        rhs = take_along_axis(rhs, rows, -2, mode="promise_in_bounds")
        rhs = solve_with(rhs, lower=True, unit_diagonal=True)
        return solve_with(rhs, lower=False)
    rhs = solve_with(rhs, lower=False, transpose_a=True)
    rhs = solve_with(rhs, lower=True, transpose_a=True, unit_diagonal=True)
    places = iota_like(permutation, permutation.dtype, permutation.ndim - 1)
    inverse = lax.sort((permutation, places), num_keys=1)[1]
    return take_along_axis(
        rhs, lax.expand_dims(inverse, (inverse.ndim,)), -2, mode="promise_in_bounds"
    )


def inv(a: Any) -> Array:
    """Inverse of square matrices, of shape (..., n, n); inf or nan for singular ones.

    ValueError if they are not square.

    To apply an inverse, `solve(a, b)` is faster and more accurate.

    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    >>> inv(jnp.zeros((1, 1)))
    Array([[inf]], dtype=float32)
    """
    a = as_matrices("inv", a, square=True)
    n = a.shape[-1]
    eye = util.convert(
        lax.eq(
            lax.broadcasted_iota(np.int32, (n, n), 0), lax.broadcasted_iota(np.int32, (n, n), 1)
        ),
        a.dtype,
    )
    eye = lax.broadcast(eye, a.shape[:-2])
    split = a.aval.split
    if split is not None:
        split = split._replace(entries=(*split.entries[:-2], None, None))
    return solve(a, as_split(eye, split))


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Sign (or phase) and logarithm of the absolute value of the determinant.

    `method`: 'lu' (the default) or 'qr'.  Singular matrices give sign 0 and -inf.

    >>> slogdet(-jnp.eye(3))
    SlogdetResult(sign=Array(-1., dtype=float32), logabsdet=Array(0., dtype=float32))
    >>> slogdet(jnp.zeros((2, 2))).logabsdet
    Array(-inf, dtype=float32)
    """
    if method not in (None, "lu", "qr"):
        raise new_error(
            ValueError, f"Unknown slogdet method '{method}'. Supported methods are 'lu' and 'qr'."
        )
    a = as_matrices("slogdet", a, square=True)
    return SlogdetResult(*(_slogdet_qr if method == "qr" else _slogdet)(a))


def _slogdet_parts(diagonal: Any, start_sign: Any) -> tuple[Any, Any]:
    axis = diagonal.ndim - 1
    magnitude = lax.abs(diagonal)
    singular = reductions.any(magnitude == 0, axis)
    safe = select_where(magnitude == 0, np.ones((), magnitude.dtype), magnitude)
    phases = lax.div(diagonal, util.convert(safe, diagonal.dtype))
    sign = start_sign * reductions.prod(
        lax.stop_gradient(phases) if not is_complex(phases) else phases, axis
    )
    logdet = select_where(singular, -np.inf, reductions.sum(lax.log(magnitude), axis))
    return sign, logdet


def _parity(pivots: Any, dtype: Any) -> Any:
    places = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    swaps = reductions.count_nonzero(pivots != places, pivots.ndim - 1)
    return util.convert(1 - 2 * lax.rem(swaps, lax.full_like(swaps, 2)), dtype)


@jit
def _slogdet(a: Any) -> tuple[Any, Any]:
    factors, pivots, _ = lax.linalg.lu(a)
    return _slogdet_parts(diagonals.diagonal(factors, 0, -2, -1), _parity(pivots, a.dtype))


@jit
def _slogdet_qr(a: Any) -> tuple[Any, Any]:
    q, r = lax.linalg.qr(a, full_matrices=False)
    # Q is orthogonal, so its determinant is a pure sign (or phase) and well conditioned.
    phase = lax.stop_gradient(_det(q)) if not is_complex(a) else _det(q)
    return _slogdet_parts(diagonals.diagonal(r, 0, -2, -1), phase)


def det(a: Any) -> Array:
    """Determinant of square matrices, of shape (..., n, n); 1 for n = 0, and nan if one is in it.

    Up to n = 3 it is the sum of products, above the product of the diagonal of a factorization LU.
    ValueError if the matrices are not square.

    >>> det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    a = as_matrices("det", a, square=True)
    n = a.shape[-1]
    if n == 0:
        return lax.full(a.shape[:-2], 1, a.dtype)
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    if n == 3:
        m = [[a[..., i, j] for j in range(3)] for i in range(3)]
        return (
            m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
        )
    return _det(a)


@jit
def _det(a: Any) -> Any:
    factors, pivots, _ = lax.linalg.lu(a)
    diagonal = diagonals.diagonal(factors, 0, -2, -1)
    return _parity(pivots, a.dtype) * reductions.prod(diagonal, diagonal.ndim - 1)


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Array:
    """Moore-Penrose inverse; singular values below rtol * the largest count as zero.

    `rtol` defaults to 10 * max(m, n) * eps.  `rcond` is its older name.

    >>> pinv(jnp.array([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]])).round(4) + 0.0
    Array([[0.5 , 0.  , 0.  ],
           [0.  , 0.  , 0.25]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            raise new_error(ValueError, "pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    a = as_matrices("pinv", a)
    if a.size == 0:
        return lax.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), 0, a.dtype)
    if rtol is None:
        rtol = 10.0 * max(a.shape[-2:]) * float(dtypes.finfo(a.dtype).eps)
    return _pinv(a, rtol, bool(hermitian))


@partial(jit, static_argnames=("hermitian",))
def _pinv(a: Any, rtol: Any, hermitian: bool) -> Any:
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    small = s <= beside_values(rtol, s) * s[..., :1]
    inverse = select_where(small, 0, 1 / select_where(small, np.ones((), s.dtype), s))
    scaled = adjoint(vh) * lax.expand_dims(util.convert(inverse, u.dtype), (inverse.ndim - 1,))
    return linear_algebra.matmul(scaled, adjoint(u), precision=lax.Precision.HIGHEST)


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Any, ...]:
    """x minimizing |a @ x - b|, of least norm: (x, residuals, rank, singular values).

    Singular values below rcond * the largest count as zero (default: eps * max(m, n)).
    Residuals are empty for rank-deficient or square problems if `numpy_resid`.

    >>> x, residuals, rank, s = lstsq(jnp.array([[1.0], [1.0]]), jnp.array([1.0, 3.0]))
    >>> x.round(4), residuals.round(4), rank.item()
    (Array([2.], dtype=float32), Array([2.], dtype=float32), 1)
    """
    util.check_arraylike("jnp.linalg.lstsq", a, b)
    a, b = (util.as_array(x) for x in util.promote_dtypes_inexact(a, b))
    if a.ndim != 2:
        raise new_error(
            TypeError, f"{a.ndim}-dimensional array given. Array must be two-dimensional"
        )
    if b.ndim not in (1, 2):
        raise new_error(
            TypeError, f"{b.ndim}-dimensional array given. Array must be one or two-dimensional"
        )
    if a.shape[0] != b.shape[0]:
        raise new_error(
            ValueError, f"Leading dimensions of input arrays must match: {a.shape}, {b.shape}"
        )
    vector = b.ndim == 1
    m, n = a.shape
    columns = lax.expand_dims(b, (1,)) if vector else b
    if rcond is None:
        rcond = float(dtypes.finfo(a.dtype).eps) * max(m, n)
    elif isinstance(rcond, (int, float)) and rcond < 0:
        rcond = float(dtypes.finfo(a.dtype).eps)
    x, residuals, rank, s = _lstsq(a, columns, rcond)
    if numpy_resid:
        concrete = util.concrete_or_none(rank)
        if concrete is None:
            raise util.concretization_error(rank, "lstsq with numpy_resid=True cannot be traced.")
        if int(concrete) < n or m <= n:
            residuals = lax.full((0,), 0, residuals.dtype)
    return (lax.squeeze(x, (1,)) if vector else x), residuals, rank, s


@jit
def _lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    u, s, vh = svd(a, full_matrices=False)
    mask = s > util.convert(rcond, s.dtype) * s[:1]
    rank = reductions.sum(mask)
    inverse = select_where(mask, 1 / select_where(mask, s, np.ones((), s.dtype)), 0)
    high = lax.Precision.HIGHEST
    coefficients = linear_algebra.matmul(adjoint(u), b, precision=high)
    coefficients = coefficients * lax.expand_dims(util.convert(inverse, a.dtype), (1,))
    x = linear_algebra.matmul(adjoint(vh), coefficients, precision=high)
    rest = b - linear_algebra.matmul(a, x, precision=high)
    return x, reductions.sum(lax.square(lax.abs(rest)), 0), rank, s


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b.

    >>> tensorsolve(2 * jnp.eye(4).reshape(2, 2, 2, 2), jnp.ones((2, 2)))
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    a, b = util.ensure_arraylike("jnp.linalg.tensorsolve", a, b)
    if axes is not None:
        rest = [i for i in range(a.ndim) if i not in axes]
        a = lax.transpose(a, [*rest, *axes])
    shape = a.shape[b.ndim :]
    if a.size != b.size * util.size_of(shape) or b.size != util.size_of(shape):
        raise new_error(
            ValueError,
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == "
            f"prod(a.shape[:b.ndim]); got {a.shape} and {b.shape}.",
        )
    out = solve(lax.reshape(a, (b.size, b.size)), lax.reshape(b, (b.size,)))
    return lax.reshape(out, shape)


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """Inverse of `a` with respect to tensordot over its first `ind` axes.

    >>> tensorinv(2 * jnp.eye(4).reshape(2, 2, 2, 2)).reshape(4, 4).diagonal()
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    a = util.ensure_arraylike("jnp.linalg.tensorinv", a)
    ind = util.static_int(ind, "ind")
    if ind <= 0:
        raise new_error(ValueError, f"ind must be a positive integer; got {ind}")
    first, second = a.shape[:ind], a.shape[ind:]
    n = util.size_of(first)
    if n != util.size_of(second):
        raise new_error(ValueError, f"Input array must have prod({first}) == prod({second})")
    return lax.reshape(inv(lax.reshape(a, (n, n))), (*second, *first))
