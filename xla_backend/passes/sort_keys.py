"""What a sort comparator orders by: recognised comparators become radix sorts of one operand after
another."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.process.light_dataclasses import dataclass

_ORDERED = {ComparisonDirection.LT: False, ComparisonDirection.GT: True}


@dataclass(frozen=True, slots=True)
class SortKey:
    """Sort by an operand; descending reverses it (NaN first)."""

    operand: int
    descending: bool


def sort_keys(computation: Computation) -> list[SortKey] | None:
    """Keys of a comparator, most significant first; None if it is not lexicographic on plain
    operands.

    Understood: compare(x, y, LT or GT), and or(compare(x0, y0), and(x0 == y0, <the rest>)). Floats
    may first have their zeros and NaN made equal, as the total order needs for -0 == 0 and NaN
    last.
    """
    assert computation.root is not None
    keys: list[SortKey] = []
    node = computation.root
    while True:
        key = _compare_key(node)
        if key is not None:
            return [*keys, key]
        if node.opcode is not Opcode.OR:
            return None
        for first, second in (node.operands, reversed(node.operands)):
            key = _compare_key(first)
            rest = _rest_after_equal(second, key) if key is not None else None
            if rest is not None:
                break
        else:
            return None
        assert key is not None and rest is not None
        keys.append(key)
        node = rest


def _compare_key(node: Instruction) -> SortKey | None:
    if node.opcode is not Opcode.COMPARE:
        return None
    a = node.attributes
    assert isinstance(a, CompareAttributes)
    if a.direction not in _ORDERED:
        return None
    pair = _pair(node, a.total_order)
    if pair is None:
        return None
    operand, swapped = pair
    return SortKey(operand, _ORDERED[a.direction] != swapped)


def _pair(node: Instruction, total_order: bool) -> tuple[int, bool] | None:
    """(operand, whether right is compared with left) if both sides are the two parameters of one
    operand."""
    left, right = (_stripped(o) for o in node.operands)
    if left is None or right is None:
        return None
    (first, canonical), (second, also) = left, right
    is_float = node.operands[0].shape.element_type.is_floating
    if first // 2 != second // 2 or first == second:
        return None
    if total_order and is_float and not (canonical and also):
        return None  # tells -0 from 0 and -NaN from NaN: not the order of the radix sort
    return first // 2, first > second


def _stripped(node: Instruction) -> tuple[int, bool] | None:
    """(parameter number, whether zeros and NaN are canonical) under selects that only do that."""
    zero = nan = False
    while node.opcode is Opcode.SELECT:
        condition, replacement, inner = node.operands
        if condition.opcode is not Opcode.COMPARE or not replacement.is_constant:
            return None
        direction = condition.attributes.direction  # type: ignore[attr-defined]
        value = float(replacement.literal_array)
        if direction is ComparisonDirection.EQ and value == 0:
            zero = True
        elif direction is ComparisonDirection.NE and math.isnan(value):
            if condition.operands[0] is not condition.operands[1]:
                return None
            nan = True
        else:
            return None
        node = inner
    if node.opcode is not Opcode.PARAMETER:
        return None
    return node.parameter_number, zero and nan


def _rest_after_equal(node: Instruction, key: SortKey | None) -> Instruction | None:
    """<rest> of and(x == y, <rest>) for the pair of `key`."""
    if node.opcode is not Opcode.AND or key is None:
        return None
    for equal, rest in (node.operands, reversed(node.operands)):
        if equal.opcode is not Opcode.COMPARE:
            continue
        a = equal.attributes
        assert isinstance(a, CompareAttributes)
        if a.direction is not ComparisonDirection.EQ:
            continue
        pair = _pair(equal, a.total_order)
        if pair is not None and pair[0] == key.operand:
            return rest
    return None
