"""Scalar computations of random programs: reducers, combiners and comparators."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import ComparisonDirection
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.scope import BITS, COMPLEX, FLOATS, Scope

Body = Callable[[HloBuilder, Instruction, Instruction], Instruction]


def binary_computation(kind: P, body: Body, name: str) -> Computation:
    b = HloBuilder(name)
    left, right = b.parameter(0, Shape(kind)), b.parameter(1, Shape(kind))
    return b.build(body(b, left, right))


def monoid(opcode: O, kind: P, *, swapped: bool = False) -> Computation:
    def body(b: HloBuilder, left: Instruction, right: Instruction) -> Instruction:
        return b.add(opcode, (right, left) if swapped else (left, right))

    return binary_computation(kind, body, opcode.value)


def monoid_opcodes(kind: P) -> list[O]:
    """Commutative, associative operations on a type."""
    if kind is P.PRED:
        return [O.AND, O.OR, O.XOR]
    opcodes = [O.ADD, O.ADD, O.MULTIPLY]
    if kind not in COMPLEX:
        opcodes += [O.MAXIMUM, O.MINIMUM]
    if kind in BITS:
        opcodes += [O.AND, O.OR, O.XOR]
    return opcodes


def combiner(s: Scope, kind: P) -> Computation:
    """A commutative and associative reducer; now and then one that no table of monoids knows."""
    if kind in FLOATS and s.chance(0.1):
        return binary_computation(kind, _larger_magnitude, "larger_magnitude")
    return monoid(s.one_of(monoid_opcodes(kind)), kind, swapped=s.chance(0.2))


def _larger_magnitude(b: HloBuilder, left: Instruction, right: Instruction) -> Instruction:
    magnitudes = [b.add(O.ABS, (v,)) for v in (left, right)]
    return b.add(O.MAXIMUM, magnitudes)


def arg_extremum(kind: P, index: P, *, largest: bool) -> Computation:
    """(value, index) of the extremum; the smaller index of equal values, NaN before all."""
    b = HloBuilder("arg_extremum")
    v, i = b.parameter(0, Shape(kind)), b.parameter(1, Shape(index))
    w, j = b.parameter(2, Shape(kind)), b.parameter(3, Shape(index))
    direction = ComparisonDirection.GT if largest else ComparisonDirection.LT
    better = b.compare(v, w, direction)
    is_nan = b.compare(v, v, ComparisonDirection.NE)
    first = b.add(O.OR, (better, is_nan))
    equal = b.compare(v, w, ComparisonDirection.EQ)
    other_nan = b.compare(w, w, ComparisonDirection.NE)
    tie = b.add(O.OR, (equal, b.add(O.AND, (is_nan, other_nan))))
    earlier = b.add(O.AND, (tie, b.compare(i, j, ComparisonDirection.LT)))
    take_index = b.add(O.OR, (b.add(O.AND, (first, b.add(O.NOT, (tie,)))), earlier))
    return b.build(b.tuple([b.add(O.SELECT, (first, v, w)), b.add(O.SELECT, (take_index, i, j))]))


def pair_reducer(first: O, kind: P, second: O, other: P) -> Computation:
    """Two reductions at once."""
    b = HloBuilder("pair")
    v, w = b.parameter(0, Shape(kind)), b.parameter(1, Shape(other))
    x, y = b.parameter(2, Shape(kind)), b.parameter(3, Shape(other))
    return b.build(b.tuple([b.add(first, (v, x)), b.add(second, (w, y))]))


def comparator(kinds: list[P], keys: int, direction: ComparisonDirection) -> Computation:
    """Orders by the first `keys` operands in turn; floats by their total order."""
    b = HloBuilder("comparator")
    pairs = [
        (b.parameter(2 * i, Shape(kind)), b.parameter(2 * i + 1, Shape(kind)))
        for i, kind in enumerate(kinds)
    ]

    def before(i: int) -> Instruction:
        total = kinds[i] in FLOATS
        less = b.compare(*pairs[i], direction, total_order=total)
        if i + 1 == keys:
            return less
        equal = b.compare(*pairs[i], ComparisonDirection.EQ, total_order=total)
        return b.add(O.OR, (less, b.add(O.AND, (equal, before(i + 1)))))

    return b.build(before(0))
