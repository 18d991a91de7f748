"""Sylvester's equation, products with orthogonal factors, tridiagonal eigenvalues."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core import dtypes
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_dtypes_inexact
from pyjax.scipy._linalg_factor import promote_args_inexact_ranks, qr

Array = Any
ArrayLike = Any


@one_program(3)
def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """The X with A X + X B = C.

    Args:
      A: [m, m].  B: [n, n].  C: [m, n].
      method: "schur" (Bartels & Stewart 1972: column by column of the complex Schur form of B) or
        "eigen" (through the eigenvectors of A and B; for matrices that have a basis of them).
      tol: nan if an eigenvalue of A and one of -B are closer than this ("eigen").
    Raises:
      ValueError: shapes that do not fit, or an unknown method.

    >>> one = jnp.eye(2)
    >>> pyjax.scipy.linalg.solve_sylvester(one, one, 4 * one).real.round(4) + 0.0
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    a, b, c = promote_args_inexact_ranks("solve_sylvester", A, B, C)
    for name, x in (("A", a), ("B", b)):
        if x.ndim != 2 or x.shape[0] != x.shape[1]:
            raise ValueError(f"solve_sylvester: {name} must be square, got shape {x.shape}")
    if c.shape != (a.shape[0], b.shape[0]):
        raise ValueError(
            f"solve_sylvester: C must have shape {(a.shape[0], b.shape[0])}, got {c.shape}"
        )
    if method not in ("schur", "eigen"):
        raise ValueError(
            f"Unrecognized method {method}. The two valid methods are 'schur', 'eigen'"
        )
    kind = dtypes.to_complex_dtype(a.dtype)

    def solution(a: Array, b: Array, c: Array) -> Array:
        a, b = lax.stop_gradient(a).astype(kind), lax.stop_gradient(b).astype(kind)
        right = c.astype(kind)
        by_schur = method == "schur"
        x = _sylvester_schur(a, b, right) if by_schur else _sylvester_eigen(a, b, right, tol)
        return x if jnp.iscomplexobj(c) else x.real

    # X is linear in C, and its derivatives are those of the equation, not of the factors.
    return lax.custom_linear_solve(
        lambda x: a @ x + x @ b,
        c,
        solve=lambda _, c: solution(a, b, c),
        transpose_solve=lambda _, c: solution(a.T, b.T, c),
    )


def _sylvester_schur(a: Array, b: Array, c: Array) -> Array:
    r, u = lax.linalg.schur(a)
    s, v = lax.linalg.schur(b)
    f = jnp.conj(u.T) @ c @ v
    eye = jnp.eye(a.shape[0], dtype=a.dtype)

    def column(k: Any, y: Array) -> Array:
        # Columns from k on are still zero, so the product leaves them out.
        rest = f[:, k] - y @ s[:, k]
        solved = lax.linalg.triangular_solve(
            r + s[k, k] * eye, rest[:, None], left_side=True, lower=False
        )
        return y.at[:, k].set(solved[:, 0])

    y = lax.fori_loop(0, b.shape[0], column, jnp.zeros_like(f))
    return u @ y @ jnp.conj(v.T)


def _sylvester_eigen(a: Array, b: Array, c: Array, tol: float) -> Array:
    left, u = jnp.linalg.eig(a)
    right, v = jnp.linalg.eig(b)
    sums = left[:, None] + right[None, :]
    y = jnp.linalg.solve(u, c @ v) / sums
    x = u @ y @ jnp.linalg.inv(v)
    return jnp.where(jnp.any(jnp.abs(sums) < tol), np.nan, x)


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """(c q, r) with a = q r, or (q c, r); with `pivoting` also the order of the columns.

    Args:
      a: [m, n].
      c: for "right" [k, m], for "left" [min(m, n), k]; a vector is one row, or one column.
      mode: "right" or "left": on which side q stands.
      conjugate: multiply by conj(q).
    Raises:
      ValueError: unknown mode, or shapes that do not fit.

    >>> a = jnp.array([[0.0, 1.0], [2.0, 0.0]])
    >>> cq, r = qr_multiply(a, jnp.eye(2))
    >>> bool(jnp.allclose(cq @ r, a))
    True
    """
    if mode not in ("left", "right"):
        raise ValueError(
            f"qr_multiply: Mode argument should be one of ['left', 'right'], got {mode!r}"
        )
    a, c = promote_args_inexact_ranks("qr_multiply", a, c)
    q, r, *order = qr(a, mode="economic", pivoting=pivoting)
    q = jnp.conj(q) if conjugate else q
    inner, outer = (q.shape[-1], c.shape[:1]) if mode == "left" else (q.shape[-2], c.shape[-1:])
    if outer != (inner,):
        raise ValueError(f"qr_multiply: c has {outer} where q has {inner}: shape {c.shape}")
    return (q @ c if mode == "left" else c @ q, r, *order)


def _tridiagonal(d: Array, e: Array) -> Array:
    return jnp.diag(d.real.astype(d.dtype)) + jnp.diag(e, -1) + jnp.diag(jnp.conj(e), 1)


@one_program(None)
def _bands_values(d: Array, e: Array) -> Array:
    return jnp.linalg.eigvalsh(_tridiagonal(d, e))


@one_program(None)
def _bands_vectors(d: Array, e: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(_tridiagonal(d, e))
    return values, vectors


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Any:
    """Eigenvalues, ascending, of the Hermitian matrix with diagonal `d` [n] and off-diagonal
    `e` [n - 1], and its eigenvectors as columns unless `eigvals_only`.

    Args:
      select: "a" all, "i" those with the numbers in `select_range` (both ends included), "v" those
        in the interval (low, high] of `select_range` (a number that the values decide: not under
        jit).
      tol, key: accepted; the dense method needs neither.
    Raises:
      ValueError: shapes or ranges that do not fit, unknown `select`.

    >>> eigh_tridiagonal(jnp.array([1.0, 2.0]), jnp.zeros(1), eigvals_only=True).round(3)
    Array([1., 2.], dtype=float32)
    """
    d, e = (jnp.asarray(x) for x in promote_dtypes_inexact(jnp.asarray(d), jnp.asarray(e)))
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise ValueError(
            f"eigh_tridiagonal: expected d [n] and e [n - 1], got shapes {d.shape} and {e.shape}"
        )
    if select not in ("a", "i", "v"):
        raise ValueError(f"'select' must have a value in ('a', 'i', 'v'), got {select!r}")
    if select != "a" and select_range is None:
        raise ValueError("for select='v' and 'i', select_range must not be None.")
    if eigvals_only and select == "a":
        return _bands_values(d, e)
    values, vectors = _bands_vectors(d, e)
    if select == "i":
        first, last = (int(i) for i in select_range or (0, 0))
        if not 0 <= first <= last < d.shape[0]:
            raise ValueError(f"Got empty index range in select_range={select_range}")
        values, vectors = values[first : last + 1], vectors[:, first : last + 1]
    elif select == "v":
        low, high = select_range or (-np.inf, np.inf)
        chosen = (values > low) & (values <= high)
        values, vectors = values[chosen], vectors[:, chosen]
    return values if eigvals_only else (values, vectors)
