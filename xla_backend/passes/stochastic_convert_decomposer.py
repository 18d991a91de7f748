"""stochastic-convert in elementary operations."""

from __future__ import annotations

from xla_backend.hlo.attributes import ComparisonDirection
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit

P = PrimitiveType


class StochasticConvertDecomposer(HloPass):
    """stochastic-convert(x, random) -> the magnitude of x, rounded up where `random` is below its
    fraction; `random` counts in units of 2^-(its bits).

    Why: code generation knows the operations it is made of.
    Needs: nothing.  Leaves: no stochastic-convert.
    """

    name = "stochastic-convert-decomposer"
    opcodes = frozenset({Opcode.STOCHASTIC_CONVERT})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.STOCHASTIC_CONVERT)
        for node in nodes:
            computation.replace(node, _decompose(node))
        return bool(nodes)


def _decompose(node: Instruction) -> Instruction:
    b = Emit(node)
    x, random = node.operands
    # 16-bit floats have no 2^16 and no room for it.
    x = b.convert(x, P.F64 if x.shape.element_type is P.F64 else P.F32)
    magnitude = b.unary(Opcode.ABS, x)
    whole = b.unary(Opcode.FLOOR, magnitude)
    fraction = b.binary(Opcode.SUBTRACT, magnitude, whole)
    random_type = random.shape.element_type
    scaled = b.binary(Opcode.MULTIPLY, fraction, b.splat(x.shape, 2.0**random_type.bits))
    up = b.compare(random, b.convert(scaled, random_type), ComparisonDirection.LT)
    next_whole = b.binary(Opcode.ADD, whole, b.splat(x.shape, 1.0))
    rounded = b.add(Opcode.SELECT, (up, next_whole, whole), shape=x.shape)
    negative = b.compare(x, b.splat(x.shape, 0.0), ComparisonDirection.LT)
    minus = b.unary(Opcode.NEGATE, rounded)
    signed = b.add(Opcode.SELECT, (negative, minus, rounded), shape=x.shape)
    return b.convert(signed, node.shape.element_type)
