"""`axis_index_groups`: collectives among some of the positions along an axis only.

Over devices groups are those of HLO's collectives. Over the axis of a vmap each group is an axis of
its own, whose rows are taken out and put back (`by_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import axis_env
from pyjax.core.array import Array
from pyjax.core.axis_env import names_of
from pyjax.core.errors import fail
from pyjax.interpreters.batching import bdim_at_front
from pyjax.lax.common import shape_of
from pyjax.lax.indexing.gather import gather
from pyjax.lax.indexing.gather_scatter_types import GatherDimensionNumbers, GatherScatterMode
from pyjax.lax.shape import expand_dims
from pyjax.lax.shape_join import concatenate

Groups = tuple[tuple[int, ...], ...]


def checked_groups(function: str, axis_name: Any, groups: Any, equal: bool = True) -> Groups | None:
    """Groups of the positions along an axis as tuples.

    Args:
      equal: whether all must have one size.
    Raises:
      ValueError: not every position is in one of them, once, or their sizes differ.
    """
    if groups is None:
        return None
    found = tuple(tuple(int(i) for i in group) for group in groups)
    size = axis_env.axis_size(axis_name)
    if sorted(i for group in found for i in group) != list(range(size)):
        fail(
            ValueError,
            f"axis_index_groups of {function} must cover all indices exactly once, got {groups} "
            f"for an axis of size {size}.",
            "each position takes part in one exchange.",
            f"list each of 0..{size - 1} in one group.",
        )
    if equal and len({len(group) for group in found}) > 1:
        fail(
            ValueError,
            f"axis_index_groups of {function} must all be the same size, got {groups}.",
            "the results of all positions have one shape.",
            "make groups of one size.",
        )
    return found


def one_at_a_time(axis_name: Any, groups: Groups | None) -> tuple[Any, ...]:
    """The axes that a collective deals with one after the other. Groups are of positions along all
    of them, which are one axis then: a tuple."""
    names = names_of(axis_name)
    return names if groups is None or len(names) == 1 else (names,)


def group_size(axis_name: Any, groups: Groups | None) -> int:
    """How many positions exchange values with each other."""
    return axis_env.axis_size(axis_name) if groups is None else len(groups[0])


def by_groups(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A collective's rule under vmap, of one that knows no groups."""

    def over_groups(name: Any, size: int, args: Any, dims: Any, **params: Any) -> Any:
        groups = params.get("axis_index_groups")
        if groups is None:
            return rule(name, size, args, dims, **params)
        _check_one_axis(names_of(params.get("axes", params.get("axis_name"))))
        params["axis_index_groups"] = None
        values = [bdim_at_front(x, d, size) for x, d in zip(args, dims)]
        found = []
        for group in groups:
            rows = [take_rows(x, np.array(group)) for x in values]
            outs, out_dims = rule(name, len(group), rows, [0] * len(rows), **params)
            found.append([bdim_at_front(x, d, len(group)) for x, d in zip(outs, out_dims)])
        back = np.argsort(np.concatenate(groups))
        joined = [take_rows(concatenate(each, 0), back) for each in zip(*found)]
        return joined, [0] * len(joined)

    return over_groups


def _check_one_axis(axes: Sequence[Any]) -> None:
    if len(axes) > 1:
        fail(
            NotImplementedError,
            f"axis_index_groups of positions along several axes {tuple(axes)}, one of which is "
            "that of a vmap.",
            "positions of a group may differ along both.",
            "name one axis, or map over both in one vmap.",
        )


def take_rows(x: Array, sources: Any) -> Array:
    """Rows of the leading dimension by an index vector, int32 if it is traced."""
    shape = shape_of(x)
    known = isinstance(sources, np.ndarray)
    column = sources.astype(np.int32)[:, None] if known else expand_dims(sources, (1,))
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape))), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return gather(
        x,
        column,
        numbers,
        (1, *shape[1:]),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )
