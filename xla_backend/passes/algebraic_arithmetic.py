"""Arithmetic identities. Floats keep their bits, signs of zeros and NaNs included (payloads
excepted)."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import ReducePrecisionAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.fusion_rules import ELEMENTWISE
from xla_backend.passes.patterns import (
    dims_of,
    is_float,
    is_int_or_pred,
    is_splat,
    scalar_of,
    splat_value,
)

P = PrimitiveType
_MANTISSA = {P.F64: (11, 52), P.F32: (8, 23), P.BF16: (8, 7), P.F16: (5, 10)}


def _add(node: Instruction) -> Instruction | None:
    x, y = node.operands
    # x + 0.0 is not x for x = -0.0; x + -0.0 is.
    neutral = -0.0 if is_float(node) else 0
    if node.shape.element_type.is_complex:
        return None
    return _neutral(x, y, neutral)


def _neutral(x: Instruction, y: Instruction, value: float) -> Instruction | None:
    """The other operand of a commutative operation with a neutral element."""
    if is_splat(y, value):
        return x
    if is_splat(x, value):
        return y
    return None


def _subtract(node: Instruction) -> Instruction | None:
    x, y = node.operands
    if node.shape.element_type.is_complex:
        return None
    if is_splat(y, 0.0):
        return x
    if x is y and is_int_or_pred(node):
        return Emit(node).splat(node.shape, 0)
    return None


def _multiply(node: Instruction) -> Instruction | None:
    x, y = node.operands
    if node.shape.element_type.is_complex:
        return None  # (a + bi)(1 + 0i) makes NaN of an infinite part
    if is_int_or_pred(node):
        for side in (x, y):
            if is_splat(side, 0):
                return side
    return _neutral(x, y, 1)


def _divide(node: Instruction) -> Instruction | None:
    x, y = node.operands
    if node.shape.element_type.is_complex:
        return None
    if is_splat(y, 1):
        return x
    value = splat_value(y)
    if value is None or not is_float(node):
        return None
    number = float(value)
    if number == 0 or not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return None
    exponent = math.frexp(number)[1]
    if abs(exponent) > 30:  # the reciprocal must be a normal number of every float type but f16, f8
        return None
    if node.shape.element_type not in (P.F32, P.F64, P.BF16):
        return None
    b = Emit(node)  # division by a power of two is exact as a product
    return b.binary(Opcode.MULTIPLY, x, b.splat(y.shape, 1.0 / number))


def _power(node: Instruction) -> Instruction | None:
    x, y = node.operands
    if not is_float(node):
        return None
    if is_splat(y, 1):
        return x
    b = Emit(node)
    if is_splat(y, 2):
        return b.binary(Opcode.MULTIPLY, x, x)
    if is_splat(y, -1):
        return b.binary(Opcode.DIVIDE, b.splat(x.shape, 1), x)
    return None


def _involution(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    return inner.operands[0] if inner.opcode is node.opcode else None


def _abs(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    if inner.opcode is Opcode.ABS and node.shape == inner.shape:
        return inner
    if inner.opcode is Opcode.NEGATE and is_float(inner):
        return Emit(node).unary(Opcode.ABS, inner.operands[0])
    return None


def _idempotent(node: Instruction) -> Instruction | None:
    x, y = node.operands
    return x if x is y else None


def _and(node: Instruction) -> Instruction | None:
    x, y = node.operands
    ones = 1 if node.shape.element_type is P.PRED else None
    for side, other in ((x, y), (y, x)):
        if is_splat(side, 0):
            return side
        if ones is not None and is_splat(side, ones):
            return other
    return None


def _or(node: Instruction) -> Instruction | None:
    x, y = node.operands
    for side, other in ((x, y), (y, x)):
        if is_splat(side, 0):
            return other
        if node.shape.element_type is P.PRED and is_splat(side, 1):
            return side
    return None


def _shift(node: Instruction) -> Instruction | None:
    return node.operands[0] if is_splat(node.operands[1], 0) else None


def _select(node: Instruction) -> Instruction | None:
    condition, on_true, on_false = node.operands
    if on_true is on_false:
        return on_true
    value = splat_value(condition)
    if value is not None:
        return on_true if value else on_false
    if condition.opcode is Opcode.NOT:
        return Emit(node).add(
            Opcode.SELECT, (condition.operands[0], on_false, on_true), shape=node.shape
        )
    return None


def _real(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    if inner.opcode is not Opcode.COMPLEX:
        return None
    return inner.operands[0 if node.opcode is Opcode.REAL else 1]


def _convert(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    if inner.shape.element_type is node.shape.element_type:
        return inner
    if inner.opcode is not Opcode.CONVERT:
        return None
    source = inner.operands[0].shape.element_type
    if not _lossless(source, inner.shape.element_type):
        return None
    if source is node.shape.element_type:
        return inner.operands[0]
    if source.is_floating == node.shape.element_type.is_floating or not source.is_floating:
        return Emit(node).convert(inner.operands[0], node.shape.element_type)
    return None


def _lossless(source: PrimitiveType, target: PrimitiveType) -> bool:
    """Every value of `source` is one of `target`."""
    if source in _MANTISSA and target in _MANTISSA:
        return all(a <= b for a, b in zip(_MANTISSA[source], _MANTISSA[target]))
    if source is P.PRED:
        return target.is_integral
    if source.is_unsigned_integral and target.is_integral:
        return target.bits > source.bits
    if source.is_signed_integral and target.is_signed_integral:
        return target.bits > source.bits
    return False


def _reduce_precision(node: Instruction) -> Instruction | None:
    assert isinstance(node.attributes, ReducePrecisionAttributes)
    has = _MANTISSA.get(node.shape.element_type)
    if has is None:
        return None
    wants = (node.attributes.exponent_bits, node.attributes.mantissa_bits)
    return node.operands[0] if wants[0] >= has[0] and wants[1] >= has[1] else None


def _copy(node: Instruction) -> Instruction | None:
    return node.operands[0] if node.operands[0].shape == node.shape else None


def _of_splats(node: Instruction) -> Instruction | None:
    """An elementwise operation on arrays filled with scalars is done once, on the scalars."""
    if not node.shape.dimensions or not node.operands:
        return None
    scalars: list[Instruction] = []
    for operand in node.operands:
        scalar = scalar_of(operand)
        if scalar is None:
            return None
        scalars.append(scalar)
    b = Emit(node)
    shape = Shape.array(node.shape.element_type)
    result = b.add(node.opcode, scalars, node.attributes, node.called, shape=shape)
    return b.broadcast(result, node.shape.dimensions, ())


def _of_broadcasts(node: Instruction) -> Instruction | None:
    """A condition on arrays that are broadcast alike (or filled with scalars) is computed before
    the broadcast: whoever asks along which dimensions it varies need not look behind it."""
    wide = [o for o in node.operands if scalar_of(o) is None]
    if not wide or any(o.opcode is not Opcode.BROADCAST for o in wide):
        return None
    small, dimensions = wide[0].operands[0].shape.dimensions, dims_of(wide[0])
    for other in wide:
        if dims_of(other) != dimensions:
            return None
    b = Emit(node)
    operands: list[Instruction] = []
    for operand in node.operands:
        scalar = scalar_of(operand)
        if scalar is None:
            operands.append(operand.operands[0])
        else:
            operands.append(b.broadcast(scalar, small, ()))
    shape = node.shape.with_dimensions(small)
    result = b.add(node.opcode, operands, node.attributes, node.called, shape=shape)
    return b.broadcast(result, node.shape.dimensions, dimensions)


def _condition_of_broadcasts(node: Instruction) -> Instruction | None:
    return _of_broadcasts(node) if node.shape.element_type is P.PRED else None


class AlgebraicArithmeticSimplifier(RuleTablePass):
    """x*1 -> x, x-0 -> x, x/8 -> x*0.125, not(not x) -> x, select(true, a, b) -> a, ...

    Why: differentiation multiplies by one, adds zeros and converts back and forth.
    Needs: nothing.  Leaves: none of the patterns in the table below.
    """

    name = "algebraic-arithmetic"
    rules = {
        **dict.fromkeys(ELEMENTWISE, (_of_splats,)),
        Opcode.ADD: (_add, _of_splats),
        Opcode.SUBTRACT: (_subtract, _of_splats),
        Opcode.MULTIPLY: (_multiply, _of_splats),
        Opcode.DIVIDE: (_divide, _of_splats),
        Opcode.POWER: (_power, _of_splats),
        Opcode.NEGATE: (_involution, _of_splats),
        Opcode.NOT: (_involution, _of_splats, _condition_of_broadcasts),
        Opcode.COMPARE: (_of_splats, _of_broadcasts),
        Opcode.ABS: (_abs, _of_splats),
        Opcode.MAXIMUM: (_idempotent, _of_splats),
        Opcode.MINIMUM: (_idempotent, _of_splats),
        Opcode.AND: (_and, _idempotent, _of_splats, _condition_of_broadcasts),
        Opcode.OR: (_or, _idempotent, _of_splats, _condition_of_broadcasts),
        Opcode.SHIFT_LEFT: (_shift, _of_splats),
        Opcode.SHIFT_RIGHT_LOGICAL: (_shift, _of_splats),
        Opcode.SHIFT_RIGHT_ARITHMETIC: (_shift, _of_splats),
        Opcode.SELECT: (_select, _of_splats),
        Opcode.REAL: (_real, _of_splats),
        Opcode.IMAG: (_real, _of_splats),
        Opcode.CONVERT: (_convert, _of_splats),
        Opcode.REDUCE_PRECISION: (_reduce_precision, _of_splats),
        Opcode.COPY: (_copy,),
        Opcode.BITCAST_CONVERT: (),
        Opcode.STOCHASTIC_CONVERT: (),
    }
