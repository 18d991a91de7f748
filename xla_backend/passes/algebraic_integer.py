"""Division that rounds down, and its remainder, by positive constants: shifts and masks for powers
of two, and one question in place of several for others."""

from __future__ import annotations

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import is_splat, splat_value


def _positive(node: Instruction) -> int | None:
    """The number that all elements are, of signed integers, if it is above zero."""
    if not node.shape.is_array or not node.shape.element_type.is_signed_integral:
        return None
    found = splat_value(node)
    return int(found) if found is not None and found > 0 else None


def _is_power(value: int) -> bool:
    return not value & (value - 1)


def _where_negative(rest: Instruction, mended: Instruction, other: Instruction) -> Instruction:
    """What is mended where a remainder is negative, as it is only where its dividend is, too."""
    b = Emit(other)
    zeros, less = b.splat(rest.shape, 0), CompareAttributes(ComparisonDirection.LT)
    shape = other.shape.with_type(PrimitiveType.PRED)
    negative = b.add(Opcode.COMPARE, (rest, zeros), less, shape=shape)
    return b.add(Opcode.SELECT, (negative, mended, other), shape=other.shape)


def _compares(node: Instruction, direction: ComparisonDirection, value: int) -> Instruction | None:
    """x where the node is whether x has this relation to a number."""
    if node.opcode is not Opcode.COMPARE or not is_splat(node.operands[1], value):
        return None
    assert isinstance(node.attributes, CompareAttributes)
    return node.operands[0] if node.attributes.direction is direction else None


def _both(node: Instruction) -> tuple[tuple[Instruction, Instruction], ...]:
    """The operands of an `and`, in either order."""
    if node.opcode is not Opcode.AND:
        return ()
    a, b = node.operands
    return (a, b), (b, a)


def _floor_division(node: Instruction) -> Instruction | None:
    """x / c, less one where x is not positive and something remains -> less one where what remains
    is negative; x >> k for c = 2**k. What remains is not zero only where x is not."""
    chosen, less, quotient = node.operands
    if quotient.opcode is not Opcode.DIVIDE or less.opcode is not Opcode.SUBTRACT:
        return None
    x, divisor = quotient.operands
    value = _positive(divisor)
    if value is None or less.operands[0] is not quotient or not is_splat(less.operands[1], 1):
        return None
    for first, second in _both(chosen):
        sign = _compares(first, ComparisonDirection.NE, 1)
        rest = _compares(second, ComparisonDirection.NE, 0)
        if sign is None or sign.opcode is not Opcode.SIGN or sign.operands[0] is not x:
            continue
        if rest is not None and rest.opcode is Opcode.REMAINDER and rest.operands[0] is x:
            if _positive(rest.operands[1]) != value:
                continue
            if not _is_power(value):
                return _where_negative(rest, less, quotient)
            b = Emit(node)
            shift = b.splat(node.shape, value.bit_length() - 1)
            return b.binary(Opcode.SHIFT_RIGHT_ARITHMETIC, x, shift)
    return None


def _modulus(node: Instruction) -> Instruction | None:
    """The remainder of x by c, and c more where it is negative and not zero -> without the second
    question; x & (2**k - 1) for c = 2**k."""
    chosen, more, rest = node.operands
    if rest.opcode is not Opcode.REMAINDER or more.opcode is not Opcode.ADD:
        return None
    x, divisor = rest.operands
    value = _positive(divisor)
    if value is None or more.operands[0] is not rest or _positive(more.operands[1]) != value:
        return None
    for first, second in _both(chosen):
        if (
            _compares(first, ComparisonDirection.NE, 0) is rest
            and _compares(second, ComparisonDirection.LT, 0) is rest
        ):
            if not _is_power(value):
                return _where_negative(rest, more, rest)
            b = Emit(node)
            return b.binary(Opcode.AND, x, b.splat(node.shape, value - 1))
    return None


def _differs_from_false(node: Instruction) -> Instruction | None:
    """x != false -> x."""
    if node.operands[0].shape.element_type is not PrimitiveType.PRED:
        return None
    return _compares(node, ComparisonDirection.NE, 0)


class AlgebraicIntegerSimplifier(RuleTablePass):
    """x // 2**k -> x >> k, x % 2**k -> x & (2**k - 1), of signed integers, as Python has them; by
    other positive constants what is mended where the remainder is negative.

    Why: both are a division that rounds towards zero and what mends it, some fifteen instructions.
    Needs: nothing.  Leaves: none of these.
    """

    name = "algebraic-integer"
    rules = {
        Opcode.SELECT: (_floor_division, _modulus),
        Opcode.COMPARE: (_differs_from_false,),
    }
