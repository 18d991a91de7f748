"""QR factors, and the Householder reflectors they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import FullJvp, Unsupported
from pyjax.lax.arithmetic import add, imag, mul, sub
from pyjax.lax.arithmetic import complex as complex_
from pyjax.lax.common import aval_of, dtype_of, is_complex, shape_of
from pyjax.lax.compare import eq, full_value, select
from pyjax.lax.linalg.common import (
    INT32,
    check_matrix,
    define_on_matrices,
    identity_like,
    in_lapack_type,
    lapack_call,
    matmul,
    mH,
    only_diagonal,
    tril,
    triu,
)
from pyjax.lax.linalg.solve import triangular_solve
from pyjax.lax.nary import expand_to
from pyjax.lax.shape_join import concatenate, cut, pad
from pyjax.lax.sort import take_along

_NO_DERIVATIVE = (
    "packed reflectors are no function of the factors: a reflector of a zero column is any vector; "
    "differentiate qr instead"
)

# -- geqrf, geqp3, householder_product, ormqr ------------------------------------------------------


def _geqrf_aval(a: ShapedArray) -> list[ShapedArray]:
    batch, m, n = check_matrix("geqrf", a)
    return [a, a.update(shape=(*batch, min(m, n)))]


def _geqrf_lowering(ctx: Any, a: Any) -> list[Any]:
    return lapack_call(ctx, "geqrf", (a,), ctx.shapes_out)


geqrf_p: Primitive = define_on_matrices(
    "geqrf",
    multiple_results=True,
    abstract_eval=_geqrf_aval,
    jvp=Unsupported(_NO_DERIVATIVE),
    transpose=Unsupported("geqrf is not linear"),
    lowering=in_lapack_type(_geqrf_lowering),
)


def geqrf(a: ArrayLike) -> tuple[Array, Array]:
    """QR factors as LAPACK packs them: R, and below the diagonal the reflectors that make up Q.

    Args:
      a: [..., m, n].
    Returns:
      (packed, taus) of shapes [..., m, n] and [..., min(m, n)]; see `householder_product`.
    Raises:
      ValueError: rank below 2.

    >>> packed, taus = lax.linalg.geqrf(jnp.eye(3)[:, :2])
    >>> packed.shape, taus.shape
    ((3, 2), (2,))
    """
    packed, taus = geqrf_p.bind(a)
    return packed, taus


def _geqp3_aval(a: ShapedArray, jpvt: ShapedArray) -> list[ShapedArray]:
    batch, m, n = check_matrix("geqp3", a)
    return [a, ShapedArray((*batch, n), INT32), a.update(shape=(*batch, min(m, n)))]


def _geqp3_lowering(ctx: Any, a: Any, jpvt: Any) -> list[Any]:
    return lapack_call(ctx, "geqp3", (a, jpvt), ctx.shapes_out)


geqp3_p: Primitive = define_on_matrices(
    "geqp3",
    multiple_results=True,
    abstract_eval=_geqp3_aval,
    jvp=Unsupported(_NO_DERIVATIVE),
    transpose=Unsupported("geqp3 is not linear"),
    lowering=in_lapack_type(_geqp3_lowering),
)


def _householder_aval(a: ShapedArray, taus: ShapedArray) -> list[ShapedArray]:
    batch, m, n = check_matrix("householder_product", a)
    if m < n:
        fail(
            ValueError,
            "householder_product requires that the number of rows is at least the number of "
            f"columns, got shape {a.shape}.",
        )
    if taus.shape[:-1] != batch or taus.shape[-1] > n:
        fail(
            ValueError,
            f"taus must have shape [..., k] with k <= {n} and a's batch dimensions, got a of "
            f"shape {a.shape} and taus of shape {taus.shape}.",
        )
    return [a]


def _compact(a: Array, taus: Array) -> tuple[Array, Array]:
    """(V, T) with I - V T V^H the product of reflectors, T upper triangular.

    Multiplied out, T is what solves (I + D U) T = D, where D has taus and U is V^H V above the
    diagonal; no division, so that a tau of 0, a reflector that does nothing, is nothing special.
    """
    axis = aval_of(a).ndim - 2
    below = tril(cut(a, 0, shape_of(taus)[-1], axis + 1), -1)
    v = add(below, identity_like(below))
    products = triu(matmul(mH(v), v), 1)
    factors = expand_to(taus, shape_of(products), tuple(range(axis + 1)))
    left = mul(factors, products)
    return v, triangular_solve(
        left, only_diagonal(factors), left_side=True, lower=False, unit_diagonal=True
    )


def _householder_product(a: Array, taus: Array) -> Array:
    """householder_product in terms of lax, for derivatives."""
    v, t = _compact(a, taus)
    axis = aval_of(a).ndim - 2
    top = cut(v, 0, shape_of(a)[-1], axis)
    return sub(identity_like(a), matmul(matmul(v, t), mH(top)))


def _householder_jvp(
    primals: Sequence[Array], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    _, moved = ad.jvp(lambda *xs: [_householder_product(*xs)], list(primals), list(tangents))
    return householder_product_p.bind_all(*primals), moved


def _householder_lowering(ctx: Any, a: Any, taus: Any) -> list[Any]:
    return lapack_call(ctx, "orgqr", (a, taus), ctx.shapes_out)


householder_product_p: Primitive = define_on_matrices(
    "householder_product",
    abstract_eval=_householder_aval,
    jvp=FullJvp(_householder_jvp),
    transpose=Unsupported("householder_product is not linear"),
    lowering=in_lapack_type(_householder_lowering),
)


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of the product of elementary reflectors, as geqrf packs them.

    Args:
      a: [..., m, n], m >= n, reflectors below the diagonal.  taus: [..., k], k <= n.

    Differentiable in both, of any numbers, also where the product is not unitary.

    >>> householder_product(jnp.ones((2, 1)), jnp.ones(1))
    Array([[ 0.],
           [-1.]], dtype=float32)
    """
    return householder_product_p.bind1(a, taus)


def _ormqr_aval(
    a: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool
) -> list[ShapedArray]:
    _, m, _ = check_matrix("ormqr", a)
    check_matrix("ormqr", c)
    if c.shape[-2 if left else -1] != m:
        fail(ValueError, f"ormqr: shapes do not fit: a {a.shape}, c {c.shape}, left={left}.")
    return [c]


def _ormqr_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, left: bool, transpose: bool
) -> tuple[list[Any], list[Any]]:
    def product(a: Array, taus: Array, c: Array) -> list[Array]:
        v, t = _compact(a, taus)
        t = mH(t) if transpose else t
        if left:
            return [sub(c, matmul(v, matmul(t, matmul(mH(v), c))))]
        return [sub(c, matmul(matmul(matmul(c, v), t), mH(v)))]

    _, moved = ad.jvp(product, list(primals), list(tangents))
    return ormqr_p.bind_all(*primals, left=left, transpose=transpose), moved


ormqr_p: Primitive = define_on_matrices(
    "ormqr",
    abstract_eval=_ormqr_aval,
    jvp=FullJvp(_ormqr_jvp),
    transpose=Unsupported("ormqr is not linear in the reflectors"),
    lowering=in_lapack_type(
        lambda ctx, a, taus, c, *, left, transpose: lapack_call(
            ctx, "ormqr", (a, taus, c), ctx.shapes_out, left=left, transpose=transpose
        )
    ),
)


def ormqr(
    a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False
) -> Array:
    """Q c, or c Q with left=False, without forming Q; `transpose` uses Q^H. Reflectors as geqrf
    packs them.

    >>> a = jnp.array([[0.0, 2.0], [3.0, 4.0]])
    >>> abs(lax.linalg.ormqr(*lax.linalg.geqrf(a), a, left=True, transpose=True)).round(4)
    Array([[3., 4.],
           [0., 2.]], dtype=float32)
    """
    return ormqr_p.bind1(a, taus, c, left=bool(left), transpose=bool(transpose))


# -- qr --------------------------------------------------------------------------------------------


def _qr_aval(
    x: ShapedArray, *, pivoting: bool, full_matrices: bool, use_magma: Any
) -> list[ShapedArray]:
    batch, m, n = check_matrix("qr", x)
    k = m if full_matrices else min(m, n)
    outs = [x.update(shape=(*batch, m, k)), x.update(shape=(*batch, k, n))]
    return [*outs, ShapedArray((*batch, n), INT32)] if pivoting else outs


def _qr(x: Array, *, pivoting: bool, full_matrices: bool, use_magma: Any) -> list[Array]:
    *batch, m, n = shape_of(x)
    axis = len(batch)
    if pivoting:
        free = expand_to(np.zeros((), np.int32), (*batch, n), ())
        packed, pivots, taus = geqp3_p.bind(x, free)
        extra = [sub(pivots, np.asarray(1, np.int32))]
    else:
        packed, taus = geqrf_p.bind(x)
        extra = []
    if m < n:
        q = householder_product(cut(packed, 0, m, axis + 1), taus)
    elif full_matrices and m > n:
        zero = np.zeros((), dtype_of(x))
        config = [(0, 0, 0)] * (axis + 1) + [(0, m - n, 0)]
        q = householder_product(pad(packed, zero, config), taus)
    else:
        q = householder_product(packed, taus)
    rows = m if full_matrices else min(m, n)
    return [q, triu(cut(packed, 0, rows, axis)), *extra]


def _qr_jvp(
    primals: Sequence[Array],
    tangents: Sequence[Any],
    *,
    pivoting: bool,
    full_matrices: bool,
    use_magma: Any,
) -> tuple[list[Any], list[Any]]:
    """dq = q w with an antihermitian w, dr = q^H dx - w r, which is zero below the diagonal.

    That gives w below the diagonal, from the leading square part of r.
    """
    (x,), (dx,) = primals, tangents
    *batch, m, n = shape_of(x)
    k, axis = min(m, n), len(batch)
    outs = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    if type(dx) is ad.Zero:
        return outs, [ad.Zero(aval_of(o).to_tangent_aval()) for o in outs]
    q, r, *rest = outs
    if pivoting:
        x, dx = (take_along(v, _spread(rest[0], shape_of(v)), axis + 1) for v in (x, dx))
    added = cut(q, k, shape_of(q)[-1], axis + 1)
    q, r = cut(q, 0, k, axis + 1), cut(r, 0, k, axis)
    dx_rinv = triangular_solve(cut(r, 0, k, axis + 1), cut(dx, 0, k, axis + 1))
    qt_dx_rinv = matmul(mH(q), dx_rinv)
    below = tril(qt_dx_rinv, -1)
    turn = sub(below, mH(below))
    if is_complex(dtype_of(x)):
        diagonal = only_diagonal(qt_dx_rinv)
        phase = imag(diagonal)
        turn = add(turn, complex_(full_value(phase, 0), phase))
    dq = add(matmul(q, sub(turn, qt_dx_rinv)), dx_rinv)
    if m < n:
        dr = triu(sub(matmul(mH(q), dx), matmul(turn, r)))  # what is left below is rounding
    else:
        dr = matmul(sub(qt_dx_rinv, turn), r)
    if full_matrices and m > n:
        dq = concatenate([dq, _added_columns_tangent(x, q, dq, added)], axis + 1)
        dr = pad(dr, np.zeros((), dtype_of(x)), _rows_below(x, axis))
    return outs, [dq, dr, *[ad.Zero(aval_of(p).to_tangent_aval()) for p in rest]]


def _added_columns_tangent(x: Array, q: Array, dq: Array, added: Array) -> Array:
    """The tangent of the columns that a full Q has beyond the n of q.

    Q is I - V T V^H, so with [I; 0] - q = V T V1^H = d (V1 the top of V, unit triangular) the added
    columns are [0; I] - d k^H where k = V2 V1^-1. That says how they turn among themselves; they
    stay orthogonal to q. A column of x that is zero below the diagonal has no reflector and no
    derivative: it turns nothing.
    """
    *batch, m, n = shape_of(x)
    axis = len(batch)
    packed, _ = geqrf_p.bind(x)
    v1, v2 = cut(packed, 0, n, axis), cut(packed, n, m, axis)
    k = triangular_solve(v1, v2, lower=True, unit_diagonal=True)
    one = pad(identity_like(v1), np.zeros((), dtype_of(x)), _rows_below(x, axis))
    d = sub(one, q)
    upper = triangular_solve(v1, cut(d, 0, n, axis), left_side=True, lower=True, unit_diagonal=True)
    none = eq(only_diagonal(upper), full_value(upper, 0))
    upper = select(none, add(upper, identity_like(upper)), upper)
    moved = sub(cut(dq, n, m, axis), matmul(k, cut(dq, 0, n, axis)))
    moved = triangular_solve(upper, moved)
    moved = triangular_solve(v1, moved, lower=True, unit_diagonal=True)
    inside = matmul(mH(added), add(matmul(dq, mH(k)), matmul(d, mH(moved))))
    inside = mul(sub(inside, mH(inside)), np.asarray(0.5, dtype_of(x)))
    return sub(matmul(added, inside), matmul(q, mH(matmul(mH(added), dq))))


def _rows_below(x: Array, axis: int) -> list[tuple[int, int, int]]:
    """The padding of a square matrix to the rows of x."""
    *_, m, n = shape_of(x)
    return [(0, 0, 0)] * axis + [(0, m - n, 0), (0, 0, 0)]


def _spread(indices: Array, shape: tuple[int, ...]) -> Array:
    """Column indices for each matrix, repeated for every row."""
    return expand_to(indices, shape, (*range(len(shape) - 2), len(shape) - 1))


qr_p: Primitive = define_on_matrices(
    "qr",
    multiple_results=True,
    abstract_eval=_qr_aval,
    jvp=FullJvp(_qr_jvp),
    transpose=Unsupported("qr is not linear"),
    lowering=lower_fun(_qr),
)


def qr(
    x: ArrayLike,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> Any:
    """x = q r with orthonormal columns in q and upper triangular r; with pivoting, x[:, p] = q r.

    Args:
      x: [..., m, n].  full_matrices: q is m x m; otherwise m x min(m, n).
      pivoting: permute columns so that r's diagonal decreases in magnitude.
    Returns:
      (q, r), or (q, r, p) with pivoting.
    Raises:
      ValueError: rank below 2.

    >>> [part.shape for part in qr(jnp.ones((3, 2)), full_matrices=False)]
    [(3, 2), (2, 2)]
    """
    outs = qr_p.bind(
        x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma
    )
    return tuple(outs)
