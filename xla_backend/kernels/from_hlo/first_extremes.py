"""Reductions that look for the first largest or smallest element and its position, which meet
positions in their order: to be equal is to come later, so that two comparisons decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import identity_of
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.commutation import agrees
from xla_backend.kernels.ir import Value

_EXTREMES = {
    ComparisonDirection.GE: Opcode.MAXIMUM,
    ComparisonDirection.LE: Opcode.MINIMUM,
}


def direction_of(node: Instruction) -> ComparisonDirection | None:
    """How an element that is kept compares with one that comes later, if the reduction is such a
    one: of a single dimension, along which whole positions count up from its initial position."""
    if len(node.operands) != 4 or node.operands[1].opcode is not Opcode.IOTA:
        return None
    if attrs(node).dimensions != (attrs(node.operands[1]).dimension,):
        return None
    start, place = node.operands[2:]
    if start.opcode is not Opcode.CONSTANT or place.opcode is not Opcode.CONSTANT:
        return None
    if not place.shape.element_type.is_integral or int(place.literal_array) > 0:
        return None
    for direction, extreme in _EXTREMES.items():
        worst = identity_of(extreme, start.shape.element_type)
        same = start.literal_array.tobytes() == np.asarray(worst).tobytes()
        if same and _finds_first(node.called[0], extreme):
            return direction
    return None


def _finds_first(computation: Computation, extreme: Opcode) -> bool:
    """Whether it selects the better of two elements, nan before all, and the first of equals."""

    def reference(x: np.ndarray, i: np.ndarray, y: np.ndarray, j: np.ndarray) -> list[np.ndarray]:
        better = x > y if extreme is Opcode.MAXIMUM else x < y
        x_nan, y_nan = x != x, y != y
        wins = better | (x_nan & ~y_nan)
        same = (x == y) | (x_nan & y_nan)
        takes = wins | (same & (i < j))
        return [np.where(takes, x, y), np.where(takes, i, j)]

    return agrees(computation, reference)


def kept_or_later(
    b: LoopBuilder, direction: ComparisonDirection, kept: Sequence[Value], later: Sequence[Value]
) -> list[Value]:
    """The better of what is kept and an element that comes later."""
    best, new = kept[0], later[0]
    compare = lambda x, y, how: b.compute(
        Opcode.COMPARE, PrimitiveType.PRED, (x, y), CompareAttributes(how)
    )
    keeps = compare(best, new, direction)
    if best.type.is_floating:
        is_nan = compare(best, best, ComparisonDirection.NE)
        keeps = b.compute(Opcode.OR, PrimitiveType.PRED, (keeps, is_nan))
    return [b.compute(Opcode.SELECT, x.type, (keeps, x, y)) for x, y in zip(kept, later)]
