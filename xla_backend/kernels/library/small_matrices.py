"""Cholesky factors of many small matrices, and triangular systems.

A factor is made column by column in the memory of a block, by a thread for each row. All threads of
a matrix compute the pivot of a column for themselves, so that one barrier for each column is
enough. Of a triangular system each right-hand side is a thread's own, which keeps in the result
what it has solved so far.
"""

from __future__ import annotations

import math

import numpy as np

from xla_backend.hlo.attributes import CholeskyAttributes, TriangularSolveAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder, real_type
from xla_backend.kernels.from_hlo import complex_math
from xla_backend.kernels.from_hlo.complex_math import Reals
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, parts
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind, Value
from xla_backend.kernels.library.places import (
    SHARED_BYTES,
    both,
    for_each,
    guard_of,
    power_of_two,
)

P = PrimitiveType
_TYPES = frozenset({P.F32, P.F64, P.C64, P.C128})
# Rows that threads of a block walk one by one.
_MOST_ROWS = 64
_THREADS = 128


def is_small(node: Instruction) -> bool:
    """Whether a cholesky or triangular-solve is of the size and type that kernels here are for."""
    shape = node.operands[0].shape
    rows, type = shape.dimensions[-1], shape.element_type
    return rows <= _MOST_ROWS and type in _TYPES and rows * rows * type.byte_size <= SHARED_BYTES


class _Numbers:
    """Arithmetic on elements of one type, real or complex."""

    def __init__(self, e: ElementalEmitter, type: PrimitiveType) -> None:
        self.e, self.b, self.type = e, e.builder, type
        self.reals = Reals(e.builder, real_type(type))

    def minus_product(self, s: Element, x: Element, y: Element) -> Element:
        """s - x * y."""
        r = self.reals
        if not (isinstance(x, tuple) and isinstance(y, tuple) and isinstance(s, tuple)):
            return r.sub(s, r.mul(x, y))  # type: ignore[arg-type]
        real, imag = complex_math.multiply(r, x, y)
        return r.sub(s[0], real), r.sub(s[1], imag)

    def quotient(self, x: Element, y: Element) -> Element:
        if isinstance(x, tuple) and isinstance(y, tuple):
            return complex_math.divide(self.reals, x, y)
        return self.reals.div(x, y)  # type: ignore[arg-type]

    def over(self, x: Element, y: Value) -> Element:
        """x divided by a real number."""
        if isinstance(x, tuple):
            return self.reals.div(x[0], y), self.reals.div(x[1], y)
        return self.reals.div(x, y)  # type: ignore[arg-type]

    def conjugate(self, x: Element) -> Element:
        return (x[0], self.reals.neg(x[1])) if isinstance(x, tuple) else x

    def minus_square(self, s: Value, x: Element) -> Value:
        """s - |x|^2."""
        for part in parts(x):
            s = self.reals.sub(s, self.reals.mul(part, part))
        return s

    def element(self, values: list[Value]) -> Element:
        return (values[0], values[1]) if self.type.is_complex else values[0]


def cholesky_kernel(name: str, node: Instruction) -> Kernel:
    """`out0`: the factors of the matrices in `p0`; NaN where one is not positive definite."""
    b = LoopBuilder(name)
    shape = node.shape
    type, n = shape.element_type, shape.dimensions[-1]
    source = b.buffer("p0", type, shape.num_elements, BufferRole.OPERAND, 0)
    output = b.buffer("out0", type, shape.num_elements, BufferRole.OUTPUT, 0)
    if shape.num_elements == 0:
        return b.kernel
    count = math.prod(shape.dimensions[:-2])
    lanes = power_of_two(n)
    together = min(_THREADS // lanes, SHARED_BYTES // (n * n * type.byte_size), count)
    shared = b.buffer("factor", type, together * n * n, BufferRole.SHARED)
    factor = _Factor(ElementalEmitter(b, {}), node, source, shared)
    with b.loop(-(-count // together), LoopKind.GRID) as block:
        with b.loop(together * lanes, LoopKind.THREAD) as thread:
            matrix = block * together + thread // lanes
            row, real = thread % lanes, b.in_range(matrix, 0, count)
            place = thread // lanes * (n * n)
            good = factor.columns(matrix * (n * n), place, row, real)
            with b.loop(-(-n * n // lanes)) as turn:
                element = turn * lanes + row
                guard = guard_of(b, real, b.in_range(element, 0, n * n))
                value = factor.result(place, element, good, guard)
                factor.e.store(output, matrix * (n * n) + element, value, guard)
    return b.kernel


class _Factor:
    """The factor of one matrix, in shared memory."""

    def __init__(
        self, e: ElementalEmitter, node: Instruction, source: Buffer, shared: Buffer
    ) -> None:
        assert isinstance(node.attributes, CholeskyAttributes)
        self.e, self.b, self.source, self.shared = e, e.builder, source, shared
        self.lower = node.attributes.lower
        self.type, self.n = node.shape.element_type, node.shape.dimensions[-1]
        self.numbers = _Numbers(e, self.type)

    def columns(self, matrix: Index, place: Index, row: Index, real: Value | bool) -> Value:
        """Columns of the factor from the left; returns whether all pivots are above 0. Row and
        column of an upper factor change their places."""
        b, n, numbers, r = self.b, self.n, self.numbers, self.numbers.reals
        j, (good,) = b.open_loop(n, inits=(b.constant(P.PRED, True),))
        # Threads beyond the last row know the pivots, too.
        of_matrix, here = guard_of(b, real), guard_of(b, real, b.in_range(row, 0, n))
        below = guard_of(b, here, b.in_range(row - j, 0, n))
        element = self._given(matrix, row, j, below)
        pivot = parts(self._given(matrix, j, j, of_matrix))[0]
        if n > 1:
            k, carried = b.open_loop(n, inits=(pivot, *parts(element)), limits=(j,))
            x, y = self._known(place, row, k, here), self._known(place, j, k, of_matrix)
            product = numbers.minus_product(numbers.element(carried[1:]), x, numbers.conjugate(y))
            pivot = numbers.minus_square(carried[0], y)
            pivot, *values = b.close_loop((pivot, *parts(product)))
            element = numbers.element(values)
        right = r.compare(pivot, r.const(0), "GT")  # NaN is not, either
        value = numbers.over(element, r.op(Opcode.SQRT, pivot))
        if below is not None:
            value = self.e.select(below, value, self.e.scalar(self.type, 0))
        self.e.store(self.shared, place + row * n + j, value, here)
        b.barrier()
        (good,) = b.close_loop((both(b, good, right),))
        return good

    def _given(self, matrix: Index, i: Index, j: Index, guard: Value | None) -> Element:
        at = i * self.n + j if self.lower else j * self.n + i
        with self.e.guarded(guard):
            value = self.e.load(self.source, matrix + at, self.type)
        return value if self.lower else self.numbers.conjugate(value)

    def _known(self, place: Index, i: Index, j: Index, guard: Value | None) -> Element:
        with self.e.guarded(guard):
            return self.e.load(self.shared, place + i * self.n + j, self.type, mutable=True)

    def result(self, place: Index, at: Index, good: Value, guard: Value | None) -> Element:
        """An element of the result."""
        i, j = at // self.n, at % self.n
        if not self.lower:
            i, j = j, i
        value = self._known(place, i, j, guard)
        if not self.lower:
            value = self.numbers.conjugate(value)
        zero = self.e.scalar(self.type, 0)
        wrong = self.e.scalar(self.type, np.nan)
        inside = self.b.in_range(i - j, 0, self.n)
        if not isinstance(inside, bool):
            wrong = self.e.select(inside, wrong, zero)
        return self.e.select(good, value, wrong)


def triangular_solve_kernel(name: str, node: Instruction) -> Kernel:
    """`out0`: the solutions for triangular matrices in `p0` and right-hand sides in `p1`."""
    b = LoopBuilder(name)
    a, right = node.operands
    type = node.shape.element_type
    buffers = [
        b.buffer(f"p{i}", type, o.shape.num_elements, BufferRole.OPERAND, i)
        for i, o in enumerate((a, right))
    ]
    output = b.buffer("out0", type, node.shape.num_elements, BufferRole.OUTPUT, 0)
    if node.shape.num_elements == 0:
        return b.kernel
    system = _System(ElementalEmitter(b, {}), node, (buffers[0], buffers[1]), output)
    with for_each(b, node.shape.num_elements // system.n, _THREADS) as number:
        system.solve(number)
    return b.kernel


class _System:
    """A matrix m and a right-hand side: m is op(a), or its transpose where x stands to the left."""

    def __init__(
        self,
        e: ElementalEmitter,
        node: Instruction,
        operands: tuple[Buffer, Buffer],
        output: Buffer,
    ) -> None:
        attributes = node.attributes
        assert isinstance(attributes, TriangularSolveAttributes)
        self.e, self.b = e, e.builder
        (self.matrices, self.given), self.output = operands, output
        self.type, self.n = node.shape.element_type, node.operands[0].shape.dimensions[-1]
        self.left = attributes.left_side
        self.sides = node.shape.dimensions[-1 if self.left else -2]
        self.turned = (attributes.transpose_a != "NO_TRANSPOSE") == self.left
        self.conjugated = attributes.transpose_a == "ADJOINT"
        self.unit = attributes.unit_diagonal
        self.forward = attributes.lower != self.turned
        self.numbers = _Numbers(e, self.type)

    def solve(self, number: Index) -> None:
        b, n, numbers = self.b, self.n, self.numbers
        matrix, side = number // self.sides, number % self.sides
        step, _ = b.open_loop(n)
        i = self._row(step)
        value = self.e.load(self.given, self._place(matrix, side, i), self.type)
        if n > 1:
            before, carried = b.open_loop(n, inits=parts(value), limits=(step,))
            k = self._row(before)
            x = self.e.load(self.output, self._place(matrix, side, k), self.type, mutable=True)
            y = self._element(matrix, i, k)
            product = numbers.minus_product(numbers.element(carried), y, x)
            value = numbers.element(b.close_loop(parts(product)))
        if not self.unit:
            value = numbers.quotient(value, self._element(matrix, i, i))
        self.e.store(self.output, self._place(matrix, side, i), value)
        b.close_loop()

    def _row(self, step: Index) -> Index:
        """The row that is solved in a step."""
        return step if self.forward else constant(self.n - 1) - step

    def _place(self, matrix: Index, side: Index, i: Index) -> Index:
        """Where element i of a right-hand side lies."""
        within = i * self.sides + side if self.left else side * self.n + i
        return matrix * (self.n * self.sides) + within

    def _element(self, matrix: Index, i: Index, j: Index) -> Element:
        row, column = (j, i) if self.turned else (i, j)
        at = matrix * (self.n * self.n) + row * self.n + column
        value = self.e.load(self.matrices, at, self.type)
        return self.numbers.conjugate(value) if self.conjugated else value
