"""pyjax.numpy.linalg: factorizations, solvers, norms and products of matrices.

All functions work on stacks of matrices in the last two axes.  Integers are promoted to floats.
The factorizations themselves are in lax.linalg.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import diagonals, linear_algebra, manipulation, reductions, util
from pyjax.numpy.index_functions import take_along_axis
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufuncs import is_complex

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Result of `eig`."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Result of `qr`."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Result of `slogdet`."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def _matrices(name: str, a: Any, square: bool = False) -> Any:
    util.check_arraylike(f"jnp.linalg.{name}", a)
    (a,) = util.promote_dtypes_inexact(util.as_array(a))
    if a.ndim < 2:
        raise new_error(
            ValueError, f"jnp.linalg.{name}: the array must have at least two axes, got {a.shape}."
        )
    if square and a.shape[-1] != a.shape[-2]:
        raise new_error(
            ValueError,
            f"jnp.linalg.{name}: Argument must be square matrices ([..., n, n]), got shape "
            f"{a.shape}.",
            f"Its last two axes have sizes {a.shape[-2]} and {a.shape[-1]}.",
            "Use jnp.linalg.pinv, lstsq, svd or qr for rectangular matrices.",
        )
    return a


def _adjoint(a: Any) -> Any:
    out = manipulation.swapaxes(a, -1, -2)
    return lax.conj(out) if is_complex(out) else out


# ---------------------------------------------------------------------------------------------
# Factorizations


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Lower (or upper) triangular L with a = L L^H, for Hermitian positive definite `a`.

    nan where a matrix is not positive definite.
    """
    a = _matrices("cholesky", a, square=True)
    factor = lax.linalg.cholesky(
        _adjoint(a) if upper and not symmetrize_input else a, symmetrize_input=symmetrize_input
    )
    return _adjoint(factor) if upper else factor


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular value decomposition a = U diag(S) Vh; S falls.

    Args:
      full_matrices: U and Vh square; else only as many vectors as singular values.
      compute_uv: False returns S alone.  hermitian: `a` is Hermitian (uses `eigh`).
      subset_by_index: (start, end) range of singular values to return.
    """
    a = _matrices("svd", a)
    if hermitian:
        if subset_by_index is not None:
            raise new_error(
                NotImplementedError, "svd: subset_by_index with hermitian=True is not supported."
            )
        return _svd_hermitian(a, compute_uv)
    if not compute_uv:
        return lax.linalg.svd(
            a, full_matrices=full_matrices, compute_uv=False, subset_by_index=subset_by_index
        )
    u, s, vh = lax.linalg.svd(
        a, full_matrices=full_matrices, compute_uv=True, subset_by_index=subset_by_index
    )
    return SVDResult(u, s, vh)


def _svd_hermitian(a: Any, compute_uv: bool) -> Any:
    w, v = eigh(a)
    order = lax.sort(
        (lax.neg(lax.abs(w)), lax.broadcasted_iota(np.int32, w.shape, w.ndim - 1)), num_keys=1
    )[1]
    s = take_along_axis(lax.abs(w), order, -1)
    if not compute_uv:
        return s
    signs = take_along_axis(lax.sign(w), order, -1)
    u = take_along_axis(v, lax.expand_dims(order, (order.ndim - 1,)), -1)
    signed = u * lax.expand_dims(util.convert(signs, u.dtype), (signs.ndim - 1,))
    return SVDResult(u, s, _adjoint(signed))


def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, falling."""
    return svd(x, compute_uv=False, hermitian=False)


def qr(a: Any, mode: str = "reduced") -> Any:
    """a = Q R with orthonormal columns in Q and upper triangular R.

    `mode`: 'reduced' (Q is m by min(m, n)), 'complete' (m by m), 'r' (R alone), or 'raw': the
    reflectors and their factors as LAPACK gives them, transposed (NumPy's `h` and `tau`).
    """
    a = _matrices("qr", a)
    if mode == "raw":
        packed, taus = lax.linalg.geqrf(a)
        return QRResult(packed.mT, taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise new_error(ValueError, f"Unsupported QR decomposition mode '{mode}'")
    q, r = lax.linalg.qr(a, full_matrices=mode in ("full", "complete"))
    return r if mode == "r" else QRResult(q, r)


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues (rising, real) and eigenvectors (columns) of Hermitian matrices.

    `UPLO`: 'L' or 'U', the triangle to read when `symmetrize_input` is False.
    """
    a = _matrices("eigh", a, square=True)
    if UPLO not in (None, "L", "U"):
        raise new_error(ValueError, f"UPLO must be one of None, 'L', or 'U', got {UPLO!r}")
    v, w = lax.linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues of Hermitian matrices, rising."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors (columns) of general matrices; complex (CPU only)."""
    a = _matrices("eig", a, square=True)
    w, v = lax.linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of general matrices, complex, in no particular order."""
    a = _matrices("eigvals", a, square=True)
    return lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


# ---------------------------------------------------------------------------------------------
# Solving


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """x with a @ x = b, for square `a`; `b` is one vector if 1-d, else (stacks of) columns.

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
    places = lax.broadcasted_iota(permutation.dtype, permutation.shape, permutation.ndim - 1)
    inverse = lax.sort((permutation, places), num_keys=1)[1]
    return take_along_axis(
        rhs, lax.expand_dims(inverse, (inverse.ndim,)), -2, mode="promise_in_bounds"
    )


def inv(a: Any) -> Array:
    """Inverse of square matrices; inf or nan for singular ones.

    To apply an inverse, `solve(a, b)` is faster and more accurate.
    """
    a = _matrices("inv", a, square=True)
    n = a.shape[-1]
    eye = util.convert(
        lax.eq(
            lax.broadcasted_iota(np.int32, (n, n), 0), lax.broadcasted_iota(np.int32, (n, n), 1)
        ),
        a.dtype,
    )
    return solve(a, lax.broadcast(eye, a.shape[:-2]))


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Sign (or phase) and logarithm of the absolute value of the determinant.

    `method`: 'lu' (the default) or 'qr'.  Singular matrices give sign 0 and -inf.
    """
    if method not in (None, "lu", "qr"):
        raise new_error(
            ValueError, f"Unknown slogdet method '{method}'. Supported methods are 'lu' and 'qr'."
        )
    a = _matrices("slogdet", a, square=True)
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
    """Determinant of square matrices."""
    a = _matrices("det", a, square=True)
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


def _rcond(rtol: Any, s: Any, shape: tuple[int, ...]) -> Any:
    if rtol is None:
        return float(dtypes.finfo(s.dtype).eps) * max(shape[-2:]) if shape else 0.0
    return rtol


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Array:
    """Moore-Penrose inverse; singular values below rtol * the largest count as zero.

    `rtol` defaults to 10 * max(m, n) * eps.  `rcond` is its older name.
    """
    if rcond is not None:
        if rtol is not None:
            raise new_error(ValueError, "pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    a = _matrices("pinv", a)
    if a.size == 0:
        return lax.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), 0, a.dtype)
    if rtol is None:
        rtol = 10.0 * max(a.shape[-2:]) * float(dtypes.finfo(a.dtype).eps)
    return _pinv(a, rtol, bool(hermitian))


@partial(jit, static_argnames=("hermitian",))
def _pinv(a: Any, rtol: Any, hermitian: bool) -> Any:
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    limit = util.convert(rtol, s.dtype) * s[..., :1]
    small = s <= limit
    inverse = select_where(small, 0, 1 / select_where(small, np.ones((), s.dtype), s))
    scaled = _adjoint(vh) * lax.expand_dims(util.convert(inverse, u.dtype), (s.ndim - 1,))
    return linear_algebra.matmul(scaled, _adjoint(u), precision=lax.Precision.HIGHEST)


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Any, ...]:
    """x minimizing |a @ x - b|, of least norm: (x, residuals, rank, singular values).

    Singular values below rcond * the largest count as zero (default: eps * max(m, n)).
    Residuals are empty for rank-deficient or square problems if `numpy_resid`.
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
    mask = s > util.convert(rcond, s.dtype) * s[0]
    rank = reductions.sum(mask)
    inverse = select_where(mask, 1 / select_where(mask, s, np.ones((), s.dtype)), 0)
    high = lax.Precision.HIGHEST
    coefficients = linear_algebra.matmul(_adjoint(u), b, precision=high)
    coefficients = coefficients * lax.expand_dims(util.convert(inverse, a.dtype), (1,))
    x = linear_algebra.matmul(_adjoint(vh), coefficients, precision=high)
    rest = b - linear_algebra.matmul(a, x, precision=high)
    return x, reductions.sum(lax.square(lax.abs(rest)), 0), rank, s


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b."""
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
    """Inverse of `a` with respect to tensordot over its first `ind` axes."""
    a = util.ensure_arraylike("jnp.linalg.tensorinv", a)
    ind = util.static_int(ind, "ind")
    if ind <= 0:
        raise new_error(ValueError, f"ind must be a positive integer; got {ind}")
    first, second = a.shape[:ind], a.shape[ind:]
    n = util.size_of(first)
    if n != util.size_of(second):
        raise new_error(ValueError, f"Input array must have prod({first}) == prod({second})")
    return lax.reshape(inv(lax.reshape(a, (n, n))), (*second, *first))


# ---------------------------------------------------------------------------------------------
# Norms and numbers


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Vector or matrix norm.

    Args:
      ord: for vectors (one axis): a number p, inf, -inf, 0; for matrices (two axes): 'fro',
        'nuc', 1, -1, 2, -2, inf, -inf.  Default: 2-norm of all elements / Frobenius.
      axis: None flattens (if ord is None), else one axis for vectors, two for matrices.
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
    """Norm of vectors along `axis` (of all elements by default)."""
    util.check_arraylike("jnp.linalg.vector_norm", x)
    (x,) = util.promote_dtypes_inexact(util.as_array(x))
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
    """Norm of the matrices in the last two axes."""
    return norm(x, ord=ord, keepdims=keepdims, axis=(-2, -1))


def cond(x: Any, p: Any = None) -> Array:
    """Condition number: norm(x, p) * norm(inv(x), p); ratio of singular values by default."""
    x = _matrices("cond", x)
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
    """Number of singular values above rtol * the largest (default: max(m, n) * eps)."""
    util.check_arraylike("jnp.linalg.matrix_rank", M)
    (m,) = util.promote_dtypes_inexact(util.as_array(M))
    if m.ndim < 2:
        return util.convert(reductions.any(m != 0), np.dtype(np.int32))
    s = svd(m, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if tol is not None:
        limit = util.convert(tol, s.dtype)
    else:
        limit = reductions.max(s, -1, keepdims=True) * _rcond(rtol, s, m.shape)
    return reductions.sum(s > limit, -1)


def matrix_power(a: Any, n: int) -> Array:
    """`a` multiplied with itself n times; the inverse for negative `n`, identity for 0."""
    a = (
        _matrices("matrix_power", a, square=True)
        if n < 0
        else util.ensure_arraylike("jnp.linalg.matrix_power", a)
    )
    n = util.static_int(n, "n")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise new_error(TypeError, f"Last 2 dimensions of the array must be square, got {a.shape}")
    if n == 0:
        size = a.shape[-1]
        eye = lax.eq(
            lax.broadcasted_iota(np.int32, (size, size), 0),
            lax.broadcasted_iota(np.int32, (size, size), 1),
        )
        return lax.broadcast(util.convert(eye, a.dtype), a.shape[:-2])
    base, n = (inv(a), -n) if n < 0 else (a, n)
    out: Any = None
    while n:
        if n & 1:
            out = base if out is None else linear_algebra.matmul(out, base)
        n >>= 1
        base = linear_algebra.matmul(base, base) if n else base
    return out


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Array:
    """Product of several matrices in the cheapest order (the first and last may be vectors)."""
    util.check_arraylike("jnp.linalg.multi_dot", *arrays)
    items = [util.as_array(x) for x in arrays]
    if len(items) < 2:
        raise new_error(ValueError, f"multi_dot requires at least two arrays; got {len(items)}")
    if any(x.ndim != 2 for x in items[1:-1]) or any(
        x.ndim not in (1, 2) for x in (items[0], items[-1])
    ):
        raise new_error(
            ValueError,
            "multi_dot: inner arrays must be 2-d, the first and last 1-d or 2-d; "
            f"got {[x.shape for x in items]}",
        )
    first, last = items[0].ndim == 1, items[-1].ndim == 1
    if first:
        items[0] = lax.expand_dims(items[0], (0,))
    if last:
        items[-1] = lax.expand_dims(items[-1], (1,))
    for left, right in pairwise(items):
        if left.shape[1] != right.shape[0]:
            raise new_error(
                ValueError, f"multi_dot: shapes {left.shape} and {right.shape} are not aligned."
            )
    out = _chain(
        items,
        _chain_splits([x.shape[0] for x in items] + [items[-1].shape[1]]),
        0,
        len(items) - 1,
        precision,
    )
    out = lax.squeeze(out, (0,)) if first else out
    return lax.squeeze(out, (out.ndim - 1,)) if last else out


def _chain_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each sub-chain for the fewest multiplications (dynamic programming)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _chain(
    items: list[Any], splits: dict[tuple[int, int], int], i: int, j: int, precision: Any
) -> Any:
    if i == j:
        return items[i]
    k = splits[i, j]
    return linear_algebra.matmul(
        _chain(items, splits, i, k, precision),
        _chain(items, splits, k + 1, j, precision),
        precision=precision,
    )


# ---------------------------------------------------------------------------------------------
# Array API names


def matmul(
    x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Same as `jnp.matmul`."""
    return linear_algebra.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Outer product of two vectors."""
    x1, x2 = util.ensure_arraylike("jnp.linalg.outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise new_error(
            ValueError, f"Input arrays must be one-dimensional, got {x1.shape} and {x2.shape}"
        )
    return linear_algebra.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Vector product of 3-d vectors along `axis`."""
    x1, x2 = util.ensure_arraylike("jnp.linalg.cross", x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise new_error(
            ValueError,
            f"Both input arrays must be (arrays of) 3-dimensional vectors, got {x1.shape} and "
            f"{x2.shape}",
        )
    return linear_algebra.cross(x1, x2, axis=axis)


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Same as `jnp.tensordot`."""
    return linear_algebra.tensordot(
        x1, x2, axes=axes, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Same as `jnp.vecdot`."""
    return linear_algebra.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Last two axes exchanged."""
    util.check_arraylike("jnp.linalg.matrix_transpose", x)
    return manipulation.matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Diagonals of the matrices in the last two axes."""
    util.check_arraylike("jnp.linalg.diagonal", x)
    return diagonals.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """Sums along the diagonals of the matrices in the last two axes."""
    util.check_arraylike("jnp.linalg.trace", x)
    return diagonals.trace(x, offset, -2, -1, dtype)
