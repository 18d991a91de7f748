"""Products of groups of rows with a matrix for each group: ragged_dot and ragged_dot_general."""

from __future__ import annotations

from typing import Any

from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail
from pyjax.lax.arithmetic import sub
from pyjax.lax.bitwise import bitwise_and
from pyjax.lax.common import aval_of, dtype_of, shape_of
from pyjax.lax.compare import full_value, ge, lt, select
from pyjax.lax.creation import broadcasted_iota
from pyjax.lax.cumulative import cumsum
from pyjax.lax.dot import dot_general, remaining
from pyjax.lax.dot_types import PrecisionLike, RaggedDotDimensionNumbers, canonical_dot_dimensions
from pyjax.lax.nary import expand_to

_ROWS_BY_GROUPS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def _row_groups(group_sizes: ArrayLike, rows: int) -> Array:
    """bool[groups, rows]: which rows belong to which group; rows after the last group
    belong to none.
    """
    (groups,) = shape_of(group_sizes)
    ends = cumsum(group_sizes)
    starts = sub(ends, group_sizes)
    shape = (groups, rows)
    index = broadcasted_iota(dtype_of(group_sizes), shape, 1)
    return bitwise_and(
        ge(index, expand_to(starts, shape, (0,))), lt(index, expand_to(ends, shape, (0,)))
    )


def _spread(x: ArrayLike, mask: Array, dimension: int) -> Array:
    """Copies of x for every group (a new leading dimension), zero outside the group's rows."""
    groups = shape_of(mask)[0]
    shape = (groups, *shape_of(x))
    wide = expand_to(x, shape, tuple(range(1, len(shape))))
    inside = expand_to(mask, shape, (0, dimension + 1))
    return select(inside, wide, full_value(wide, 0))


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """dot_general where one dimension of lhs is cut into consecutive groups.

    Args:
      lhs, rhs: operands.  group_sizes: int[groups], sizes along the ragged dimension.
      ragged_dot_dimension_numbers: says which dimension of lhs is ragged, and which of rhs
        counts groups (none: the ragged dimension is contracted, and the result gets a leading group
        dimension).
    Raises:
      NotImplementedError: a group offset, a ragged batch dimension, or batched group sizes.
    """
    numbers = ragged_dot_dimension_numbers
    (contract, rhs_contract), (batch, rhs_batch) = canonical_dot_dimensions(
        "ragged_dot_general", numbers.dot_dimension_numbers
    )
    if group_offset is not None:
        fail(NotImplementedError, "ragged_dot_general: group_offset is not implemented.")
    if len(numbers.lhs_ragged_dimensions) != 1 or aval_of(group_sizes).ndim != 1:
        fail(
            NotImplementedError,
            "ragged_dot_general supports one ragged dimension and one vector of group sizes, got "
            f"{numbers} and group_sizes {aval_of(group_sizes).str_short()}.",
            fix="map over the batch with vmap.",
        )
    (ragged,) = numbers.lhs_ragged_dimensions
    mask = _row_groups(group_sizes, shape_of(lhs)[ragged])
    if ragged in batch:
        fail(NotImplementedError, "ragged_dot_general: the ragged dimension is a batch dimension.")
    if ragged in contract:
        # Each group contracts its own part: groups become a batch dimension.
        wide = _spread(lhs, mask, ragged)
        groups = shape_of(mask)[0]
        right = expand_to(rhs, (groups, *shape_of(rhs)), tuple(range(1, aval_of(rhs).ndim + 1)))
        dims = (
            (tuple(d + 1 for d in contract), tuple(d + 1 for d in rhs_contract)),
            ((0, *(d + 1 for d in batch)), (0, *(d + 1 for d in rhs_batch))),
        )
        return dot_general(wide, right, dims, precision, preferred_element_type)
    # Each row meets its own group's matrix: groups are contracted, the mask picks one.
    (group_dim,) = numbers.rhs_group_dimensions
    if group_dim in remaining(aval_of(rhs).ndim, rhs_contract, rhs_batch):
        wide = _spread(lhs, mask, ragged)
        dims = (
            ((0, *(d + 1 for d in contract)), (group_dim, *rhs_contract)),
            (tuple(d + 1 for d in batch), rhs_batch),
        )
        return dot_general(wide, rhs, dims, precision, preferred_element_type)
    fail(
        NotImplementedError, f"ragged_dot_general: group dimension {group_dim} of rhs is not free."
    )


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply groups of rows by a matrix each: rows of lhs [m, k] by rhs [groups, k, n], giving
    [m, n].

    Rows beyond the sum of group_sizes give zeros.

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
    if aval_of(group_sizes).shape != (right.shape[0],):
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
