"""einsum and unary_einsum to HLO: diagonals, sums, one dot, a transpose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xla_backend.hlo.attributes import DimensionsAttributes, DotAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo.expressions import Expression
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import Rule, Scope, invalid, unsupported
from xla_backend.stablehlo.rules_structured import precisions

_CONFIG = re.compile(r"([A-Za-z]*)(?:,([A-Za-z]*))?->([A-Za-z]*)\Z")


def _labels(op: Operation, operands: Sequence[Instruction]) -> list[str]:
    """Labels of each operand, then of the result."""
    config = op.attributes["einsum_config"].replace(" ", "")
    if "..." in config:
        raise unsupported(op, f"'...' in {config!r} is not supported; name all dimensions")
    match = _CONFIG.match(config)
    parts = [p for p in match.groups() if p is not None] if match else []
    if len(parts) != len(operands) + 1:
        raise invalid(op, f"{config!r} does not describe {len(operands)} operands")
    for labels, operand in zip(parts, operands):
        if len(labels) != operand.shape.rank:
            raise invalid(op, f"'{labels}' names {len(labels)} dimensions of {operand.shape}")
    result = parts[-1]
    if len(set(result)) != len(result) or not set(result) <= set("".join(parts[:-1])):
        raise invalid(op, f"labels of the result '{result}' must be distinct and occur before")
    return parts


def _adder(kind: PrimitiveType) -> Computation:
    builder = HloBuilder("sum")
    a, b = builder.parameter(0, Shape(kind)), builder.parameter(1, Shape(kind))
    opcode = Opcode.OR if kind is PrimitiveType.PRED else Opcode.ADD
    return builder.build(builder.add(opcode, [a, b]))


def _sum(builder: HloBuilder, operand: Instruction, dims: Sequence[int]) -> Instruction:
    if not dims:
        return operand
    kind = operand.shape.element_type
    zero = builder.constant(kind.numpy_dtype.type(0))
    return builder.add(
        Opcode.REDUCE, [operand, zero], DimensionsAttributes(tuple(dims)), [_adder(kind)]
    )


def _diagonal(builder: HloBuilder, operand: Instruction, labels: str) -> tuple[Instruction, str]:
    """Dimensions of one label made one: zero off the diagonal, then summed."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            grid = operand.shape.with_type(PrimitiveType.S64)
            row = Expression(builder, builder.iota(grid, first))
            column = Expression(builder, builder.iota(grid, second))
            whole = Expression(builder, operand)
            kept = row.compare("EQ", column).select(whole, whole.full(0))
            operand = _sum(builder, kept.node, [second])
            labels = labels[:second] + labels[second + 1 :]
    return operand, labels


def _reduced(
    builder: HloBuilder, operand: Instruction, labels: str, needed: str
) -> tuple[Instruction, str]:
    """Without dimensions that nothing else has."""
    operand, labels = _diagonal(builder, operand, labels)
    dims = [i for i, label in enumerate(labels) if label not in needed]
    return _sum(builder, operand, dims), "".join(c for c in labels if c in needed)


def _einsum(scope: Scope, op: Operation) -> Instruction:
    lhs, rhs = scope.operands(op)
    left, right, result = _labels(op, [lhs, rhs])
    builder = scope.builder
    lhs, left = _reduced(builder, lhs, left, right + result)
    rhs, right = _reduced(builder, rhs, right, left + result)
    batch = [c for c in left if c in right and c in result]
    contracted = [c for c in left if c in right and c not in result]
    attributes = DotAttributes(
        tuple(left.index(c) for c in contracted),
        tuple(right.index(c) for c in contracted),
        tuple(left.index(c) for c in batch),
        tuple(right.index(c) for c in batch),
        precisions(op),
    )
    product = builder.add(Opcode.DOT, [lhs, rhs], attributes)
    free = [c for c in left + right if c not in batch and c not in contracted]
    order = [*batch, *free]
    return builder.transpose(product, [order.index(c) for c in result])


def _unary_einsum(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    labels, result = _labels(op, [operand])
    operand, labels = _reduced(scope.builder, operand, labels, result)
    return scope.builder.transpose(operand, [labels.index(c) for c in result])


RULES: dict[str, Rule] = {
    "stablehlo.einsum": _einsum,
    "stablehlo.unary_einsum": _unary_einsum,
}
