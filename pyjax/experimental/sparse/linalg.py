"""Linear algebra of sparse matrices: direct solution of systems, the largest eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.eval_shape import eval_shape
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.experimental.sparse import products
from pyjax.experimental.sparse.base import JAXSparse
from pyjax.experimental.sparse.bcsr import coordinates_of
from pyjax.interpreters.composed import composed
from pyjax.lax.callbacks import pure_callback

# -- systems of equations -------------------------------------------------------------------------

# How SciPy orders columns before it factors, by the numbers of cuSOLVER.
_ORDERS = {0: "NATURAL", 1: "COLAMD", 2: "MMD_AT_PLUS_A", 3: "COLAMD"}


def _solved_by_scipy(
    data: Any, indices: Any, indptr: Any, b: Any, *, order: str, transpose: bool
) -> np.ndarray:
    b = np.asarray(b)
    wide = np.result_type(b.dtype, np.float32)  # SuperLU knows no smaller types
    parts = (np.asarray(data, wide), np.asarray(indices), np.asarray(indptr))
    matrix = scipy.sparse.csr_matrix(parts, shape=(b.size, b.size))
    matrix = matrix.T.tocsr() if transpose else matrix
    x = scipy.sparse.linalg.spsolve(matrix, b.astype(wide), permc_spec=order)
    return np.asarray(x, b.dtype)


def _spsolve(
    data: Array, indices: Array, indptr: Array, b: Array, *, tol: float, reorder: int
) -> list[Array]:
    del tol
    at = coordinates_of(indices, indptr)
    dims = (((1,), (0,)), ((), ()))
    shape = (b.shape[0], b.shape[0])
    matvec = partial(products.dot_dense, data, at, shape=shape, dimension_numbers=dims)

    def solver(transpose: bool) -> Callable[..., Array]:
        call = partial(_solved_by_scipy, order=_ORDERS[reorder], transpose=transpose)

        def solve(_: Any, b: Array) -> Array:
            out = ShapedArray(b.shape, b.dtype)
            return pure_callback(call, out, data, indices, indptr, b, vmap_method="sequential")

        return solve

    return [lax.custom_linear_solve(matvec, b, solver(False), solver(True))]


spsolve_p = composed("spsolve", _spsolve)


def spsolve(
    data: ArrayLike,
    indices: ArrayLike,
    indptr: ArrayLike,
    b: ArrayLike,
    tol: float = 1e-6,
    reorder: int = 1,
) -> Array:
    """The solution x of A x = b, A being a square matrix in compressed rows: SciPy's SuperLU, on
    the host. It has derivatives by `data` and `b`.

    Args:
      data, indices, indptr: stored elements, their columns, where rows begin; see `BCSR`.
      b: vector of the dtype of `data`, which is floating or complex.
      tol: from which size on a pivot counts as zero on solvers of GPUs; SuperLU has no
        such bound.
      reorder: how columns are ordered first: 0 as they are, 1 or 3 by approximate minimum degree,
        2 by that of A^T + A.
    Returns:
      vector like `b`; nan where the matrix is singular, with a warning of SciPy's.
    Raises:
      ValueError: shapes or dtypes do not fit, or there is no such order.

    >>> import numpy as np
    >>> from pyjax.experimental.sparse import CSR
    >>> m = CSR.fromdense(np.array([[2., 0.], [0., 4.]], np.float32))
    >>> spsolve(m.data, m.indices, m.indptr, np.ones(2, np.float32)).tolist()
    [0.5, 0.25]
    """
    data, indices, indptr, b = map(jnp.asarray, (data, indices, indptr, b))
    if any(x.ndim != 1 for x in (data, indices, indptr, b)):
        fail(
            ValueError,
            f"Arrays must be one-dimensional. Got {data.shape=} {indices.shape=} {indptr.shape=} "
            f"{b.shape=}",
            fix="Use vmap for several systems.",
        )
    if indptr.size != b.size + 1 or data.shape != indices.shape:
        fail(
            ValueError,
            f"Invalid CSR buffer sizes: {data.shape=} {indices.shape=} {indptr.shape=}",
            f"the vector has {b.size} elements: indptr has one more, and there is an index for "
            "each stored element.",
        )
    if data.dtype != b.dtype:
        fail(
            ValueError,
            f"data types do not match: {data.dtype=} {b.dtype=}",
            fix="Convert one of them: b.astype(data.dtype).",
        )
    if reorder not in _ORDERS:
        fail(ValueError, f"{reorder=} not valid, must be 0, 1, 2 or 3")
    return spsolve_p.bind(data, indices, indptr, b, tol=float(tol), reorder=int(reorder))


# -- eigenvalues ----------------------------------------------------------------------------------


def lobpcg_standard(
    A: ArrayLike | JAXSparse | Callable[[Array], Array],
    X: ArrayLike,
    m: int = 100,
    tol: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:
    """The largest eigenvalues of a symmetric matrix, and their eigenvectors, by products only.

    Args:
      A: symmetric matrix (n, n), or a function that multiplies it with an array (n, any).
      X: real floating array (n, k), where the search begins; 5 k < n.
      m: most iterations.
      tol: an eigenpair has converged if |A x - theta x| < 10 n tol (|A| + |theta|), |A| being
        estimated by the largest value found; by default the spacing of the dtype at one.
    Returns:
      theta (k,), descending; U (n, k), orthonormal columns; the number of iterations.
    Raises:
      ValueError: shapes do not fit.   TypeError: X is not floating.
    Source: A. Knyazev, Toward the optimal preconditioned eigensolver, SIAM J. Sci. Comput. 23
    (2001), without preconditioner; the basis is made orthonormal in each iteration, as J. Duersch
    and others propose (SIAM J. Sci. Comput. 40, 2018).

    >>> import numpy as np
    >>> a = np.diag(np.arange(1.0, 13.0, dtype=np.float32))
    >>> theta, u, _ = lobpcg_standard(a, np.ones((12, 2), np.float32) + np.eye(12, 2, dtype="f"))
    >>> theta.round(3).tolist()
    [12.0, 11.0]
    """
    X = jnp.asarray(X)
    if X.ndim != 2:
        fail(ValueError, f"lobpcg_standard: X must be (n, k), got shape {X.shape}")
    if not jnp.issubdtype(X.dtype, np.floating):
        fail(TypeError, f"lobpcg_standard: X must be floating, got {X.dtype}", fix="Convert it.")
    n, k = X.shape
    if k == 0:
        fail(ValueError, f"must have search dim > 0, got {k}")
    if k * 5 >= n:
        fail(
            ValueError,
            f"expected search dim * 5 < matrix dim (got {k * 5}, {n})",
            "the subspace of an iteration has three times as many dimensions.",
            "For so small a matrix use jnp.linalg.eigh.",
        )
    apply = _applied(A, X)
    tol = jnp.finfo(X.dtype).eps if tol is None else tol
    return _lobpcg(apply, X, int(m), jnp.asarray(tol, X.dtype))


def _applied(A: Any, X: Array) -> Callable[[Array], Array]:
    n = X.shape[0]
    if not callable(A):
        matrix = A if isinstance(A, JAXSparse) else jnp.asarray(A)
        if matrix.shape != (n, n):
            fail(ValueError, f"A must be ({n}, {n}) matrix A, got shape {matrix.shape}")
        return lambda x: matrix @ x
    out = eval_shape(A, X)
    if out.shape != X.shape or out.dtype != X.dtype:
        fail(
            ValueError,
            f"A must be ({n}, {n}) matrix A, got output {out.shape} of {out.dtype}",
            f"the function was given an array {X.shape} of {X.dtype}.",
        )
    return A


def _lobpcg(
    apply: Callable[[Array], Array], X: Array, m: int, tol: Array
) -> tuple[Array, Array, Array]:
    n, k = X.shape

    def ritz(basis: Array) -> tuple[Array, Array, Array, Array]:
        """The k largest Ritz values, their vectors and products, and how these are composed."""
        image = apply(basis)
        small = basis.T @ image
        values, vectors = jnp.linalg.eigh((small + small.T) / 2)
        best = vectors[:, ::-1][:, :k]
        return values[::-1][:k], basis @ best, image @ best, best

    def converged(theta: Array, X: Array, AX: Array) -> Array:
        residual = jnp.linalg.norm(AX - X * theta[None], axis=0)
        size = jnp.abs(theta)
        return residual < 10 * n * tol * (jnp.max(size) + size)

    def more(state: Any) -> Array:
        i, theta, X, AX, _ = state
        return (i < m) & ~jnp.all(converged(theta, X, AX))

    def step(state: Any) -> Any:
        i, theta, X, AX, P = state
        # Columns that add nothing become any orthonormal ones, which do no harm.
        basis = jnp.linalg.qr(jnp.concatenate([X, P, AX - X * theta[None]], axis=1))[0]
        theta, X, AX, best = ritz(basis)
        return i + 1, theta, X, AX, basis[:, k:] @ best[k:]

    theta, X, AX, _ = ritz(jnp.linalg.qr(X)[0])
    state = (jnp.asarray(0, np.int32), theta, X, AX, jnp.zeros_like(X))
    i, theta, X, _, _ = lax.while_loop(more, step, state)
    return theta, X, i
