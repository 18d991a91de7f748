"""What makes operands of an equation a fault: zero divisors, and indices out of bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.primitive import Primitive
from pyjax.lax.arithmetic import div_p, rem_p
from pyjax.lax.indexing.gather_scatter_types import (
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
from pyjax.lax.indexing.slicing import dynamic_slice_p, dynamic_update_slice_p

# Their second operand must not be zero.
dividing_primitives = frozenset({div_p, rem_p})


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


def indices_of(eqn: JaxprEqn) -> Indices | None:
    """How an equation is indexed by values; None if it is not."""
    rule = _indexing.get(eqn.primitive)
    found = None if rule is None else rule([a.aval for a in eqn.invars], eqn.params)
    return found if found is not None and found.axes else None
