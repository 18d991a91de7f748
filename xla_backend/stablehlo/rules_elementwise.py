"""Elementwise operations to HLO."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    CompareAttributes,
    ReducePrecisionAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import (
    Rule,
    Scope,
    direction_of,
    element_type,
    integer,
    invalid,
    unsupported,
    word,
)
from xla_backend.stablehlo.types import TensorType

# StableHLO's name of each elementwise opcode whose operands and result have one shape.
ELEMENTWISE_OPCODES: dict[str, Opcode] = {
    "abs": Opcode.ABS,
    "add": Opcode.ADD,
    "and": Opcode.AND,
    "atan2": Opcode.ATAN2,
    "cbrt": Opcode.CBRT,
    "ceil": Opcode.CEIL,
    "complex": Opcode.COMPLEX,
    "cosine": Opcode.COSINE,
    "count_leading_zeros": Opcode.COUNT_LEADING_ZEROS,
    "divide": Opcode.DIVIDE,
    "exponential": Opcode.EXPONENTIAL,
    "exponential_minus_one": Opcode.EXPONENTIAL_MINUS_ONE,
    "floor": Opcode.FLOOR,
    "imag": Opcode.IMAG,
    "is_finite": Opcode.IS_FINITE,
    "log": Opcode.LOG,
    "log_plus_one": Opcode.LOG_PLUS_ONE,
    "logistic": Opcode.LOGISTIC,
    "maximum": Opcode.MAXIMUM,
    "minimum": Opcode.MINIMUM,
    "multiply": Opcode.MULTIPLY,
    "negate": Opcode.NEGATE,
    "not": Opcode.NOT,
    "or": Opcode.OR,
    "popcnt": Opcode.POPCNT,
    "power": Opcode.POWER,
    "real": Opcode.REAL,
    "remainder": Opcode.REMAINDER,
    "round_nearest_afz": Opcode.ROUND_NEAREST_AFZ,
    "round_nearest_even": Opcode.ROUND_NEAREST_EVEN,
    "rsqrt": Opcode.RSQRT,
    "shift_left": Opcode.SHIFT_LEFT,
    "shift_right_arithmetic": Opcode.SHIFT_RIGHT_ARITHMETIC,
    "shift_right_logical": Opcode.SHIFT_RIGHT_LOGICAL,
    "sign": Opcode.SIGN,
    "sine": Opcode.SINE,
    "sqrt": Opcode.SQRT,
    "subtract": Opcode.SUBTRACT,
    "tan": Opcode.TAN,
    "tanh": Opcode.TANH,
    "xor": Opcode.XOR,
}


def elementwise(opcode: Opcode) -> Rule:
    """The rule of an operation that is one opcode."""

    def rule(scope: Scope, op: Operation) -> Instruction:
        return scope.add(op, opcode, scope.operands(op))

    return rule


def _compare(scope: Scope, op: Operation) -> Instruction:
    direction = direction_of(op)
    total_order = word(op, "compare_type") == "TOTALORDER"
    return scope.add(
        op, Opcode.COMPARE, scope.operands(op), CompareAttributes(direction, total_order)
    )


def result_element_shape(op: Operation, operand: Instruction) -> Shape:
    """The operand's sizes with the element type of the result."""
    type_ = op.result.type
    kind = element_type(type_.element) if isinstance(type_, TensorType) else None
    if kind is None:
        raise unsupported(op, f"the type {op.result.type} has no HLO equivalent")
    return operand.shape.with_type(kind)


def _convert(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    return scope.add(op, Opcode.CONVERT, [operand], shape=result_element_shape(op, operand))


def _spread(scope: Scope, value: Instruction, shape: Shape) -> Instruction:
    """A scalar over all of `shape`; anything else as it is."""
    if value.shape.dimensions or not shape.dimensions:
        return value
    return scope.builder.broadcast(value, shape.dimensions, ())


def _select(scope: Scope, op: Operation) -> Instruction:
    predicate, on_true, on_false = scope.operands(op)
    predicate = _spread(scope, predicate, on_true.shape)
    return scope.add(op, Opcode.SELECT, [predicate, on_true, on_false])


def _clamp(scope: Scope, op: Operation) -> Instruction:
    low, operand, high = scope.operands(op)
    low, high = (_spread(scope, x, operand.shape) for x in (low, high))
    return scope.add(op, Opcode.CLAMP, [low, operand, high])


def _reduce_precision(scope: Scope, op: Operation) -> Instruction:
    attributes = ReducePrecisionAttributes(
        integer(op, "exponent_bits"), integer(op, "mantissa_bits")
    )
    return scope.add(op, Opcode.REDUCE_PRECISION, scope.operands(op), attributes)


def _logical_not_only(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    if operand.shape.element_type.is_floating:
        raise invalid(op, f"operands are booleans or integers, got {operand.shape}")
    return scope.add(op, Opcode.NOT, [operand])


RULES: dict[str, Rule] = {
    **{f"stablehlo.{name}": elementwise(opcode) for name, opcode in ELEMENTWISE_OPCODES.items()},
    "stablehlo.not": _logical_not_only,
    "stablehlo.bitcast_convert": elementwise(Opcode.BITCAST_CONVERT),
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.select": _select,
}
