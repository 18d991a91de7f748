"""sort and topk in NumPy.

Comparators that compare one pair of parameters are a stable argsort. Every other comparator runs
as a bitonic network of whole-array steps, ties broken by original position, so any strict weak
order sorts stably.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import SortAttributes, TopKAttributes
from xla_backend.hlo.evaluator.conversions import total_order_key, type_of
from xla_backend.hlo.evaluator.scalar_computations import (
    ScalarRunner,
    Values,
    apply_scalar,
    comparator_key,
)
from xla_backend.hlo.instruction import Computation, Instruction


def _reverse_key(key: np.ndarray) -> np.ndarray:
    """A key of opposite order that keeps stability: complement for integers, negation for
    floats."""
    if key.dtype.kind == "b":
        return ~key
    if key.dtype.kind in "iu":
        return np.invert(key)
    return -key


def sort(node: Instruction, values: Sequence[np.ndarray], run: ScalarRunner) -> np.ndarray | Values:
    a = node.attributes
    assert isinstance(a, SortAttributes)
    axis = a.dimension
    if values[0].shape[axis] > 1 and values[0].size:
        order = _order(node.called[0], [np.moveaxis(x, axis, -1) for x in values], run)
        order = np.moveaxis(order, -1, axis)
        values = [np.take_along_axis(x, order, axis) for x in values]
    return values[0] if len(values) == 1 else tuple(values)


def _order(computation: Computation, values: list[np.ndarray], run: ScalarRunner) -> np.ndarray:
    """Sorting permutation along the last axis."""
    simple = comparator_key(computation)
    if simple is not None:
        number, descending, total_order = simple
        key = values[number]
        kind = type_of(key)
        if total_order or kind.is_integral:
            key = total_order_key(key)
        elif kind.is_floating:
            key = key.astype(np.float64)
        # A plain `<` on NaNs is no order: fall through to the network, which then does what it
        # does.
        if key.dtype.kind != "f" or not np.isnan(key).any():
            return np.argsort(_reverse_key(key) if descending else key, axis=-1, kind="stable")
    return _network_order(computation, values, run)


def _network_order(
    computation: Computation, values: list[np.ndarray], run: ScalarRunner
) -> np.ndarray:
    n = values[0].shape[-1]
    size = 1 << (n - 1).bit_length()
    lead = values[0].shape[:-1]
    order = np.broadcast_to(np.arange(size), (*lead, size)).copy()
    if size > n:  # positions beyond the end read the last element and sort after everything
        values = [
            np.concatenate([v, np.repeat(v[..., -1:], size - n, axis=-1)], axis=-1) for v in values
        ]
    position = np.arange(size)
    block = 2
    while block <= size:
        step = block // 2
        while step:
            low = position[(position & step) == 0]
            high = low + step
            ascending = (low & block) == 0
            first = np.where(ascending, low, high)
            second = np.where(ascending, high, low)
            i, j = order[..., first], order[..., second]
            swap = _less(computation, values, j, i, n, run)
            order[..., first] = np.where(swap, j, i)
            order[..., second] = np.where(swap, i, j)
            step //= 2
        block *= 2
    return order[..., :n]


def _less(
    computation: Computation,
    values: list[np.ndarray],
    i: np.ndarray,
    j: np.ndarray,
    n: int,
    run: ScalarRunner,
) -> np.ndarray:
    """Element i strictly before element j, original position deciding ties."""
    left = [np.take_along_axis(v, i, -1) for v in values]
    right = [np.take_along_axis(v, j, -1) for v in values]
    forward = [x for pair in zip(left, right) for x in pair]
    backward = [x for pair in zip(right, left) for x in pair]
    (before,) = apply_scalar(computation, forward, run)
    (after,) = apply_scalar(computation, backward, run)
    tie = ~(np.asarray(before) | np.asarray(after))
    inside = np.asarray(before) | (tie & (i < j))
    return np.where((i < n) & (j < n), inside, i < j)


def topk(node: Instruction, x: np.ndarray) -> Values:
    """The k largest (or smallest) of the last axis in order, earlier positions first among equals;
    floats in total order, so NaN counts as largest."""
    a = node.attributes
    assert isinstance(a, TopKAttributes)
    return _first(x, a.k, a.largest)


def topk_call(node: Instruction, x: np.ndarray) -> Values:
    """The custom call `TOPK_CALL`, which tells k by its result."""
    return _first(x, node.shape.tuple_shapes[0].dimensions[-1], largest=True)


def _first(x: np.ndarray, k: int, largest: bool) -> Values:
    key = total_order_key(x)
    order = np.argsort(_reverse_key(key) if largest else key, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)
