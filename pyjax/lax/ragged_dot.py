"""Products of groups of rows with a matrix for each group: ragged_dot and ragged_dot_general."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail
from pyjax.lax.arithmetic import sub
from pyjax.lax.bitwise import bitwise_and
from pyjax.lax.common import aval_of, dtype_of, scalar_like, shape_of
from pyjax.lax.compare import full_value, ge, lt, select
from pyjax.lax.creation import broadcasted_iota
from pyjax.lax.cumulative import cumsum
from pyjax.lax.dot import dot_general, remaining
from pyjax.lax.dot_types import PrecisionLike, RaggedDotDimensionNumbers, canonical_dot_dimensions
from pyjax.lax.indexing.slicing import dynamic_slice_in_dim
from pyjax.lax.nary import expand_to
from pyjax.lax.reshard import computed_as
from pyjax.lax.shape import reshape, transpose
from pyjax.lax.shape_join import concatenate
from pyjax.sharding.splits import explicit_context

_ROWS_BY_GROUPS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def _row_groups(
    group_sizes: ArrayLike, rows: int, groups: int, group_offset: ArrayLike | None
) -> Array:
    """bool[groups, ..., rows] of sizes [..., groups]: which rows belong to which group; rows after
    the last group belong to none.

    Args:
      groups: how many are wanted.  group_offset: the first of them; those after the last are empty.
    """
    rank = aval_of(group_sizes).ndim
    sizes = transpose(group_sizes, (rank - 1, *range(rank - 1)))
    ends = cumsum(sizes)
    starts = sub(ends, sizes)
    if group_offset is not None:
        first = reshape(group_offset, ())
        empty = expand_to(scalar_like(0, sizes), (groups, *shape_of(sizes)[1:]), ())
        starts, ends = (
            dynamic_slice_in_dim(concatenate([x, empty], 0), first, groups) for x in (starts, ends)
        )
    shape = (*shape_of(ends), rows)
    index = broadcasted_iota(dtype_of(sizes), shape, rank)
    kept = tuple(range(rank))
    return bitwise_and(
        ge(index, expand_to(starts, shape, kept)), lt(index, expand_to(ends, shape, kept))
    )


def _spread(x: ArrayLike, mask: Array, prefix: tuple[int, ...], dimension: int) -> Array:
    """Copies of x for every group (a new leading dimension), zero outside the group's rows.

    Args:
      mask: bool[groups, ..., rows].  prefix: the dimensions of x that "..." are, if there are any.
      dimension: that of the rows.
    """
    shape = (shape_of(mask)[0], *shape_of(x))
    wide = expand_to(x, shape, tuple(range(1, len(shape))))
    places = (*prefix, dimension) if aval_of(mask).ndim > 2 else (dimension,)
    order = sorted(range(len(places)), key=places.__getitem__)
    mask = transpose(mask, (0, *(i + 1 for i in order)))
    inside = expand_to(mask, shape, (0, *(places[i] + 1 for i in order)))
    return select(inside, wide, full_value(wide, 0))


def _check_groups(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    prefix: tuple[int, ...],
    group_dims: tuple[int, ...],
    free: Sequence[int] | None,
    offset: ArrayLike | None,
) -> None:
    """TypeErrors of ragged_dot_general; `free`: dimensions of rhs that may count groups."""
    sizes = aval_of(group_sizes)
    if sizes.ndim == 0:
        fail(TypeError, "ragged_dot_general: expected rank of group_sizes to be >=1.")
    expected = (*(shape_of(lhs)[d] for d in prefix), sizes.shape[-1])
    if sizes.ndim != 1 and sizes.shape != expected:
        fail(
            TypeError,
            f"ragged_dot_general: expected group_sizes to have shape {expected}, got "
            f"{sizes.shape}.",
            "sizes are one vector, or one for each index of the batches and of the free "
            "(contracted) dimensions before the ragged one.",
        )
    if len(group_dims) != (free is not None):
        fail(
            TypeError,
            f"ragged_dot_general: rhs_group_dimensions are {group_dims}.",
            "rhs has exactly one group dimension where the ragged dimension of lhs is free, and "
            "none where it is contracted or a batch.",
        )
    if free is not None and group_dims[0] not in free:
        fail(
            TypeError,
            f"ragged_dot_general: the group dimension {group_dims[0]} of rhs is not free.",
            "it must differ from contracted and batch dimensions.",
        )
    if free is not None and offset is None and shape_of(rhs)[group_dims[0]] != sizes.shape[-1]:
        fail(
            TypeError,
            f"ragged_dot_general: expected rhs group dimension size to be {sizes.shape[-1]}, got "
            f"{shape_of(rhs)[group_dims[0]]}.",
        )
    if offset is not None and (
        aval_of(offset).size != 1 or not np.issubdtype(dtype_of(offset), np.integer)
    ):
        fail(
            TypeError,
            "ragged_dot_general: group_offset must be one integer, got "
            f"{aval_of(offset).str_short()}.",
        )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """dot_general where one dimension of lhs is cut into consecutive groups.

    If the ragged dimension is free, each of its rows meets the matrix of its group; if it is
    contracted, each group is contracted on its own, and the result gets a leading group dimension;
    if it is a batch, groups say only who computes what, and the result is that of dot_general.

    Args:
      lhs, rhs: operands.
      group_sizes: int[groups], sizes along the ragged dimension; or int[..., groups], others for
        each index of the batches and of the free (contracted) dimensions before the ragged one.
      ragged_dot_dimension_numbers: says which dimension of lhs is ragged, and which of rhs
        counts groups (none where the ragged dimension is contracted or a batch).
      group_offset: int[1] or int[], at least 0, the group that the first matrix of rhs (the first
        result) belongs to; rows of other groups give zeros, groups after the last are empty. rhs
        may have fewer matrices than there are groups. Default 0.
      out_sharding: how the result lies over mesh axes of type Explicit.
    Raises:
      NotImplementedError: there are mesh axes of type Explicit, and no out_sharding.
      TypeError: not exactly one ragged dimension; group dimensions, sizes or offset do not fit.

    >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> rows, sizes = jnp.arange(6.0).reshape(3, 2), jnp.array([1, 2])
    >>> lax.ragged_dot_general(rows, jnp.ones((3, 1)), sizes, numbers)[:, :, 0]
    Array([[0., 1.],
           [6., 8.]], dtype=float32)
    """
    if out_sharding is not None:
        numbered = (ragged_dot_dimension_numbers, precision, preferred_element_type)
        plain = lambda lhs, rhs, sizes, offset: ragged_dot_general(
            lhs, rhs, sizes, *numbered, offset
        )
        operands = (lhs, rhs, group_sizes, group_offset)
        return computed_as("ragged_dot_general", out_sharding, plain, *operands)
    if explicit_context() or any(
        (split := aval_of(x).split) is not None and split.mesh.explicit_axes for x in (lhs, rhs)
    ):
        fail(
            NotImplementedError,
            "Explicit sharding inference for ragged_dot_general is not currently implemented. "
            "Please specify out_sharding.",
            "along mesh axes of type Explicit types say how the result is split, and which rows "
            "meet which matrix is known only when it runs",
            "lax.ragged_dot(x, w, sizes, out_sharding=P(...)).",
        )
    numbers = ragged_dot_dimension_numbers
    (contract, rhs_contract), (batch, rhs_batch) = canonical_dot_dimensions(
        "ragged_dot_general", numbers.dot_dimension_numbers
    )
    if len(numbers.lhs_ragged_dimensions) != 1:
        fail(
            TypeError,
            "ragged_dot_general expects exactly one lhs ragged dimension, got "
            f"{tuple(numbers.lhs_ragged_dimensions)}.",
        )
    (ragged,) = numbers.lhs_ragged_dimensions
    rank = aval_of(lhs).ndim
    if not 0 <= ragged < rank:
        fail(TypeError, f"ragged_dot_general: lhs of rank {rank} has no dimension {ragged}.")
    group_dims = tuple(numbers.rhs_group_dimensions)
    check = partial(_check_groups, lhs, rhs, group_sizes)
    if ragged in batch:
        check(batch[: batch.index(ragged)], group_dims, None, group_offset)
        return dot_general(
            lhs, rhs, numbers.dot_dimension_numbers, precision, preferred_element_type
        )
    rows = shape_of(lhs)[ragged]
    if ragged in contract:
        # Each group contracts its own part: groups become a batch dimension. Both sides are masked:
        # rows of no group may hold anything, and 0 * inf is not 0.
        before = contract.index(ragged)
        prefix = (*batch, *contract[:before])
        check(prefix, group_dims, None, group_offset)
        mask = _row_groups(group_sizes, rows, shape_of(group_sizes)[-1], group_offset)
        wide = _spread(lhs, mask, prefix, ragged)
        prefix = (*rhs_batch, *rhs_contract[:before])
        right = _spread(rhs, mask, prefix, rhs_contract[before])
        dims = (
            (tuple(d + 1 for d in contract), tuple(d + 1 for d in rhs_contract)),
            ((0, *(d + 1 for d in batch)), (0, *(d + 1 for d in rhs_batch))),
        )
        return dot_general(wide, right, dims, precision, preferred_element_type)
    # Each row meets its own group's matrix: groups are contracted, the mask picks one.
    prefix = (*batch, *(d for d in remaining(rank, contract, batch) if d < ragged))
    check(prefix, group_dims, remaining(aval_of(rhs).ndim, rhs_contract, rhs_batch), group_offset)
    (group_dim,) = group_dims
    mask = _row_groups(group_sizes, rows, shape_of(rhs)[group_dim], group_offset)
    wide = _spread(lhs, mask, prefix, ragged)
    dims = (
        ((0, *(d + 1 for d in contract)), (group_dim, *rhs_contract)),
        (tuple(d + 1 for d in batch), rhs_batch),
    )
    return dot_general(wide, rhs, dims, precision, preferred_element_type)


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply groups of rows by a matrix each: rows of lhs [m, k] by rhs [groups, k, n], giving
    [m, n].

    Rows beyond the sum of group_sizes give zeros. With group_offset, the first matrix of rhs
    belongs to that group, and rows of groups without a matrix give zeros (see
    `ragged_dot_general`).

    >>> lax.ragged_dot(jnp.ones((4, 3)), jnp.ones((2, 3, 5)), jnp.array([1, 3])).shape
    (4, 5)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if left.ndim != 2 or right.ndim != 3 or left.shape[1] != right.shape[1]:
        fail(
            TypeError,
            f"ragged_dot requires lhs [m, k] and rhs [groups, k, n], got {left.str_short()} and "
            f"{right.str_short()}.",
        )
    if aval_of(group_sizes).shape != (right.shape[0],) and (
        group_offset is None or aval_of(group_sizes).ndim != 1
    ):
        fail(
            TypeError,
            f"ragged_dot requires group_sizes of shape {(right.shape[0],)}, got "
            f"{aval_of(group_sizes).shape}.",
        )
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        _ROWS_BY_GROUPS,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )
