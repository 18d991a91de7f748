"""LU factors with partial pivoting, and the permutation that a pivot sequence means."""

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
from pyjax.interpreters.rules import ZERO_TANGENT, FullJvp, Unsupported
from pyjax.lax.arithmetic import add, sub
from pyjax.lax.common import aval_of, dtype_of, shape_of
from pyjax.lax.compare import eq, select
from pyjax.lax.control_flow.loops import fori_loop
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import broadcasted_iota
from pyjax.lax.indexing.slicing import dynamic_index_in_dim
from pyjax.lax.linalg.common import (
    INT32,
    array_shape,
    check_matrix,
    define_on_matrices,
    identity_like,
    in_lapack_type,
    lapack_call,
    matmul,
    tril,
    triu,
)
from pyjax.lax.linalg.solve import triangular_solve
from pyjax.lax.nary import expand_to
from pyjax.lax.reduce import reduce_sum
from pyjax.lax.shape_join import cut, pad
from pyjax.lax.sort import take_along

# -- lu_pivots_to_permutation ----------------------------------------------------------------------


def _permutation_aval(pivots: ShapedArray, *, permutation_size: int) -> list[ShapedArray]:
    if pivots.dtype != INT32:
        fail(
            ValueError, f"lu_pivots_to_permutation requires int32 pivots, got {pivots.str_short()}"
        )
    if not pivots.shape or pivots.shape[-1] > permutation_size:
        fail(
            ValueError,
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of "
            "the pivots. "
            f"Got pivots of shape {pivots.shape}.",
        )
    return [ShapedArray((*pivots.shape[:-1], permutation_size), INT32)]


def _permutation(pivots: Array, *, permutation_size: int) -> Array:
    """Apply the row exchanges i <-> pivots[i] in order, to all matrices of the batch at once."""
    shape = (*shape_of(pivots)[:-1], permutation_size)
    axis = len(shape) - 1
    positions = broadcasted_iota(INT32, shape, axis)
    if shape_of(pivots)[-1] == 0:  # nothing to exchange, and no pivot that the loop could read
        return positions
    last = np.asarray(0, INT32)

    def exchange(i: Array, permutation: Array) -> Array:
        i = convert_element_type(i, INT32)  # the loop counts in int64 when that is enabled
        target = dynamic_index_in_dim(pivots, i, axis, keepdims=True)
        target = expand_to(target, shape, tuple(range(axis + 1)))
        here, there = eq(positions, i), eq(positions, target)
        at_i = _value_at(permutation, here, last)
        at_target = _value_at(permutation, there, last)
        return select(here, at_target, select(there, at_i, permutation))

    return fori_loop(0, shape_of(pivots)[-1], exchange, positions)


def _value_at(permutation: Array, where: Array, zero: np.ndarray) -> Array:
    """The entry of each row where the mask is set, repeated along the row."""
    shape = shape_of(permutation)
    axis = len(shape) - 1
    picked = reduce_sum(select(where, permutation, expand_to(zero, shape, ())), (axis,))
    return expand_to(picked, shape, tuple(range(axis)))


lu_pivots_to_permutation_p: Primitive = define_on_matrices(
    "lu_pivots_to_permutation",
    abstract_eval=_permutation_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("permutations are integers"),
    lowering=lower_fun(_permutation),
)


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation that exchanging row i with row pivots[i], for i = 0, 1, ..., makes.

    Args:
      pivots: int32[..., k].  permutation_size: n >= k.
    Returns:
      int32[..., n].

    >>> lu_pivots_to_permutation(jnp.array([1, 1]), 2)
    Array([1, 0], dtype=int32)
    """
    return lu_pivots_to_permutation_p.bind1(pivots, permutation_size=int(permutation_size))


# -- lu --------------------------------------------------------------------------------------------


def _lu_aval(x: ShapedArray) -> list[ShapedArray]:
    batch, m, n = check_matrix("lu", x)
    return [
        x,
        x.update(shape=(*batch, min(m, n)), dtype=INT32),
        x.update(shape=(*batch, m), dtype=INT32),
    ]


def _getrf_aval(x: ShapedArray) -> list[ShapedArray]:
    return _lu_aval(x)[:2]


def _getrf_lowering(ctx: Any, x: Any) -> list[Any]:
    batch = ctx.avals_in[0].shape[:-2]
    shapes = [*ctx.shapes_out, array_shape(INT32, batch)]
    lu_matrix, pivots, _ = lapack_call(ctx, "getrf", (x,), shapes)
    # A positive info is an exact zero on the diagonal of U, which callers may well divide by; only
    # negative ones, for bad arguments, make the result meaningless.
    return [lu_matrix, pivots]


# LAPACK's own result: factors, and row numbers from 1.
getrf_p: Primitive = define_on_matrices(
    "getrf",
    multiple_results=True,
    abstract_eval=_getrf_aval,
    jvp=Unsupported("differentiate lu instead"),
    transpose=Unsupported("getrf is not linear"),
    lowering=in_lapack_type(_getrf_lowering),
)


def _lu(x: Array) -> list[Array]:
    factors, from_one = getrf_p.bind(x)
    pivots = sub(from_one, np.asarray(1, INT32))
    return [factors, pivots, lu_pivots_to_permutation(pivots, shape_of(x)[-2])]


def _padded_to(x: Array, m: int, n: int) -> Array:
    *_, have_m, have_n = shape_of(x)
    config = [(0, 0, 0)] * (len(shape_of(x)) - 2) + [(0, m - have_m, 0), (0, n - have_n, 0)]
    return pad(x, np.zeros((), dtype_of(x)), config)


def _lu_jvp(primals: Sequence[Array], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """P dA = dL U + L dU, so L^-1 P dA U^-1 = L^-1 dL + dU U^-1: strictly lower plus upper."""
    (x,), (dx,) = primals, tangents
    factors, pivots, permutation = outs = lu_p.bind(x)
    no_tangents = [ad.Zero(aval_of(o).to_tangent_aval()) for o in (pivots, permutation)]
    if type(dx) is ad.Zero:
        return outs, [ad.Zero(aval_of(factors)), *no_tangents]
    shape = shape_of(x)
    *batch, m, n = shape
    k, axis = min(m, n), len(shape) - 2
    rows = expand_to(permutation, shape, tuple(range(axis + 1)))
    dx = take_along(dx, rows, axis)
    # Square factors: unit diagonals fill what a rectangular matrix lacks.
    lower = _padded_to(tril(cut(factors, 0, k, axis + 1), -1), m, m)
    lower = add(lower, identity_like(lower))
    upper = _padded_to(triu(cut(factors, 0, k, axis)), n, n)
    if n > k:
        beyond = np.diag((np.arange(n) >= k).astype(dtype_of(x)))
        upper = add(upper, expand_to(beyond, (*batch, n, n), (axis, axis + 1)))
    inner = triangular_solve(lower, dx, left_side=True, lower=True, unit_diagonal=True)
    inner = triangular_solve(upper, inner)
    d_lower = matmul(lower, tril(inner, -1))
    d_upper = matmul(triu(inner), upper)
    return outs, [add(d_lower, d_upper), *no_tangents]


lu_p: Primitive = define_on_matrices(
    "lu",
    multiple_results=True,
    abstract_eval=_lu_aval,
    jvp=FullJvp(_lu_jvp),
    transpose=Unsupported("lu is not linear"),
    lowering=lower_fun(_lu),
)


def lu(x: ArrayLike) -> list[Array]:
    """LU factors with partial pivoting.

    Args:
      x: [..., m, n].
    Returns:
      factors: [..., m, n], L below the diagonal (its own diagonal is 1), U on and above.
      pivots: int32[..., min(m, n)], the row exchanged with row i.
      permutation: int32[..., m], with x[permutation] = L U.

    >>> lu(jnp.array([[2.0, 0.0], [0.0, 4.0]]))[0]
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    return lu_p.bind(x)
