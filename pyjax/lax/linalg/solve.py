"""Cholesky factors and triangular systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.rules import Unsupported
from pyjax.lax.arithmetic import add, conj, div, neg
from pyjax.lax.common import (
    INEXACT,
    aval_of,
    check_dtype,
    dtype_of,
    is_complex,
    scalar_like,
    shape_of,
)
from pyjax.lax.linalg.common import (
    check_matrix,
    conjugated,
    define_on_matrices,
    identity_like,
    in_lapack_type,
    matmul,
    mT,
    symmetrized,
    tril,
    triu,
)
from pyjax.lax.nary import define
from pyjax.lax.shape import expand_dims, reshape, squeeze
from xla_backend.hlo.attributes import CholeskyAttributes, TriangularSolveAttributes
from xla_backend.hlo.opcode import Opcode

# -- triangular_solve ------------------------------------------------------------------------------


def _triangular_solve_aval(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, **params: Any
) -> list[ShapedArray]:
    check_dtype("triangular_solve", a, INEXACT, 0)
    if a.dtype != b.dtype:
        fail(
            TypeError,
            f"lax.triangular_solve requires arguments to have the same dtypes, got {a.dtype}, "
            f"{b.dtype}.",
        )
    if len(a.shape) < 2:
        fail(ValueError, f"triangular_solve requires a.ndim to be at least 2, got {len(a.shape)}.")
    if len(b.shape) < 1:
        fail(ValueError, f"triangular_solve requires b.ndim to be at least 1, got {len(b.shape)}.")
    if a.shape[-1] != a.shape[-2]:
        fail(
            ValueError,
            f"The first input to triangular_solve must be a square matrix. Got shape {a.shape}.",
        )
    if a.shape[:-2] != b.shape[:-2]:
        fail(
            ValueError,
            "triangular_solve requires both arguments to have the same number of dimensions and "
            f"equal batch dimensions, got {a.shape} and {b.shape}.",
        )
    shared = b.shape[-2] if left_side else b.shape[-1]
    if a.shape[-1] != shared:
        fail(
            ValueError,
            f"Incompatible shapes for arguments to triangular_solve: {a.shape} and {b.shape}.",
        )
    return [b.update(weak_type=a.weak_type and b.weak_type)]


def _solve(
    a: ArrayLike,
    b: ArrayLike,
    left: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit: bool,
) -> Array:
    return triangular_solve_p.bind1(
        a,
        b,
        left_side=left,
        lower=lower,
        transpose_a=transpose_a,
        conjugate_a=conjugate_a,
        unit_diagonal=unit,
    )


def _jvp_matrix(
    g: Array,
    ans: Array,
    a: Array,
    b: Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Array:
    """From op(a) x = b: op(da) x + op(a) dx = 0."""
    offset = 1 if unit_diagonal else 0
    g = tril(g, -offset) if lower else triu(g, offset)
    g = mT(g) if transpose_a else g
    g = conj(g) if conjugate_a and is_complex(dtype_of(g)) else g
    moved = neg(matmul(g, ans) if left_side else matmul(ans, g))
    return _solve(a, moved, left_side, lower, transpose_a, conjugate_a, unit_diagonal)


def _triangular_solve_transpose(
    cts: Sequence[Any], a: Any, b: Any, *, transpose_a: bool, **params: Any
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [None, ad.Zero(b.aval)]
    return [None, triangular_solve_p.bind1(a, ct, transpose_a=not transpose_a, **params)]


def _triangular_solve_batching(
    axis_size: int, args: Any, dims: Any, *, left_side: bool, **params: Any
) -> Any:
    (a, b), (a_dim, b_dim) = args, dims
    if a_dim is not_mapped and len(shape_of(a)) == 2:
        # One matrix, many right-hand sides: put them side by side.
        b = move_bdim(b, b_dim, 1 if left_side else 0)
        shape = shape_of(b)
        if left_side:
            flat = reshape(b, (shape[0], shape[1] * shape[2]))
        else:
            flat = reshape(b, (shape[0] * shape[1], shape[2]))
        out = triangular_solve_p.bind1(a, flat, left_side=left_side, **params)
        return [reshape(out, shape)], [1 if left_side else 0]
    a, b = bdim_at_front(a, a_dim, axis_size), bdim_at_front(b, b_dim, axis_size)
    return triangular_solve_p.bind_all(a, b, left_side=left_side, **params), [0]


def _triangular_solve_lowering(
    ctx: Any,
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Any:
    if conjugate_a and not transpose_a:
        a = conjugated(ctx.builder, a)
    mode = "NO_TRANSPOSE"
    if transpose_a:
        mode = "ADJOINT" if conjugate_a else "TRANSPOSE"
    attributes = TriangularSolveAttributes(left_side, lower, unit_diagonal, mode)
    return ctx.builder.add(Opcode.TRIANGULAR_SOLVE, (a, b), attributes, shape=ctx.shapes_out[0])


triangular_solve_p: Primitive = define(
    "triangular_solve",
    abstract_eval=_triangular_solve_aval,
    jvp=(_jvp_matrix, lambda g, ans, a, b, **params: triangular_solve_p.bind1(a, g, **params)),
    transpose=_triangular_solve_transpose,
    batching=_triangular_solve_batching,
    lowering=in_lapack_type(_triangular_solve_lowering),
)


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve op(a) x = b (`left_side`) or x op(a) = b, where a is triangular.

    Args:
      a: [..., n, n]; only the triangle chosen by `lower` is read.
      b: [..., n, k] (left_side) or [..., k, n]; one dimension fewer is one right-hand side.
      transpose_a, conjugate_a: op. unit_diagonal: take the diagonal as ones.
    Raises:
      ValueError: shapes do not fit.   TypeError: dtypes differ or are not inexact.

    >>> triangular_solve(jnp.array([[2.0]]), jnp.array([[8.0]]), left_side=True)
    Array([[4.]], dtype=float32)
    """
    conjugate_a = bool(conjugate_a) and is_complex(dtype_of(a))
    vector = len(shape_of(b)) == len(shape_of(a)) - 1
    if vector:
        b = expand_dims(b, (-1 if left_side else -2,))
    if conjugate_a and not transpose_a:
        a, conjugate_a = conj(a), False
    out = _solve(
        a, b, bool(left_side), bool(lower), bool(transpose_a), conjugate_a, bool(unit_diagonal)
    )
    return squeeze(out, (-1 if left_side else -2,)) if vector else out


# -- cholesky --------------------------------------------------------------------------------------


def _cholesky_aval(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("cholesky", x, square=True)
    return [x]


def _cholesky_jvp(g: Array, ans: Array, x: Array) -> Array:
    """dL = L phi(L^-1 dA L^-H), phi halving the diagonal: Giles, "Collected matrix derivative
    results", 2008.
    """
    factor = tril(ans)
    inner = _solve(factor, g, False, True, True, is_complex(dtype_of(x)), False)
    inner = tril(_solve(factor, inner, True, True, False, False, False))
    halving = add(identity_like(inner), scalar_like(1, inner))
    return matmul(factor, div(inner, halving))


def _cholesky_lowering(ctx: Any, x: Any) -> Any:
    return ctx.builder.add(Opcode.CHOLESKY, (x,), CholeskyAttributes(True), shape=ctx.shapes_out[0])


cholesky_p: Primitive = define_on_matrices(
    "cholesky",
    abstract_eval=_cholesky_aval,
    jvp=(_cholesky_jvp,),
    transpose=Unsupported("cholesky is not linear"),
    lowering=in_lapack_type(_cholesky_lowering),
)


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = x, for each Hermitian positive-definite matrix.

    Args:
      x: [..., n, n].  symmetrize_input: use (x + x^H) / 2; otherwise only the lower triangle is
        read.
    Returns:
      [..., n, n]; nan in the lower triangle where x is not positive definite.
    Raises:
      ValueError: not square matrices.   TypeError: not an inexact dtype.

    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    check_matrix("cholesky", aval_of(x), square=True)
    if symmetrize_input:
        x = symmetrized(x)
    return tril(cholesky_p.bind1(x))
