"""uniform_quantize and uniform_dequantize to HLO: stored q stands for (q - zero) * scale."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.expressions import Expression
from xla_backend.stablehlo.ir import Operation, Value
from xla_backend.stablehlo.lowering import Rule, Scope, element_type, invalid
from xla_backend.stablehlo.types import QuantizedType, TensorType


def quantized_type(value: Value) -> QuantizedType | None:
    """The quantized element type of a value, if it has one."""
    type_ = value.type
    if isinstance(type_, TensorType) and isinstance(type_.element, QuantizedType):
        return type_.element
    return None


def _parameter(
    scope: Scope, op: Operation, kind: QuantizedType, numbers: tuple[float, ...], shape: Shape
) -> Expression:
    """Scales or zero points over `shape`, in its type: one, or one per index of the axis."""
    dtype = shape.element_type.numpy_dtype
    if kind.axis is None:
        scalar = scope.builder.constant(np.asarray(numbers[0]).astype(dtype))
        dims: tuple[int, ...] = ()
    else:
        if shape.dimensions[kind.axis] != len(numbers):
            raise invalid(
                op,
                f"{len(numbers)} scales for dimension {kind.axis} of {shape}",
            )
        scalar = scope.builder.constant(np.asarray(numbers).astype(dtype))
        dims = (kind.axis,)
    if scalar.shape.dimensions == shape.dimensions:
        return Expression(scope.builder, scalar)
    return Expression(scope.builder, scope.builder.broadcast(scalar, shape.dimensions, dims))


def dequantize(
    scope: Scope, op: Operation, kind: QuantizedType, operand: Instruction
) -> Expression:
    """The numbers that stored integers stand for, in the expressed type."""
    expressed = element_type(kind.expressed)
    if expressed is None:
        raise invalid(op, f"numbers of type {kind.expressed} have no HLO equivalent")
    stored = Expression(scope.builder, operand).convert(expressed)
    shape = stored.node.shape
    zero = _parameter(scope, op, kind, tuple(map(float, kind.zero_points)), shape)
    return (stored - zero) * _parameter(scope, op, kind, kind.scales, shape)


def quantize(scope: Scope, op: Operation, kind: QuantizedType, real: Expression) -> Instruction:
    """The nearest stored integers (halves to even), clamped to the storage range."""
    shape = real.node.shape
    scaled = real / _parameter(scope, op, kind, kind.scales, shape)
    zero = _parameter(scope, op, kind, tuple(map(float, kind.zero_points)), shape)
    shifted = scaled.apply(Opcode.ROUND_NEAREST_EVEN) + zero
    low, high = shifted.full(kind.storage_min), shifted.full(kind.storage_max)
    clamped = low.apply(Opcode.CLAMP, shifted, high)
    storage = element_type(kind.storage)
    assert storage is not None
    return clamped.convert(storage).node


def _uniform_quantize(scope: Scope, op: Operation) -> Instruction:
    target = quantized_type(op.result)
    if target is None:
        raise invalid(op, f"the result is quantized, got {op.result.type}")
    operand = scope.value(op.operands[0])
    source = quantized_type(op.operands[0])
    if source is None:
        return quantize(scope, op, target, Expression(scope.builder, operand))
    return quantize(scope, op, target, dequantize(scope, op, source, operand))


def _uniform_dequantize(scope: Scope, op: Operation) -> Instruction:
    source = quantized_type(op.operands[0])
    if source is None:
        raise invalid(op, f"the operand is quantized, got {op.operands[0].type}")
    return dequantize(scope, op, source, scope.value(op.operands[0])).node


RULES: dict[str, Rule] = {
    "stablehlo.uniform_dequantize": _uniform_dequantize,
    "stablehlo.uniform_quantize": _uniform_quantize,
}
