"""Factorisations and solvers. `overwrite_*` and `check_finite` are accepted and ignored: arrays are
immutable, and a compiled program does not look at values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core import dtypes
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import promote_args_inexact

Array = Any
ArrayLike = Any


def _adjoint(a: Array) -> Array:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _square(name: str, a: Array) -> None:
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"{name}: expected square matrices [..., n, n], got shape {a.shape}")


def _with_vectors(
    solve: Callable[..., Array], n_matrices: str, b_ndim: int
) -> Callable[..., Array]:
    """Broadcast a solver of one system over leading axes; a one-dimensional b is one vector."""
    if b_ndim == 1:
        return jnp.vectorize(solve, signature=f"{n_matrices},(n)->(n)")
    return jnp.vectorize(solve, signature=f"{n_matrices},(n,k)->(n,k)")


@one_program()
def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The triangular factor of a Hermitian positive definite matrix: a = uᴴ u, or l lᴴ if `lower`.

    Special cases: nan if `a` is not positive definite.

    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    (a,) = promote_args_inexact("cholesky", a)
    _square("cholesky", a)
    factor = lax.linalg.cholesky(a if lower else _adjoint(a), symmetrize_input=False)
    return factor if lower else _adjoint(factor)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """(cholesky(a), lower), for cho_solve.

    >>> cho_factor(jnp.array([[4.0]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower=lower), lower


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The x with a x = b, from cho_factor(a).

    >>> cho_solve((jnp.array([[2.0]]), False), jnp.array([8.0]))
    Array([2.], dtype=float32)
    """
    c, lower = c_and_lower
    return _cho_solve(c, b, bool(lower))


@one_program(2)
def _cho_solve(c: ArrayLike, b: ArrayLike, lower: bool) -> Array:
    c, b = promote_args_inexact_ranks("cho_solve", c, b)
    _square("cho_solve", c)

    def one(c: Array, b: Array) -> Array:
        columns = b[:, None] if b.ndim == 1 else b
        solve = partial(lax.linalg.triangular_solve, left_side=True, lower=lower, conjugate_a=True)
        adjoint_first = not lower
        y = solve(c, columns, transpose_a=adjoint_first, conjugate_a=adjoint_first)
        x = solve(c, y, transpose_a=not adjoint_first, conjugate_a=not adjoint_first)
        return x[:, 0] if b.ndim == 1 else x

    return _with_vectors(one, "(n,n)", b.ndim)(c, b)


def promote_args_inexact_ranks(name: str, *args: ArrayLike) -> tuple[Array, ...]:
    """To one inexact dtype; ranks stay as they are."""
    arrays = [jnp.asarray(a) for a in args]
    dtype = jnp.result_type(*arrays)
    if not jnp.issubdtype(dtype, np.inexact):
        dtype = jnp.promote_types(dtype, np.float32)
    return tuple(a.astype(dtype) for a in arrays)


_TRANSPOSED = {0: (False, False), "N": (False, False), 1: (True, False), "T": (True, False)}
_TRANSPOSED |= {2: (True, True), "C": (True, True)}


@one_program(2)
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The x with a x = b, `a` triangular.

    Args:
      a: [..., n, n]; only the upper triangle is read, or the lower one if `lower`.
      b: [n] or [..., n, k].
      trans: 0 or "N": a; 1 or "T": its transpose; 2 or "C": its adjoint.
      unit_diagonal: take the diagonal as ones.
    Raises:
      ValueError: unknown `trans`, or shapes that do not fit.

    >>> solve_triangular(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.array([2.0, 3.0]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    if trans not in _TRANSPOSED:
        raise ValueError(f"Invalid 'trans' value {trans}; use 0, 1 or 2 (or 'N', 'T', 'C').")
    transpose, conjugate = _TRANSPOSED[trans]
    a, b = promote_args_inexact_ranks("solve_triangular", a, b)
    _square("solve_triangular", a)

    def one(a: Array, b: Array) -> Array:
        x = lax.linalg.triangular_solve(
            a,
            b[:, None] if b.ndim == 1 else b,
            left_side=True,
            lower=lower,
            transpose_a=transpose,
            conjugate_a=conjugate,
            unit_diagonal=unit_diagonal,
        )
        return x[:, 0] if b.ndim == 1 else x

    return _with_vectors(one, "(n,n)", b.ndim)(a, b)


@one_program(2)
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The x with a x = b.

    Args:
      a: [..., n, n].  b: [n] or [..., n, k].
      assume_a: "gen", "sym", "her", or "pos" (positive definite: solved by Cholesky, reading the
        triangle that `lower` names; cotangents are those of the whole matrix, as of "gen").
    Raises:
      ValueError: unknown `assume_a`.

    >>> solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    kinds = ["gen", "sym", "her", "pos"]
    if assume_a not in kinds:
        raise ValueError(f"Expected assume_a to be one of {kinds}; got {assume_a!r}")
    a, b = promote_args_inexact_ranks("solve", a, b)
    _square("solve", a)
    if assume_a != "pos":
        return _with_vectors(jnp.linalg.solve, "(n,n)", b.ndim)(a, b)

    def positive(a: Array, b: Array) -> Array:
        # The solution's derivative needs the matrix, not the factor's: custom_linear_solve.
        factors = cho_factor(lax.stop_gradient(a), lower=lower)

        def matvec(x: Array) -> Array:
            return jnp.matmul(a, x)

        def run(_: Any, x: Array) -> Array:
            return cho_solve(factors, x)

        return lax.custom_linear_solve(matvec, b, run, symmetric=True)

    return _with_vectors(positive, "(n,n)", b.ndim)(a, b)


@one_program()
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """The packed LU factors of `a` and the pivots, for lu_solve.

    >>> lu_factor(jnp.array([[2.0, 0.0], [0.0, 4.0]]))[1]
    Array([0, 1], dtype=int32)
    """
    (a,) = promote_args_inexact("lu_factor", a)
    packed, pivots, _ = lax.linalg.lu(a)
    return packed, pivots


@one_program(2)
def lu_solve(
    lu_and_piv: tuple[Array, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """The x with a x = b (trans=1: aᵀ x = b, 2: aᴴ x = b), from lu_factor(a).

    >>> lu_solve(lu_factor(jnp.array([[2.0, 0.0], [0.0, 4.0]])), jnp.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    packed, pivots = lu_and_piv
    packed, b = promote_args_inexact_ranks("lu_solve", packed, b)
    pivots = jnp.asarray(pivots)
    _square("lu_solve", packed)

    def one(packed: Array, pivots: Array, b: Array) -> Array:
        order = lax.linalg.lu_pivots_to_permutation(pivots, packed.shape[-1])
        columns = b[:, None] if b.ndim == 1 else b
        solve = partial(lax.linalg.triangular_solve, packed, left_side=True)
        if trans == 0:
            x = solve(columns[order], lower=True, unit_diagonal=True)
            x = solve(x, lower=False)
        else:
            options = {"transpose_a": True, "conjugate_a": trans == 2}
            x = solve(columns, lower=False, **options)
            x = solve(x, lower=True, unit_diagonal=True, **options)
            x = x[jnp.argsort(order)]
        return x[:, 0] if b.ndim == 1 else x

    return _with_vectors(one, "(n,n),(n)", b.ndim)(packed, pivots, b)


@one_program()
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """(p, l, u) with a = p l u, or (p l, u) if `permute_l`; [..., m, n].

    >>> [part.shape for part in lu(jnp.eye(3))]
    [(3, 3), (3, 3), (3, 3)]
    """
    (a,) = promote_args_inexact("lu", a)
    packed, _, order = lax.linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    lower = jnp.tril(packed[..., :, :k], -1)
    lower = lower + jnp.broadcast_to(jnp.eye(m, k, dtype=a.dtype), lower.shape)
    upper = jnp.triu(packed[..., :k, :])
    places = jnp.argsort(order, axis=-1)
    if permute_l:
        return jnp.take_along_axis(lower, places[..., None], axis=-2), upper
    # Row i of a is row places[i] of l u.
    columns = lax.broadcasted_iota(places.dtype, (*places.shape, m), places.ndim)
    p = (places[..., :, None] == columns).astype(a.real.dtype)
    return p, lower, upper


@one_program()
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant of square matrices.

    >>> det(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    Array(6., dtype=float32)
    """
    return jnp.linalg.det(a)


@one_program()
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse of square matrices.

    >>> inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return jnp.linalg.inv(a)


@one_program()
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """The QR factorisation.

    Args:
      mode: "full" (square q, and r of the shape of `a`), "economic" (min(m, n) columns and rows)
        or "r" (a tuple with the r of "full" only).
      pivoting: also return the column order p, with a[:, p] = q r.
    Raises:
      ValueError: unknown mode.

    >>> [part.shape for part in qr(jnp.ones((3, 2)), mode="economic")]
    [(3, 2), (2, 2)]
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'; use full, economic or r.")
    (a,) = promote_args_inexact("qr", a)
    q, r, *p = lax.linalg.qr(a, pivoting=pivoting, full_matrices=mode == "full")
    if mode == "economic" or mode == "full":
        return (q, r, *p)
    added = max(a.shape[-2] - a.shape[-1], 0)
    return (jnp.pad(r, [(0, 0)] * (a.ndim - 2) + [(0, added), (0, 0)]), *p)


@one_program()
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular value decomposition (u, s, vᴴ), or s alone; the driver is ignored.

    >>> svd(jnp.diag(jnp.array([1.0, 3.0])), compute_uv=False)
    Array([3., 1.], dtype=float32)
    """
    (a,) = promote_args_inexact("svd", a)
    result = jnp.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(result) if compute_uv else result


@one_program(2)
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues (ascending) and eigenvectors (columns) of Hermitian matrices.

    Raises:
      NotImplementedError: a generalised problem (`b`), `eigvals`, or another `type`.

    >>> eigh(jnp.array([[2.0, 0.0], [0.0, 3.0]]), eigvals_only=True)
    Array([2., 3.], dtype=float32)
    """
    if b is not None or eigvals is not None or type != 1:
        raise NotImplementedError(
            "eigh solves a v = w v only: b and eigvals must be None, and type 1.\n  For b positive "
            "definite, factor it with cholesky and solve the standard problem."
        )
    (a,) = promote_args_inexact("eigh", a)
    values, vectors = jnp.linalg.eigh(a, UPLO="L" if lower else "U")
    return values if eigvals_only else (values, vectors)


@one_program()
def schur(a: ArrayLike, output: str = "real") -> list[Array]:
    """[t, z] with a = z t zᴴ and t (quasi-)triangular; output "real" or "complex".

    >>> schur(jnp.array([[2.0, 1.0], [0.0, 3.0]]))[0].shape
    (2, 2)
    """
    if output not in ("real", "complex"):
        raise ValueError(
            f"schur: Expected output to be 'real' or 'complex', got output={output!r}."
        )
    (a,) = promote_args_inexact("schur", a)
    if output == "complex" and not jnp.iscomplexobj(a):
        a = a.astype(dtypes.to_complex_dtype(a.dtype))
    return lax.linalg.schur(a)


@one_program()
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form h of square matrices; with `calc_q` also q, where a = q h qᴴ.

    >>> pyjax.scipy.linalg.hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    (a,) = promote_args_inexact("hessenberg", a)
    _square("hessenberg", a)
    n = a.shape[-1]
    if n <= 1:
        return (a, jnp.ones_like(a)) if calc_q else a
    packed, taus = lax.linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], taus)
    q = jnp.broadcast_to(jnp.eye(n, dtype=a.dtype), a.shape)
    return h, q.at[..., 1:, 1:].set(inner)
