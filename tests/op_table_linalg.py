"""Operator table: matrix factorisations. Oracles return what is unique: products, values, not
vectors.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from pyjax import lax
from pyjax.lax import linalg
from tests.op_table import I32, INEXACT, Op, integers, normal, spd, uniform


def _wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _t(x):
    return (
        lax.conj(lax.transpose(x, (1, 0)))
        if np.dtype(x.dtype).kind == "c"
        else lax.transpose(x, (1, 0))
    )


def _eigh_parts(x):
    """Eigenvalues, and the projector on the first eigenvector (whose sign or phase is free)."""
    v, w = linalg.eigh(x)
    first = lax.slice(v, (0, 0), (x.shape[0], 1))
    return w, lax.dot(first, _t(first))


def _eigh_oracle(x):
    w, v = np.linalg.eigh((_wide(x) + _wide(x).conj().T) / 2)
    return w, v[:, :1] @ v[:, :1].conj().T


def _svd_parts(x):
    u, s, vt = linalg.svd(x, full_matrices=False)
    n = len(s.shape) and s.shape[0]
    first = lax.dot(lax.slice(u, (0, 0), (x.shape[0], 1)), lax.slice(vt, (0, 0), (1, x.shape[1])))
    return s, first if n else s


def _svd_oracle(x):
    u, s, vt = np.linalg.svd(_wide(x), full_matrices=False)
    return s, u[:, :1] @ vt[:1]


def _qr_positive(x):
    """r with a positive diagonal, as r^H r: unique."""
    q, r = linalg.qr(x, full_matrices=False)
    return lax.dot(_t(r), r), lax.dot(q, r)


def _lu_oracle(x):
    lu, pivots = scipy.linalg.lu_factor(_wide(x))
    permutation = np.arange(x.shape[0])
    for i, p in enumerate(pivots):
        permutation[[i, p]] = permutation[[p, i]]
    return lu, pivots.astype(np.int32), permutation.astype(np.int32)


def _sorted_eigenvalues(x):
    w, _ = linalg.eig(x, compute_left_eigenvectors=False)
    return lax.sort(w)


_SQUARE = (((4, 4),),)
_TALL = (((5, 3),),)

OPS = [
    Op(
        "cholesky",
        linalg.cholesky,
        lambda x: np.linalg.cholesky((_wide(x) + _wide(x).conj().T) / 2),
        shapes=_SQUARE,
        domain=spd(),
        grad_order=2,
        tol=2e-5,
    ),
    *[
        Op(
            "triangular_solve",
            lambda a, b, left=left, lower=lower, trans=trans: linalg.triangular_solve(
                a, b, left_side=left, lower=lower, transpose_a=trans, conjugate_a=trans
            ),
            lambda a, b, left=left, lower=lower, trans=trans: _solve_oracle(
                a, b, left, lower, trans
            ),
            shapes=(((3, 3), (3, 2)),) if left else (((3, 3), (2, 3)),),
            dtypes=INEXACT,
            domain=(uniform(1, 2), normal),
            grad_order=2,
            tol=1e-4,
            name=f"triangular_solve-{left:d}{lower:d}{trans:d}",
        )
        for left in (True, False)
        for lower in (True, False)
        for trans in (True, False)
    ],
    Op("lu", linalg.lu, _lu_oracle, shapes=_SQUARE, dtypes=INEXACT, grad_order=1, tol=1e-4),
    Op(
        "lu",
        lambda x: linalg.lu(x)[0],
        lambda x: scipy.linalg.lapack.dgetrf(_wide(x))[0],
        shapes=(((5, 3),), ((3, 5),)),
        grad_order=1,
        tol=1e-4,
        name="lu-rectangular",
    ),
    Op(
        "getrf",
        lambda x: linalg.lu(x)[0],
        lambda x: _lu_oracle(x)[0],
        shapes=_SQUARE,
        tol=1e-4,
        note="getrf is what lu lowers to",
    ),
    Op(
        "lu_pivots_to_permutation",
        lambda p: linalg.lu_pivots_to_permutation(p, 5),
        lambda p: _permuted(p, 5),
        shapes=(((3,),),),
        dtypes=(I32,),
        domain=integers(2, 5),
    ),
    Op(
        "qr",
        _qr_positive,
        lambda x: (_wide(x).conj().T @ _wide(x), _wide(x)),
        shapes=_TALL,
        dtypes=INEXACT,
        grad_order=1,
        tol=1e-4,
    ),
    Op(
        "qr",
        lambda x: linalg.qr(x, pivoting=True, full_matrices=False)[2],
        lambda x: scipy.linalg.qr(_wide(x), pivoting=True)[2].astype(np.int32),
        shapes=_TALL,
        name="qr-pivoting",
    ),
    Op(
        "geqrf",
        lambda x: linalg.geqrf_p.bind(x),
        lambda x: scipy.linalg.lapack.dgeqrf(_wide(x))[:2],
        shapes=_TALL,
        tol=1e-4,
    ),
    Op(
        "geqp3",
        lambda x: linalg.geqp3_p.bind(x, np.zeros(3, np.int32))[1],
        lambda x: scipy.linalg.lapack.dgeqp3(_wide(x))[1].astype(np.int32),
        shapes=_TALL,
    ),
    Op(
        "householder_product",
        linalg.householder_product,
        lambda a, t: scipy.linalg.lapack.dorgqr(_wide(a), _wide(t))[0],
        shapes=(((5, 3), (3,)),),
        grad_order=2,
        tol=1e-4,
    ),
    Op(
        "ormqr",
        linalg.ormqr,
        lambda a, t, c: scipy.linalg.lapack.dormqr("L", "N", _wide(a), _wide(t), _wide(c), 100)[0],
        shapes=(((5, 3), (3,), (5, 2)),),
        grad_order=1,
        tol=1e-4,
    ),
    Op("eigh", _eigh_parts, _eigh_oracle, shapes=_SQUARE, dtypes=INEXACT, grad_order=1, tol=1e-4),
    Op(
        "svd",
        _svd_parts,
        _svd_oracle,
        shapes=(((5, 3),), ((3, 5),)),
        dtypes=INEXACT,
        grad_order=1,
        tol=1e-4,
    ),
    Op(
        "svd",
        lambda x: linalg.svd(x, compute_uv=False),
        lambda x: np.linalg.svd(_wide(x), compute_uv=False),
        shapes=(((5, 3),),),
        grad_order=1,
        tol=1e-4,
        name="svd-values",
    ),
    Op(
        "eig",
        _sorted_eigenvalues,
        lambda x: np.sort_complex(np.linalg.eigvals(_wide(x))),
        shapes=_SQUARE,
        dtypes=INEXACT,
        tol=1e-3,
    ),
    Op(
        "schur",
        lambda x: _schur_product(*linalg.schur(x)),
        lambda x: x,
        shapes=_SQUARE,
        dtypes=INEXACT,
        tol=1e-3,
    ),
    Op(
        "hessenberg",
        linalg.hessenberg,
        lambda x: scipy.linalg.lapack.dgehrd(_wide(x))[:2],
        shapes=_SQUARE,
        tol=1e-4,
    ),
    Op(
        "tridiagonal",
        lambda x: linalg.tridiagonal(x)[1:3],
        lambda x: scipy.linalg.lapack.dsytrd(_wide(x), lower=1)[1:3],
        shapes=_SQUARE,
        domain=spd(),
        tol=1e-4,
    ),
    Op(
        "tridiagonal_solve",
        linalg.tridiagonal_solve,
        lambda dl, d, du, b: np.linalg.solve(
            np.diag(_wide(d)) + np.diag(_wide(dl)[1:], -1) + np.diag(_wide(du)[:-1], 1), _wide(b)
        ),
        shapes=(((4,), (4,), (4,), (4, 2)),),
        domain=(normal, uniform(4, 6), normal, normal),
        grad_order=1,
        tol=1e-4,
    ),
    Op(
        "cholesky_update",
        linalg.cholesky_update,
        lambda r, w: np.linalg.cholesky(np.triu(_wide(r)).T @ np.triu(_wide(r)) + np.outer(w, w)).T,
        shapes=(((4, 4), (4,)),),
        domain=(uniform(1, 2), normal),
        tol=2e-4,
        vmap=False,
        note="cholesky_update has no batching rule, as in JAX on CPU",
    ),
    Op(
        "symmetric_product",
        lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=0.5),
        lambda a, c: 2 * _wide(a) @ _wide(a).T + 0.5 * _wide(c),
        shapes=(((3, 2), (3, 3)),),
        grad_order=1,
        tol=1e-5,
    ),
]


def _solve_oracle(a, b, left, lower, trans):
    m = np.tril(_wide(a)) if lower else np.triu(_wide(a))
    m = m.conj().T if trans else m
    return np.linalg.solve(m, _wide(b)) if left else np.linalg.solve(m.T, _wide(b).T).T


def _permuted(pivots, n):
    permutation = np.arange(n)
    for i, p in enumerate(pivots):
        permutation[[i, p]] = permutation[[p, i]]
    return permutation.astype(np.int32)


def _schur_product(t, z):
    return lax.dot(lax.dot(z, t), _t(z))
