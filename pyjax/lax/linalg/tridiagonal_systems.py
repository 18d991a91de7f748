"""Tridiagonal systems, rank-one updates of Cholesky factors, and symmetric products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import FullJvp, Unsupported
from pyjax.lax.arithmetic import abs, add, div, max, mul, neg, sub
from pyjax.lax.common import FLOATING, INEXACT, aval_of, check_dtype, dtype_of, shape_of
from pyjax.lax.compare import eq, full_value, le, select
from pyjax.lax.control_flow.loops import fori_loop
from pyjax.lax.creation import iota
from pyjax.lax.elementwise import sqrt
from pyjax.lax.indexing.slicing import (
    dynamic_index_in_dim,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
)
from pyjax.lax.linalg.common import (
    INT32,
    array_shape,
    check_matrix,
    define_on_matrices,
    in_lapack_type,
    lapack_call,
    matmul,
    mT,
    nan_where_failed,
    only_diagonal,
    rows,
    triu,
)
from pyjax.lax.linalg.solve import triangular_solve
from pyjax.lax.nary import define, expand_to
from pyjax.lax.shape import expand_dims
from pyjax.lax.shape_join import pad

# -- tridiagonal_solve -----------------------------------------------------------------------------


def _tridiagonal_solve_aval(
    dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturb_singular: bool
) -> list[ShapedArray]:
    check_dtype("tridiagonal_solve", d, INEXACT, 1)
    if not (dl.shape == d.shape == du.shape) or d.shape != b.shape[:-1]:
        fail(
            ValueError,
            "tridiagonal_solve: dl, d and du must have one shape [..., n] and b shape [..., n, "
            f"k], got {dl.shape}, {d.shape}, {du.shape} and {b.shape}.",
        )
    if not (dl.dtype == d.dtype == du.dtype == b.dtype):
        fail(TypeError, "tridiagonal_solve requires arguments to have the same dtypes.")
    return [b]


def _tridiagonal_solve_lowering(
    ctx: Any, dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool
) -> Any:
    if perturb_singular:
        fail(
            NotImplementedError,
            "tridiagonal_solve: perturb_singular is not supported on CPU.",
            "LAPACK solves the system that it is given.",
            "Add a small number to the diagonal.",
        )
    batch = ctx.avals_in[1].shape[:-1]
    shapes = [dl.shape, d.shape, du.shape, b.shape, array_shape(INT32, batch)]
    *_, x, info = lapack_call(ctx, "gtsv", (dl, d, du, b), shapes)
    return nan_where_failed(ctx, info, x)


def _shifted(x: Array, by: int, axis: int) -> Array:
    """Move entries along an axis, filling with zeros: by = 1 puts entry i at i + 1."""
    n = shape_of(x)[axis]
    config = [(0, 0, 0)] * len(shape_of(x))
    config[axis] = (by, -by, 0)
    return pad(x, np.zeros((), dtype_of(x)), config) if n else x


def _times(dl: Array, d: Array, du: Array, x: Array) -> Array:
    """The tridiagonal matrix times x."""
    axis = len(shape_of(x)) - 2
    low = mul(rows(dl, x), _shifted(x, 1, axis))
    high = mul(rows(du, x), _shifted(x, -1, axis))
    return add(mul(rows(d, x), x), add(low, high))


def _tridiagonal_solve_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], **params: Any
) -> tuple[list, list]:
    dl, d, du, b = primals
    x = tridiagonal_solve_p.bind1(dl, d, du, b, **params)
    if all(type(t) is ad.Zero for t in tangents):
        return [x], [ad.Zero(aval_of(x))]
    t_dl, t_d, t_du, t_b = (ad.instantiate_zeros(t) for t in tangents)
    right = t_b
    if any(type(t) is not ad.Zero for t in tangents[:3]):
        right = add(t_b, neg(_times(t_dl, t_d, t_du, x)))
    return [x], [tridiagonal_solve_p.bind1(dl, d, du, right, **params)]


def _tridiagonal_solve_transpose(
    cts: Sequence[Any], dl: Any, d: Any, du: Any, b: Any, **params: Any
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [None, None, None, ad.Zero(b.aval)]
    axis = len(shape_of(d)) - 1
    out = tridiagonal_solve_p.bind1(_shifted(du, 1, axis), d, _shifted(dl, -1, axis), ct, **params)
    return [None, None, None, out]


tridiagonal_solve_p: Primitive = define_on_matrices(
    "tridiagonal_solve",
    abstract_eval=_tridiagonal_solve_aval,
    jvp=FullJvp(_tridiagonal_solve_jvp),
    transpose=_tridiagonal_solve_transpose,
    lowering=in_lapack_type(_tridiagonal_solve_lowering),
)


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solve a x = b for tridiagonal a.

    Args:
      dl, d, du: [..., n], lower, main and upper diagonal; dl[..., 0] and du[..., -1] are not used.
      b: [..., n, k].

    >>> tridiagonal_solve(jnp.zeros(2), jnp.array([2.0, 4.0]), jnp.zeros(2), jnp.ones((2, 1)))
    Array([[0.5 ],
           [0.25]], dtype=float32)
    """
    return tridiagonal_solve_p.bind1(dl, d, du, b, perturb_singular=bool(perturb_singular))


# -- cholesky_update, symmetric_product ------------------------------------------------------------


def _cholesky_update_aval(r: ShapedArray, w: ShapedArray) -> list[ShapedArray]:
    _, n, _ = check_matrix("cholesky_update", r, square=True)
    check_dtype("cholesky_update", r, FLOATING)
    if len(r.shape) != 2 or w.shape != (n,):
        fail(
            ValueError,
            "Rank-1 update to Cholesky decomposition takes a square matrix of size n and a vector "
            f"of size n, got {r.shape} and {w.shape}.",
        )
    return [r.update(weak_type=r.weak_type and w.weak_type)]


def _cholesky_update(r: Array, w: Array) -> Array:
    """A rotation of each row of r with w takes one element of w to zero.

    The square of r is not formed: it would lose half of the digits, and has no factor where r is
    singular.
    """
    *batch, n = shape_of(w)
    r, axis = triu(r), len(batch)
    if n == 0:
        return r

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        r, w = state
        row = dynamic_index_in_dim(r, k, axis, keepdims=False)
        x, y = (dynamic_slice_in_dim(v, k, 1, axis) for v in (row, w))
        # Of the larger of both, so that no square overflows.
        largest = max(max(abs(x), abs(y)), np.asarray(np.finfo(dtype_of(w)).tiny, dtype_of(w)))
        x, y = div(x, largest), div(y, largest)
        length = sqrt(add(mul(x, x), mul(y, y)))
        nothing = eq(length, full_value(length, 0))
        cosine = select(nothing, full_value(x, 1), div(x, length))
        sine = select(nothing, y, div(y, length))
        cosine, sine = (expand_to(v, (*batch, n), tuple(range(axis + 1))) for v in (cosine, sine))
        turned = add(mul(cosine, row), mul(sine, w))
        left = sub(mul(cosine, w), mul(sine, row))
        done = le(iota(dtype_of(k), n), k)
        left = select(expand_to(done, (*batch, n), (axis,)), full_value(left, 0), left)
        return dynamic_update_index_in_dim(r, turned, k, axis), left

    return fori_loop(0, n, step, (r, w))[0]


def _cholesky_update_jvp(
    primals: Sequence[Array], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """From s^T s = r^T r + w w^T: s^-T d(s^T s) s^-1 is ds s^-1 plus its transpose."""
    (r, w), (dr, dw) = primals, (ad.instantiate_zeros(t) for t in tangents)
    factor = cholesky_update_p.bind1(r, w)
    column, dcolumn = (expand_dims(v, (1,)) for v in (w, dw))
    half = add(matmul(mT(triu(r)), triu(dr)), matmul(column, mT(dcolumn)))
    moved = triangular_solve(factor, add(half, mT(half)))
    moved = triangular_solve(factor, moved, left_side=True, transpose_a=True)
    upper = mul(moved, np.asarray(0.5, dtype_of(r)))
    upper = add(triu(moved, 1), only_diagonal(upper))
    return [factor], [matmul(upper, factor)]


def _cholesky_update_batching(axis_size: int, args: Any, dims: Any) -> tuple[list[Any], list[Any]]:
    r, w = (bdim_at_front(x, d, axis_size) for x, d in zip(args, dims))
    return [_cholesky_update(r, w)], [0]


cholesky_update_p: Primitive = define(
    "cholesky_update",
    abstract_eval=_cholesky_update_aval,
    jvp=FullJvp(_cholesky_update_jvp),
    transpose=Unsupported("cholesky_update is not linear"),
    batching=_cholesky_update_batching,
    lowering=lower_fun(_cholesky_update),
)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular factor of r^T r + w w^T, given the upper triangular r (real, n x n) and
    w (n).

    >>> factor = jnp.array([[2.0, 0.0], [0.0, 1.0]])
    >>> lax.linalg.cholesky_update(factor, jnp.array([0.0, 1.0])).round(4)
    Array([[2.    , 0.    ],
           [0.    , 1.4142]], dtype=float32)
    """
    return cholesky_update_p.bind1(r_matrix, w_vector)


def _symmetric_product_aval(
    a: ShapedArray, c: ShapedArray, *, alpha: float, beta: float
) -> list[ShapedArray]:
    batch, n, _ = check_matrix("symmetric_product", a)
    if c.shape != (*batch, n, n):
        fail(ValueError, f"symmetric_product expects c of shape {(*batch, n, n)}, got {c.shape}.")
    return [c.update(weak_type=a.weak_type and c.weak_type)]


def _symmetric_product(a: Array, c: Array, *, alpha: float, beta: float) -> Array:
    dtype = dtype_of(a)
    return add(mul(np.asarray(alpha, dtype), matmul(a, mT(a))), mul(np.asarray(beta, dtype), c))


def _symmetric_product_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, alpha: float, beta: float
) -> tuple[list, list]:
    a, c = primals
    da, dc = (ad.instantiate_zeros(t) for t in tangents)
    out = symmetric_product_p.bind1(a, c, alpha=alpha, beta=beta)
    cross = matmul(da, mT(a))
    dtype = dtype_of(a)
    moved = mul(np.asarray(alpha, dtype), add(cross, mT(cross)))
    return [out], [add(moved, mul(np.asarray(beta, dtype), dc))]


symmetric_product_p: Primitive = define_on_matrices(
    "symmetric_product",
    abstract_eval=_symmetric_product_aval,
    jvp=FullJvp(_symmetric_product_jvp),
    transpose=Unsupported("symmetric_product is differentiated through its jvp"),
    lowering=lower_fun(_symmetric_product),
    exact_params=True,
)


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha a a^T + beta c, for a [..., n, k] and symmetric c [..., n, n].

    >>> symmetric_product(jnp.ones((2, 3)), jnp.zeros((2, 2)))
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    return symmetric_product_p.bind1(a_matrix, c_matrix, alpha=float(alpha), beta=float(beta))
