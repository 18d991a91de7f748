"""Integers that are known where their place is: of an `iota` and arithmetic on it, an element is an
index expression. What is read at such places is read as a slice is: in vectors, and without clamps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.shape_rules import MOVES
from xla_backend.kernels.index import Index, constant

Indices = tuple[Index, ...]
# Instructions between what asks and an `iota`. Indexing puts some ten around what users write.
_MOST_STEPS = 64
# Whether lhs - rhs decides a comparison: where it is never below, or never above, these.
_DECIDED: dict[D, Callable[[int, int], bool | None]] = {
    D.LT: lambda low, high: True if high < 0 else False if low >= 0 else None,
    D.LE: lambda low, high: True if high <= 0 else False if low > 0 else None,
    D.GT: lambda low, high: True if low > 0 else False if high <= 0 else None,
    D.GE: lambda low, high: True if low >= 0 else False if high < 0 else None,
    D.EQ: lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None,
    D.NE: lambda low, high: False if low == high == 0 else True if low > 0 or high < 0 else None,
}


def known_index(
    node: Instruction, index: Indices, is_data: Callable[[Instruction], bool]
) -> Index | None:
    """The element of an array of integers, as an expression of loop variables if it is one.

    Args:
      is_data: whether the elements of an instruction are there, and not computed.
    """
    return _Search(is_data).integer(node, index)


class _Search:
    def __init__(self, is_data: Callable[[Instruction], bool]) -> None:
        self._is_data = is_data
        self._found: dict[tuple[Instruction, Indices], Index | None] = {}

    def integer(self, node: Instruction, index: Indices) -> Index | None:
        """The value of an element; None where it is data, or may be outside of its type."""
        key = (node, index)
        if key not in self._found:
            many = len(self._found) >= _MOST_STEPS
            type = node.shape.element_type
            data = many or self._is_data(node) or not type.is_integral or type.bits < 8
            self._found[key] = None  # while it is looked for
            value = None if data else self._integer(node, index)
            self._found[key] = value if value is not None and _fits(value, type) else None
        return self._found[key]

    def _integer(self, node: Instruction, index: Indices) -> Index | None:
        opcode = node.opcode
        if opcode in MOVES:
            return self.integer(node.operands[0], MOVES[opcode](node, index))
        if opcode is Opcode.CONCATENATE:
            return self._joined(node, index)
        if opcode is Opcode.IOTA:
            return index[attrs(node).dimension]
        if opcode is Opcode.CONSTANT:
            literal = attrs(node).literal
            single = literal.array.size == 1 or literal.is_splat
            return constant(int(literal.array.flat[0])) if single else None
        if opcode is Opcode.CONVERT:
            return self.integer(node.operands[0], index)
        if opcode is Opcode.SELECT:
            chosen = self.truth(node.operands[0], _at(node.operands[0], index))
            return None if chosen is None else self.integer(node.operands[2 - chosen], index)
        rule = _ARITHMETIC.get(opcode)
        if rule is None:
            return None
        values = []
        for operand in node.operands:
            value = self.integer(operand, _at(operand, index))
            if value is None:
                return None
            values.append(value)
        return rule(*values)

    def _joined(self, node: Instruction, index: Indices) -> Index | None:
        """Of a concatenation, where it is known of which part the element is."""
        axis = attrs(node).dimensions[0]
        low, high = index[axis].bounds
        start = 0
        for operand in node.operands:
            end = start + operand.shape.dimensions[axis]
            if start <= low and high < end:
                return self.integer(
                    operand, (*index[:axis], index[axis] - start, *index[axis + 1 :])
                )
            start = end
        return None

    def truth(self, node: Instruction, index: Indices) -> bool | None:
        """The value of a comparison, or a combination of such, if the bounds decide it."""
        opcode = node.opcode
        if self._is_data(node):
            return None
        if opcode in MOVES:
            return self.truth(node.operands[0], MOVES[opcode](node, index))
        if opcode is Opcode.COMPARE:
            sides = [self.integer(operand, index) for operand in node.operands]
            if sides[0] is None or sides[1] is None:
                return None
            return _DECIDED[attrs(node).direction](*(sides[0] - sides[1]).bounds)
        if opcode in (Opcode.AND, Opcode.OR):
            values = [self.truth(operand, index) for operand in node.operands]
            decisive = opcode is Opcode.OR
            if decisive in values:
                return decisive
            if None not in values:
                return not decisive
            return False if opcode is Opcode.AND and self._is_rounded_up(node, index) else None
        return None

    def _is_rounded_up(self, node: Instruction, index: Indices) -> bool:
        """Whether this asks if a quotient of natural numbers was rounded up, as floor division
        does: there is a remainder, and the signs of both numbers differ."""
        signs, rest = node.operands
        if signs.opcode is not Opcode.COMPARE or rest.opcode is not Opcode.COMPARE:
            return False
        sign, remainder = signs.operands[0], rest.operands[0]
        if sign.opcode is not Opcode.SIGN or remainder.opcode is not Opcode.REMAINDER:
            return False
        differ = attrs(signs).direction is attrs(rest).direction is D.NE
        numbers = (sign.operands[0], signs.operands[1], rest.operands[1])
        value, other, zero = (self.integer(each, _at(each, index)) for each in numbers)
        # Without a sign a number is zero, which has no remainder.
        return (
            differ
            and sign.operands[0] is remainder.operands[0]
            and value is not None
            and value.bounds[0] >= 0
            and other == constant(1)
            and zero == constant(0)
        )


def _at(operand: Instruction, index: Indices) -> Indices:
    """Where an operand of an elementwise instruction is read; scalars may stand for arrays."""
    return index if operand.shape.rank == len(index) else ()


def _fits(value: Index, type: PrimitiveType) -> bool:
    low, high = value.bounds
    signed = type.is_signed_integral
    least, most = (-(1 << type.bits - 1), 1 << type.bits - 1) if signed else (0, 1 << type.bits)
    return least <= low and high < most


def _multiply(lhs: Index, rhs: Index) -> Index | None:
    if lhs.is_constant:
        return rhs * lhs.constant
    return lhs * rhs.constant if rhs.is_constant else None


def _of_natural(rule: Callable[[Index, int], Index]) -> Callable[[Index, Index], Index | None]:
    """A rule for numbers that are not negative and a positive constant, of which division and
    remainder do not depend on how either rounds."""

    def applied(lhs: Index, rhs: Index) -> Index | None:
        natural = lhs.bounds[0] >= 0 and rhs.is_constant and rhs.constant > 0
        return rule(lhs, rhs.constant) if natural else None

    return applied


def _shift_right(lhs: Index, rhs: Index) -> Index | None:
    known = lhs.bounds[0] >= 0 and rhs.is_constant and 0 <= rhs.constant < 31
    return lhs // (1 << rhs.constant) if known else None


def _and(lhs: Index, rhs: Index) -> Index | None:
    """With what is one below a power of two."""
    mask = rhs.constant + 1
    known = lhs.bounds[0] >= 0 and rhs.is_constant and mask > 0 and mask & mask - 1 == 0
    return lhs % mask if known else None


def _larger(lhs: Index, rhs: Index) -> Index | None:
    low, high = (lhs - rhs).bounds
    return lhs if low >= 0 else rhs if high <= 0 else None


def _smaller(lhs: Index, rhs: Index) -> Index | None:
    low, high = (lhs - rhs).bounds
    return lhs if high <= 0 else rhs if low >= 0 else None


def clamped_index(low: Index, value: Index, high: Index) -> Index | None:
    """min(max(value, low), high), if the bounds decide which one it is."""
    above = _larger(low, value)
    return None if above is None else _smaller(above, high)


_ARITHMETIC: dict[Opcode, Callable[..., Index | None]] = {
    Opcode.ADD: operator.add,
    Opcode.SUBTRACT: operator.sub,
    Opcode.NEGATE: lambda value: value * -1,
    Opcode.MULTIPLY: _multiply,
    Opcode.DIVIDE: _of_natural(operator.floordiv),
    Opcode.REMAINDER: _of_natural(operator.mod),
    Opcode.SHIFT_RIGHT_ARITHMETIC: _shift_right,
    Opcode.SHIFT_RIGHT_LOGICAL: _shift_right,
    Opcode.AND: _and,
    Opcode.MAXIMUM: _larger,
    Opcode.MINIMUM: _smaller,
    Opcode.CLAMP: clamped_index,
}
