"""Singular values, and the polar decomposition they give."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import FullJvp, Unsupported
from pyjax.lax.arithmetic import add, div, mul, real, sub
from pyjax.lax.common import aval_of, dtype_of, is_complex, real_dtype, shape_of
from pyjax.lax.compare import eq, full_value, select
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import eye, full
from pyjax.lax.indexing.slicing import slice_in_dim
from pyjax.lax.linalg.common import (
    INT32,
    array_shape,
    check_matrix,
    checked_subset,
    columns,
    define_on_matrices,
    identity_like,
    in_lapack_type,
    lapack_call,
    matmul,
    mH,
    nan_where_failed,
    rows,
    symmetrized,
    without_diagonal,
)
from pyjax.lax.linalg.eigen import diagonal_of
from pyjax.lax.nary import expand_to


class SvdAlgorithm(enum.Enum):
    """Algorithm of svd; accepted for compatibility, CPUs use LAPACK's divide and conquer.

    >>> lax.linalg.svd(2 * jnp.eye(2), compute_uv=False, algorithm=SvdAlgorithm.QR).tolist()
    [2.0, 2.0]
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _svd_aval(
    x: ShapedArray, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any
) -> list[ShapedArray]:
    batch, m, n = check_matrix("svd", x)
    k = min(m, n)
    if subset_by_index is not None and tuple(subset_by_index) != (0, k):
        fail(
            NotImplementedError,
            f"svd subset_by_index={subset_by_index} is not implemented.",
            "LAPACK's routine here finds all of them.",
            "Slice its results: they are sorted.",
        )
    values = x.update(shape=(*batch, k), dtype=real_dtype(x.dtype))
    if not compute_uv:
        return [values]
    left, right = (m, n) if full_matrices else (k, k)
    return [values, x.update(shape=(*batch, m, left)), x.update(shape=(*batch, right, n))]


def _svd_of_nothing(x: Array, *, left: int, right: int, compute_uv: bool) -> list[Array]:
    """Of a matrix without rows or columns: any unitary factors will do."""
    *batch, m, n = shape_of(x)
    values = full((*batch, 0), 0, real_dtype(dtype_of(x)))
    if not compute_uv:
        return [values]
    sides = (len(batch), len(batch) + 1)
    return [
        values,
        *(
            expand_to(eye(dtype_of(x), shape), (*batch, *shape), sides)
            for shape in ((m, left), (right, n))
        ),
    ]


_lower_nothing: Callable[..., Any] = lower_fun(_svd_of_nothing)


def _svd_lowering(
    ctx: Any, x: Any, *, full_matrices: bool, compute_uv: bool, **params: Any
) -> list[Any]:
    *batch, m, n = ctx.avals_in[0].shape
    k = min(m, n)
    left, right = (m, n) if full_matrices and compute_uv else (k, k)
    dtype = ctx.avals_in[0].dtype
    if not k:
        return _lower_nothing(ctx, x, left=left, right=right, compute_uv=compute_uv)
    shapes = [
        x.shape,
        ctx.shapes_out[0],
        array_shape(dtype, (*batch, m, left)),
        array_shape(dtype, (*batch, right, n)),
        array_shape(INT32, batch),
    ]
    mode = "N" if not compute_uv else "A" if full_matrices else "S"
    _, s, u, vt, info = lapack_call(ctx, "gesdd", (x,), shapes, mode=mode)
    return nan_where_failed(ctx, info, *((s, u, vt) if compute_uv else (s,)))


def _complete(matrix: Array, s: Array, residual: Array) -> Array:
    """The part of a singular vector's tangent that leaves the space of the singular vectors."""
    return div(residual, convert_element_type(columns(s, residual), dtype_of(matrix)))


def _svd_jvp(
    primals: Sequence[Array],
    tangents: Sequence[Any],
    *,
    full_matrices: bool,
    compute_uv: bool,
    **params: Any,
) -> tuple[list, list]:
    """Townsend, "Differentiating the singular value decomposition", 2016."""
    (x,), (dx,) = primals, tangents
    *_, m, n = shape_of(x)
    s, u, vt = svd_p.bind(x, full_matrices=False, compute_uv=True, **params)
    outs = [s, u, vt] if compute_uv else [s]
    if compute_uv and full_matrices and m != n:
        fail(
            NotImplementedError,
            "Singular value decomposition JVP not implemented for full matrices of non-square "
            "input.",
            "vectors beyond the first min(m, n) are any basis of what is left: they are no "
            "function of the matrix.",
            fix="use full_matrices=False.",
        )
    if type(dx) is ad.Zero:
        return outs, [ad.Zero(aval_of(o)) for o in outs]
    inner = matmul(mH(u), matmul(dx, mH(vt)))
    real_inner = real(inner) if is_complex(dtype_of(inner)) else inner
    ds = diagonal_of(real_inner)
    if not compute_uv:
        return outs, [ds]
    dtype = dtype_of(inner)
    by_column, by_row = columns(s, inner), rows(s, inner)
    gaps = mul(add(by_column, by_row), sub(by_column, by_row))
    gaps = add(gaps, identity_like(real_inner))
    weights = convert_element_type(without_diagonal(div(full_value(gaps, 1), gaps)), dtype)
    by_column = convert_element_type(by_column, dtype)
    by_row = convert_element_type(by_row, dtype)
    scaled, also = mul(by_column, inner), mul(by_row, inner)
    # For complex matrices the phase of each pair is free; half of it goes to either side.
    zero = eq(s, full_value(s, 0))
    inverse = div(full_value(s, 1), select(zero, full_value(s, 1), s))
    inverse = select(zero, full_value(s, 0), inverse)
    phase = mul(sub(inner, mH(inner)), np.asarray(0.5, dtype))
    phase = mul(
        mul(phase, identity_like(inner)), convert_element_type(columns(inverse, inner), dtype)
    )
    du = matmul(u, add(mul(weights, add(scaled, mH(scaled))), phase))
    dv = matmul(mH(vt), mul(weights, add(also, mH(also))))
    if m > n:
        moved = matmul(dx, mH(vt))
        du = add(du, _complete(u, s, sub(moved, matmul(u, matmul(mH(u), moved)))))
    if n > m:
        moved = matmul(mH(dx), u)
        dv = add(dv, _complete(vt, s, sub(moved, matmul(mH(vt), matmul(vt, moved)))))
    return outs, [ds, du, mH(dv)]


svd_p: Primitive = define_on_matrices(
    "svd",
    multiple_results=True,
    abstract_eval=_svd_aval,
    jvp=FullJvp(_svd_jvp),
    transpose=Unsupported("svd is not linear"),
    lowering=in_lapack_type(_svd_lowering),
)


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Singular value decomposition x = u diag(s) vt.

    Args:
      x: [..., m, n].  full_matrices: u is m x m and vt n x n; otherwise m x k and k x n, k =
        min(m, n).
      compute_uv: False returns s alone.
      subset_by_index: (start, end): singular values number start to end - 1, and their vectors.
    Returns:
      (u, s, vt), or s; s is real and descending.

    >>> svd(jnp.diag(jnp.array([1.0, 3.0])), compute_uv=False)
    Array([3., 1.], dtype=float32)
    """
    if subset_by_index is not None:
        start, end = checked_subset("svd", subset_by_index, min(shape_of(x)[-2:]))
        if full_matrices and compute_uv and (start, end) != (0, min(shape_of(x)[-2:])):
            fail(
                ValueError,
                "svd: full_matrices and subset_by_index cannot both be set.",
                "a subset of the vectors is no full matrix.",
                "use full_matrices=False.",
            )
    outs = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=None,
        algorithm=algorithm,
    )
    if subset_by_index is not None and (not full_matrices or not compute_uv):
        axes = (-1, -1, -2)
        outs = [slice_in_dim(a, start, end, axis=axis) for a, axis in zip(outs, axes)]
    if not compute_uv:
        return outs[0]
    s, u, vt = outs
    return u, s, vt


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: Any = None,
) -> tuple[Array, Array, Array, Array]:
    """Polar decomposition x = u h with unitary u and positive semidefinite h, for m >= n.

    Computed from singular values, so it always converges: `max_iterations` and `eps` have no
    effect.

    Returns:
      (u, h, number of iterations (0), converged (True)).

    >>> u, h, iterations, converged = lax.linalg.qdwh(jnp.diag(jnp.array([2.0, -3.0])))
    >>> u.round(4) + 0.0, h.round(4) + 0.0
    (Array([[ 1.,  0.],
           [ 0., -1.]], dtype=float32), Array([[2., 0.],
           [0., 3.]], dtype=float32))
    """
    if len(shape_of(x)) != 2 or shape_of(x)[0] < shape_of(x)[1]:
        fail(ValueError, f"qdwh needs one m x n matrix with m >= n, got shape {shape_of(x)}.")
    if dynamic_shape is not None:
        fail(
            NotImplementedError,
            "qdwh: dynamic_shape is not supported.",
            "programs have the sizes of their arrays.",
            fix="slice the matrix first.",
        )
    left, s, vt = svd(x, full_matrices=False)
    scaled = mul(vt, convert_element_type(rows(s, vt), dtype_of(vt)))
    h = symmetrized(matmul(mH(vt), scaled))
    zero = expand_to(np.asarray(0, np.int32), (), ())
    return matmul(left, vt), h, zero, expand_to(np.asarray(True), (), ())
