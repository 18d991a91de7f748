"""Division that rounds down, and its remainder, by powers of two: shifts and masks."""

from __future__ import annotations

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import is_splat, splat_value


def _exponent(node: Instruction) -> int | None:
    """k where all elements are 2**k, of signed integers."""
    if not node.shape.is_array or not node.shape.element_type.is_signed_integral:
        return None
    found = splat_value(node)
    value = 0 if found is None else int(found)
    return value.bit_length() - 1 if value > 0 and not value & (value - 1) else None


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
    """x / 2**k, less one where x is not positive and something remains -> x >> k. What remains is
    not zero only where x is not."""
    chosen, less, quotient = node.operands
    if quotient.opcode is not Opcode.DIVIDE or less.opcode is not Opcode.SUBTRACT:
        return None
    x, divisor = quotient.operands
    exponent = _exponent(divisor)
    if exponent is None or less.operands[0] is not quotient or not is_splat(less.operands[1], 1):
        return None
    for first, second in _both(chosen):
        sign = _compares(first, ComparisonDirection.NE, 1)
        rest = _compares(second, ComparisonDirection.NE, 0)
        if sign is None or sign.opcode is not Opcode.SIGN or sign.operands[0] is not x:
            continue
        if rest is not None and rest.opcode is Opcode.REMAINDER and rest.operands[0] is x:
            if _exponent(rest.operands[1]) == exponent:
                b = Emit(node)
                shift = b.splat(node.shape, exponent)
                return b.binary(Opcode.SHIFT_RIGHT_ARITHMETIC, x, shift)
    return None


def _modulus(node: Instruction) -> Instruction | None:
    """The remainder of x by 2**k, and 2**k more where it is negative -> x & (2**k - 1)."""
    chosen, more, rest = node.operands
    if rest.opcode is not Opcode.REMAINDER or more.opcode is not Opcode.ADD:
        return None
    x, divisor = rest.operands
    exponent = _exponent(divisor)
    if exponent is None or more.operands[0] is not rest:
        return None
    if _exponent(more.operands[1]) != exponent:
        return None
    for first, second in _both(chosen):
        if (
            _compares(first, ComparisonDirection.NE, 0) is rest
            and _compares(second, ComparisonDirection.LT, 0) is rest
        ):
            b = Emit(node)
            return b.binary(Opcode.AND, x, b.splat(node.shape, 2**exponent - 1))
    return None


def _differs_from_false(node: Instruction) -> Instruction | None:
    """x != false -> x."""
    if node.operands[0].shape.element_type is not PrimitiveType.PRED:
        return None
    return _compares(node, ComparisonDirection.NE, 0)


class AlgebraicIntegerSimplifier(RuleTablePass):
    """x // 2**k -> x >> k, x % 2**k -> x & (2**k - 1), of signed integers, as Python has them.

    Why: both are a division that rounds towards zero and what mends it, some fifteen instructions.
    Needs: nothing.  Leaves: none of these.
    """

    name = "algebraic-integer"
    rules = {
        Opcode.SELECT: (_floor_division, _modulus),
        Opcode.COMPARE: (_differs_from_false,),
    }
