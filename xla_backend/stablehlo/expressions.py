"""Arithmetic on instructions with Python's operators, for decompositions that read like formulas.

Numbers are constants of the other operand's type, spread over its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import ComparisonDirection
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType


class Expression:
    """An instruction and the builder that goes on from it."""

    __slots__ = ("builder", "node")

    def __init__(self, builder: HloBuilder, node: Instruction) -> None:
        self.builder = builder
        self.node = node

    @property
    def kind(self) -> PrimitiveType:
        return self.node.shape.element_type

    def full(self, value: float) -> Expression:
        """`value` in this expression's shape and type."""
        dtype = self.kind.numpy_dtype
        scalar = self.builder.constant(np.asarray(value).astype(dtype))
        dims = self.node.shape.dimensions
        return Expression(
            self.builder, self.builder.broadcast(scalar, dims, ()) if dims else scalar
        )

    def _other(self, value: Expression | float) -> Expression:
        return value if isinstance(value, Expression) else self.full(value)

    def apply(self, opcode: Opcode, *others: Expression | float) -> Expression:
        operands = [self.node, *(self._other(o).node for o in others)]
        return Expression(self.builder, self.builder.add(opcode, operands))

    def __add__(self, other: Expression | float) -> Expression:
        return self.apply(Opcode.ADD, other)

    def __sub__(self, other: Expression | float) -> Expression:
        return self.apply(Opcode.SUBTRACT, other)

    def __rsub__(self, other: float) -> Expression:
        return self.full(other) - self

    def __mul__(self, other: Expression | float) -> Expression:
        return self.apply(Opcode.MULTIPLY, other)

    def __truediv__(self, other: Expression | float) -> Expression:
        return self.apply(Opcode.DIVIDE, other)

    def __rtruediv__(self, other: float) -> Expression:
        return self.full(other) / self

    def __neg__(self) -> Expression:
        return self.apply(Opcode.NEGATE)

    def __and__(self, other: Expression | int) -> Expression:
        return self.apply(Opcode.AND, other)

    def __or__(self, other: Expression | int) -> Expression:
        return self.apply(Opcode.OR, other)

    def __pow__(self, other: Expression | float) -> Expression:
        return self.apply(Opcode.POWER, other)

    def compare(self, direction: str, other: Expression | float) -> Expression:
        """`direction`: EQ, NE, GE, GT, LE, LT."""
        node = self.builder.compare(
            self.node, self._other(other).node, ComparisonDirection(direction)
        )
        return Expression(self.builder, node)

    def select(self, on_true: Expression, on_false: Expression | float) -> Expression:
        """Elements of `on_true` where this predicate holds."""
        return self.apply(Opcode.SELECT, on_true, on_true._other(on_false))

    def convert(self, kind: PrimitiveType) -> Expression:
        return Expression(self.builder, self.builder.convert(self.node, kind))

    def bits(self, kind: PrimitiveType) -> Expression:
        """The same bits as another type of the same width."""
        shape = self.node.shape.with_type(kind)
        return Expression(
            self.builder, self.builder.add(Opcode.BITCAST_CONVERT, [self.node], shape=shape)
        )

    def abs(self) -> Expression:
        return self.apply(Opcode.ABS)

    def exp(self) -> Expression:
        return self.apply(Opcode.EXPONENTIAL)

    def log(self) -> Expression:
        return self.apply(Opcode.LOG)

    def sqrt(self) -> Expression:
        return self.apply(Opcode.SQRT)

    def rsqrt(self) -> Expression:
        return self.apply(Opcode.RSQRT)

    def sin(self) -> Expression:
        return self.apply(Opcode.SINE)

    def cos(self) -> Expression:
        return self.apply(Opcode.COSINE)

    def floor(self) -> Expression:
        return self.apply(Opcode.FLOOR)

    def is_finite(self) -> Expression:
        return self.apply(Opcode.IS_FINITE)

    def real(self) -> Expression:
        return self.apply(Opcode.REAL)

    def imag(self) -> Expression:
        return self.apply(Opcode.IMAG)


def horner(u: Expression, coefficients: Sequence[float]) -> Expression:
    """A polynomial, coefficients from the highest power down."""
    result = u.full(coefficients[0])
    for c in coefficients[1:]:
        result = result * u + c
    return result
