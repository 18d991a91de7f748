"""Which handler computes an elementwise operation: names, from what the operation is.

Operations on different types that are the same instructions have one handler.
"""

from __future__ import annotations

from functools import cache

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import Compute
from xla_backend.targets.cpu.routines.threaded_names import element_bytes

# Of which integers with a sign and without are the same.
_SIGNLESS = frozenset(
    {
        *(Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.NEGATE, Opcode.AND, Opcode.OR),
        *(Opcode.XOR, Opcode.NOT, Opcode.SHIFT_LEFT, Opcode.POPCNT, Opcode.COUNT_LEADING_ZEROS),
        Opcode.SHIFT_RIGHT_LOGICAL,
    }
)
# Whose result is one of the operands, and so a number of their type; and those that compare.
_EXACT = frozenset({Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.COMPARE, Opcode.IS_FINITE, Opcode.ABS})
_SIGNED = {P.U8: P.S8, P.U16: P.S16, P.U32: P.S32, P.U64: P.S64}
_IN_F32 = frozenset({P.F16, P.BF16})
_EQUALITY = ("EQ", "NE")


def operation_name(s: Compute) -> str:
    """What the handler of an operation is called, without whether it is of lanes."""
    a, opcode = s.attributes, s.opcode
    source, result = s.operands[0].type, s.result.type
    if opcode is Opcode.COMPARE:
        return compare_name(source, a.direction.value, a.total_order)
    if opcode is Opcode.REDUCE_PRECISION:
        return reduce_precision_name(source, a.exponent_bits, a.mantissa_bits)
    return plain_name(opcode, source, result)


@cache
def compare_name(source: P, direction: str, total_order: bool = False) -> str:
    """Of comparisons."""
    if source in _IN_F32 and not total_order:
        source = P.F32
    if direction in _EQUALITY:
        source = _SIGNED.get(source, source)
    return f"compare.{direction}{'.total' if total_order else ''}.{source.value}"


@cache
def reduce_precision_name(source: P, exponent_bits: int, mantissa_bits: int) -> str:
    """Of roundings to fewer bits."""
    return f"reduce_precision.{source.value}.{exponent_bits}.{mantissa_bits}"


@cache
def plain_name(opcode: Opcode, source: P, result: P) -> str:
    """Of an operation that its types say all about."""
    if opcode is Opcode.SELECT:
        return f"select.{element_bytes(result)}"
    name = opcode.value.replace("-", "_")
    if opcode in (Opcode.CONVERT, Opcode.BITCAST_CONVERT):
        return f"{name}.{source.value}.{result.value}"
    if opcode in _SIGNLESS:
        source = _SIGNED.get(source, source)
    if opcode in _EXACT and source in _IN_F32:
        source = P.F32
    return f"{name}.{source.value}"


def memory_operand_name(name: str, number: int) -> str:
    """Of an operation in lanes of which operand `number` is neighbours in memory."""
    return f"{name}.memory{number}"
