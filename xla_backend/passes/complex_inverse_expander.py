"""Inverse trigonometric and hyperbolic functions of complex numbers in real operations.

W. Kahan, "Branch cuts for complex elementary functions, or much ado about nothing's sign bit"
(1987): signed zeros choose the side of a branch cut, so 1 - z is built from its parts.
"""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit

P = PrimitiveType
_PART = {P.C64: P.F32, P.C128: P.F64}


class ComplexInverseExpander(HloPass):
    """asin, acos, asinh, acosh, atanh of complex numbers -> sqrt, atan2, asinh, log-plus-one.

    Why: code generation has these functions for real numbers.
    Needs: nothing.  Leaves: none of these opcodes with a complex operand.
    """

    name = "complex-inverse-expander"
    opcodes = frozenset({Opcode.ASIN, Opcode.ACOS, Opcode.ASINH, Opcode.ACOSH, Opcode.ATANH})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(*self.opcodes):
            if node.shape.element_type.is_complex:
                b = _Parts(node)
                x, y = b.parts(node.operands[0])
                computation.replace(node, b.complex(*_EXPANSIONS[node.opcode](b, x, y)))
                changed = True
        return changed


Pair = tuple[Instruction, Instruction]


class _Parts(Emit):
    """Emitter of arithmetic on real parts."""

    def __init__(self, node: Instruction) -> None:
        super().__init__(node)
        self.result: Shape = node.shape
        self.part: Shape = node.shape.with_type(_PART[node.shape.element_type])

    def parts(self, z: Instruction) -> Pair:
        return (
            self.add(Opcode.REAL, (z,), shape=self.part),
            self.add(Opcode.IMAG, (z,), shape=self.part),
        )

    def complex(self, x: Instruction, y: Instruction) -> Instruction:
        return self.add(Opcode.COMPLEX, (x, y), shape=self.result)

    def number(self, value: float) -> Instruction:
        return self.splat(self.part, value)

    def plus(self, x: Instruction, y: Instruction) -> Instruction:
        return self.binary(Opcode.ADD, x, y)

    def minus(self, x: Instruction, y: Instruction) -> Instruction:
        return self.binary(Opcode.SUBTRACT, x, y)

    def times(self, x: Instruction, y: Instruction) -> Instruction:
        return self.binary(Opcode.MULTIPLY, x, y)

    def negate(self, x: Instruction) -> Instruction:
        return self.unary(Opcode.NEGATE, x)

    def atan2(self, y: Instruction, x: Instruction) -> Instruction:
        return self.binary(Opcode.ATAN2, y, x)

    def root(self, x: Instruction, y: Instruction) -> Pair:
        """Principal square root of x + iy."""
        return self.parts(self.unary(Opcode.SQRT, self.complex(x, y)))

    def roots_about_one(self, x: Instruction, y: Instruction) -> tuple[Pair, Pair]:
        """sqrt(1 - z) and sqrt(1 + z)."""
        one = self.number(1.0)
        return self.root(self.minus(one, x), self.negate(y)), self.root(self.plus(one, x), y)


def _asin(b: _Parts, x: Instruction, y: Instruction) -> Pair:
    (p, q), (r, s) = b.roots_about_one(x, y)
    real = b.atan2(x, b.minus(b.times(p, r), b.times(q, s)))
    return real, b.unary(Opcode.ASINH, b.minus(b.times(p, s), b.times(q, r)))


def _acos(b: _Parts, x: Instruction, y: Instruction) -> Pair:
    (p, q), (r, s) = b.roots_about_one(x, y)
    real = b.times(b.number(2.0), b.atan2(p, r))
    return real, b.unary(Opcode.ASINH, b.minus(b.times(r, q), b.times(s, p)))


def _asinh(b: _Parts, x: Instruction, y: Instruction) -> Pair:
    """-i asin(iz)."""
    real, imaginary = _asin(b, b.negate(y), x)
    return imaginary, b.negate(real)


def _acosh(b: _Parts, x: Instruction, y: Instruction) -> Pair:
    one = b.number(1.0)
    (p, q), (r, s) = b.root(b.minus(x, one), y), b.root(b.plus(x, one), y)
    real = b.unary(Opcode.ASINH, b.plus(b.times(p, r), b.times(q, s)))
    return real, b.times(b.number(2.0), b.atan2(q, r))


def _atanh(b: _Parts, x: Instruction, y: Instruction) -> Pair:
    """On the right half plane, with the sign of x put back: log(1 - small) would lose digits."""
    one, a = b.number(1.0), b.unary(Opcode.ABS, x)
    left, y2 = b.minus(one, a), b.times(y, y)
    ratio = b.binary(Opcode.DIVIDE, b.times(b.number(4.0), a), b.plus(b.times(left, left), y2))
    size = b.times(b.number(0.25), b.unary(Opcode.LOG_PLUS_ONE, ratio))
    real = b.times(b.unary(Opcode.SIGN, x), size)
    below = b.minus(b.times(left, b.plus(one, a)), y2)
    angle = b.atan2(b.times(b.number(2.0), y), below)
    return real, b.times(b.number(0.5), angle)


_EXPANSIONS = {
    Opcode.ASIN: _asin,
    Opcode.ACOS: _acos,
    Opcode.ASINH: _asinh,
    Opcode.ACOSH: _acosh,
    Opcode.ATANH: _atanh,
}
