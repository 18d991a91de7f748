"""Factorizations of matrices for pyjax.numpy.linalg, and what their arguments become."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pyjax import lax
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.numpy import manipulation, util
from pyjax.numpy.eager import one_program
from pyjax.numpy.index_functions import take_along_axis
from pyjax.numpy.ufuncs import is_complex


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


class SVDResult(NamedTuple):
    """Result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def as_matrices(name: str, a: Any, square: bool = False) -> Any:
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


def beside_values(tolerance: Any, s: Any) -> Any:
    """A number, or one for each matrix, as columns beside singular values, in their type."""
    tolerance = util.convert(tolerance, s.dtype)
    missing = max(0, s.ndim - 1 - tolerance.ndim)
    return lax.reshape(tolerance, (*(1,) * missing, *tolerance.shape, 1))


def adjoint(a: Any) -> Any:
    out = manipulation.swapaxes(a, -1, -2)
    return lax.conj(out) if is_complex(out) else out


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Lower (or upper) triangular L with a = L L^H, for Hermitian positive definite `a`.

    nan where a matrix is not positive definite.

    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    >>> cholesky(jnp.array([[1.0, 2.0], [2.0, 1.0]]))
    Array([[nan,  0.],
           [nan, nan]], dtype=float32)
    """
    a = as_matrices("cholesky", a, square=True)
    factor = lax.linalg.cholesky(
        adjoint(a) if upper and not symmetrize_input else a, symmetrize_input=symmetrize_input
    )
    return adjoint(factor) if upper else factor


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
    Returns:
      (U, S, Vh) for `a` of shape (..., m, n) and k = min(m, n): S is real, of shape (..., k); U is
      (..., m, m) and Vh (..., n, n), or (..., m, k) and (..., k, n).  The signs (or phases) of
      vectors are not determined.  nan if `a` has one.
    Raises:
      ValueError: `a` has fewer than two axes.
      NotImplementedError: subset_by_index together with hermitian=True.

    >>> u, s, vh = svd(jnp.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]), full_matrices=False)
    >>> u.shape, s, vh.shape
    ((3, 2), Array([3., 2.], dtype=float32), (2, 2))
    >>> ((u * s) @ vh).round(4) + 0.0
    Array([[0., 2.],
           [3., 0.],
           [0., 0.]], dtype=float32)
    """
    a = as_matrices("svd", a)
    if hermitian:
        if subset_by_index is not None:
            raise new_error(
                NotImplementedError,
                "svd: subset_by_index with hermitian=True is not supported.",
                "singular values are sorted by size, eigenvalues by sign too.",
                "Leave out hermitian, or slice the results.",
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
    return SVDResult(u, s, adjoint(signed))


def svdvals(x: ArrayLike, /) -> Array:
    """Singular values, falling.

    >>> svdvals(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([3., 2.], dtype=float32)
    """
    return svd(x, compute_uv=False, hermitian=False)


def qr(a: Any, mode: str = "reduced") -> Any:
    """a = Q R with orthonormal columns in Q and upper triangular R.

    `mode`: 'reduced' (Q is m by min(m, n)), 'complete' (m by m), 'r' (R alone), or 'raw': the
    reflectors and their factors as LAPACK gives them, transposed (NumPy's `h` and `tau`).

    >>> q, r = qr(jnp.array([[0.0, 2.0], [3.0, 4.0], [0.0, 0.0]]))
    >>> q.shape, abs(r).round(4)
    ((3, 2), Array([[3., 4.],
           [0., 2.]], dtype=float32))
    """
    a = as_matrices("qr", a)
    if mode == "raw":
        packed, taus = lax.linalg.geqrf(a)
        return QRResult(packed.mT, taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise new_error(ValueError, f"Unsupported QR decomposition mode '{mode}'")
    if mode == "r":
        return _triangular_factor(a)
    return QRResult(*lax.linalg.qr(a, full_matrices=mode in ("full", "complete")))


@one_program()  # without the columns, which an eager `qr` computes
def _triangular_factor(a: ArrayLike) -> Array:
    return lax.linalg.qr(a, full_matrices=False)[1]


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues (rising, real) and eigenvectors (columns) of Hermitian matrices.

    `UPLO`: 'L' or 'U', the triangle to read when `symmetrize_input` is False.

    >>> w, v = eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w.round(4), abs(v).round(4)
    (Array([1., 3.], dtype=float32), Array([[0.7071, 0.7071],
           [0.7071, 0.7071]], dtype=float32))
    """
    a = as_matrices("eigh", a, square=True)
    if UPLO not in (None, "L", "U"):
        raise new_error(ValueError, f"UPLO must be one of None, 'L', or 'U', got {UPLO!r}")
    v, w = lax.linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@one_program()  # without the vectors, which an eager `eigh` computes
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues of Hermitian matrices, rising.

    >>> eigvalsh(jnp.array([[2.0, 1.0], [1.0, 2.0]])).round(4)
    Array([1., 3.], dtype=float32)
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors (columns) of general matrices; complex (CPU only).

    >>> w, v = eig(jnp.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> w
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    a = as_matrices("eig", a, square=True)
    w, v = lax.linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of general matrices, complex, in no particular order.

    >>> sorted(eigvals(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).imag.round(4).tolist())
    [-1.0, 1.0]
    """
    a = as_matrices("eigvals", a, square=True)
    return lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
