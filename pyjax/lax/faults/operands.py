"""What is tested of an equation: divisors for zero, indices against bounds, results for NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.primitive import Primitive
from pyjax.core.structural import convert_element_type, reshape
from pyjax.lax.arithmetic import add, div_p, rem_p
from pyjax.lax.bitwise import bitwise_or
from pyjax.lax.common import dtype_of, is_inexact, ndim_of, shape_of
from pyjax.lax.compare import eq, full_value, gt, lt, ne, select
from pyjax.lax.indexing.gather_scatter_types import (
    GatherScatterMode,
    gather_p,
    scatter_add_p,
    scatter_p,
    window_bounds,
)
from pyjax.lax.indexing.scatter import (
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_sub_p,
    window_sizes,
)
from pyjax.lax.indexing.slicing import (
    dynamic_index_in_dim,
    dynamic_slice_p,
    dynamic_update_slice_p,
    index_in_dim,
)
from pyjax.lax.reduce import argmax, reduce_or
from pyjax.lax.shape_join import pad

# Their second operand must not be zero.
dividing_primitives = frozenset({div_p, rem_p})


# By name: some belong to modules that import this one. Those of JAX's checkify, and the
# decompositions, solvers and special functions that it leaves out.
_nan_makers = frozenset(
    """
    acos acosh add add_any asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt
    conv_general_dilated cos cosh cumlogsumexp cummax cummin cumprod cumsum custom_linear_solve
    digamma div dot_general erf erf_inv erfc exp expm1 fft igamma igamma_grad_a igammac integer_pow
    integer_power lgamma log log1p logistic mul pad pow psum reduce reduce_prod reduce_sum
    reduce_window reduce_window_sum regularized_incomplete_beta rem rng_uniform rsqrt sin sinh sqrt
    sub tan tanh
    cholesky cholesky_update eig eigh geqp3 geqrf getrf hessenberg householder_product lu ormqr
    polygamma qr random_gamma_grad schur svd symmetric_product triangular_solve tridiagonal
    tridiagonal_solve zeta zeta_slope
    """.split()
)


class Indices(NamedTuple):
    """How an equation is indexed.

    Attributes:
      operands: positions of the operands that are indices: one array of index vectors, or scalars.
      axes: of the indexed array, one for each component of an index vector, or scalar.
      limits: the largest index in bounds, for each.
      shape: of the indexed array.
      windows: how many elements are taken from an index on, for each.
    """

    operands: tuple[int, ...]
    axes: tuple[int, ...]
    limits: tuple[int, ...]
    shape: tuple[int, ...]
    windows: tuple[int, ...]


def _of_gather(avals: Sequence[Any], params: dict[str, Any]) -> Indices:
    axes = params["dimension_numbers"].start_index_map
    return _of_windows((1,), axes, avals[0].shape, params["slice_sizes"])


def _of_scatter(avals: Sequence[Any], params: dict[str, Any]) -> Indices:
    numbers = params["dimension_numbers"]
    sizes = window_sizes(avals[0], avals[2], numbers)
    return _of_windows((1,), numbers.scatter_dims_to_operand_dims, avals[0].shape, sizes)


def _of_slice(avals: Sequence[Any], params: dict[str, Any]) -> Indices:
    rank = len(avals[0].shape)
    operands = tuple(range(1, 1 + rank))
    return _of_windows(operands, tuple(range(rank)), avals[0].shape, params["slice_sizes"])


def _of_update(avals: Sequence[Any], params: dict[str, Any]) -> Indices:
    rank = len(avals[0].shape)
    operands = tuple(range(2, 2 + rank))
    return _of_windows(operands, tuple(range(rank)), avals[0].shape, avals[1].shape)


def _of_windows(
    operands: tuple[int, ...],
    axes: Sequence[int],
    shape: tuple[int, ...],
    sizes: Sequence[int],
) -> Indices:
    limits = window_bounds(shape, sizes, axes)
    return Indices(operands, tuple(axes), tuple(limits), shape, tuple(sizes[a] for a in axes))


_indexing: dict[Primitive, Callable[[Sequence[Any], dict[str, Any]], Indices]] = {
    gather_p: _of_gather,
    scatter_p: _of_scatter,
    scatter_add_p: _of_scatter,
    scatter_sub_p: _of_scatter,
    scatter_mul_p: _of_scatter,
    scatter_min_p: _of_scatter,
    scatter_max_p: _of_scatter,
    dynamic_slice_p: _of_slice,
    dynamic_update_slice_p: _of_update,
}


class Index(NamedTuple):
    """One component of the indices of an equation.

    Attributes:
      values: of the component, traced or not; `axis`: of the indexed array, which has `size`
        elements there; `limit`: the largest index in bounds.
    """

    values: Any
    axis: int
    size: int
    limit: int


def index_components(found: Indices, values: Sequence[Any]) -> list[Index]:
    """The components of an equation's indices, from the values of its operands."""
    vectors = [values[i] for i in found.operands]
    if len(vectors) == 1 and ndim_of(vectors[0]):
        last = ndim_of(vectors[0]) - 1
        vectors = [
            index_in_dim(vectors[0], k, last, keepdims=False) for k in range(len(found.axes))
        ]
    return [
        Index(x, axis, found.shape[axis], limit)
        for x, axis, limit in zip(vectors, found.axes, found.limits)
    ]


def out_of_bounds(index: Index) -> Any:
    """Which elements of a component are out of bounds."""
    x = index.values
    info = np.iinfo(dtype_of(x))
    limit = full_value(x, min(max(index.limit, info.min), info.max))
    return bitwise_or(gt(x, limit), lt(x, full_value(x, 0)))


def first_out_of_bounds(found: Indices, values: Sequence[Any]) -> tuple[Any, Any]:
    """Whether an index is out of bounds; and the first that is, its axis, and the size of that."""
    raised: Any = np.zeros((), np.bool_)
    first: Any = np.zeros(3, np.int32)
    for index in index_components(found, values):
        size = math.prod(shape_of(index.values))
        if not size:
            continue
        mask = reshape(out_of_bounds(index), (size,))
        position = argmax(mask, 0, np.int32)
        x = dynamic_index_in_dim(reshape(index.values, (size,)), position, keepdims=False)
        which = pad(
            reshape(convert_element_type(x, np.dtype(np.int32)), (1,)), np.int32(0), [(0, 2, 0)]
        )
        which = add(which, np.asarray([0, index.axis, index.size], np.int32))
        first = select(raised, first, which)
        raised = bitwise_or(raised, any_of(mask))
    return raised, first


def zero_divisors(eqn: JaxprEqn, values: Sequence[Any]) -> Any:
    """Which elements of the divisor are zero; None if the equation does not divide."""
    if eqn.primitive not in dividing_primitives:
        return None
    return eq(values[1], full_value(values[1], 0))


def makes_nans(eqn: JaxprEqn) -> bool:
    """Whether an equation computes: its NaNs are its own, or came through something that computes,
    while others move them, choose among them or change their signs."""
    return eqn.primitive.name in _nan_makers


def nans(x: Any) -> Any:
    """Which elements are NaN; None if none can be."""
    dtype = getattr(x, "dtype", None)
    return ne(x, x) if isinstance(dtype, np.dtype) and is_inexact(dtype) else None


def any_of(mask: Any) -> Any:
    """Whether any element is true."""
    rank = ndim_of(mask)
    return reduce_or(mask, tuple(range(rank))) if rank else mask


def promised_indices(eqn: JaxprEqn) -> Indices | None:
    """How an equation is indexed by values that are to be in bounds, so that it is an error if they
    are not: nobody asked for them to be clamped, filled or dropped."""
    promised = GatherScatterMode.PROMISE_IN_BOUNDS
    return indices_of(eqn) if eqn.params.get("mode", promised) is promised else None


def indices_of(eqn: JaxprEqn) -> Indices | None:
    """How an equation is indexed by values; None if it is not."""
    rule = _indexing.get(eqn.primitive)
    found = None if rule is None else rule([a.aval for a in eqn.invars], eqn.params)
    return found if found is not None and found.axes else None
