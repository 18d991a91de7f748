"""fft as a routine for each axis, in place from the second one on.

Real numbers of which there is an even count are half as many complex ones.

One long transform is two axes: of n = a b numbers, transforms of length a of those that are b
apart, rotations, and transforms of length b, whose results lie a apart. Lengths with a prime factor
above `LARGEST_FACTOR`, and long ones that are no such product, are the host's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.attributes import FftAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Slice, Step
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu.routines import fft_plan
from xla_backend.targets.cpu.routines.matrix_facts import REALS
from xla_backend.targets.cpu.rules import RULES

P = PrimitiveType
# Lanes of any vector: one transform fills them with parts of itself. So do few transforms, which
# takes two ways through memory: up to this many lanes may stay empty instead.
_SIDE_BY_SIDE = fft_plan.LANE_ROOTS
_EMPTY_LANES = 4
_EMPTY_LANES_OF_PAIRS = 11  # two axes transform all n numbers, not half as many
_WORTH_HALVING = 256
# Places within a group are numbers of 32 bits.
_LARGEST_STEP = 1 << 25
# The longest transform of a group that may be nearly empty: longer ones are left to the host.
FEW = 16384
_CYCLES = 0.5  # of an element in a pass


class Layout(NamedTuple):
    """Where transforms lie, in elements: `outer` groups of `inner` problems; elements of one."""

    outer: int
    inner: int
    step: int


class _Axis(NamedTuple):
    """A transform along one axis: `outer` groups of `inner` problems of length n."""

    kind: str
    outer: int
    inner: int
    n: int
    source: Layout
    target: Layout
    kept: int
    tail: int = 0


@RULES.runs(Opcode.FFT)
def _fft(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, FftAttributes)
    operand, lengths = node.operands[0].shape, attributes.fft_length
    if not operand.num_elements or not node.shape.num_elements or not _runs_here(node):
        return HOST_RULES[node.opcode](builder, node)
    transform = _Transform(builder, node)
    last = len(lengths) - 1
    if attributes.fft_type == "IRFFT":
        # The axes of complex numbers come first.
        steps = transform.axes(range(last), builder.slice(node.operands[0]), transform.work)
        return [*steps, *transform.along(last, transform.latest, builder.slice(node))]
    result = builder.slice(node)
    steps = transform.along(last, builder.slice(node.operands[0]), result)
    return [*steps, *transform.axes(range(last), result, result)]


def _runs_here(node: Instruction) -> bool:
    attributes = node.attributes
    assert isinstance(attributes, FftAttributes)
    operand, lengths = node.operands[0].shape, attributes.fft_length
    if max(operand.num_elements, node.shape.num_elements) > _LARGEST_STEP:
        return False
    others = math.prod(operand.dimensions[:-1])
    last = _halved(attributes.fft_type, others, lengths[-1])
    longest = fft_plan.LONGEST if _fill_lanes(attributes.fft_type, others, lengths[-1]) else FEW
    if last is None and _in_group(attributes.fft_type, lengths[-1]) > longest:
        return False
    rest = lengths[:-1]
    return all(fft_plan.factors(n) is not None for n in lengths) and all(n <= FEW for n in rest)


def _is_packed(fft_type: str, n: int) -> bool:
    """Whether a transform along the last axis is one of pairs of numbers."""
    return fft_type in ("RFFT", "IRFFT") and n % 2 == 0 and n > 2


def _in_group(fft_type: str, n: int) -> int:
    """The numbers of a transform that a group has for it."""
    return n // 2 if _is_packed(fft_type, n) else n


def _fill_lanes(fft_type: str, problems: int, n: int) -> bool:
    """Whether so many transforms are better one in each lane than two axes each."""
    empty = _EMPTY_LANES_OF_PAIRS if _is_packed(fft_type, n) else _EMPTY_LANES
    return problems >= _SIDE_BY_SIDE - empty


def _halved(fft_type: str, problems: int, n: int) -> tuple[int, int] | None:
    """The two lengths of a transform along the last axis that is done as two axes."""
    if fft_type == "IRFFT" or n < _WORTH_HALVING:
        return None
    if _fill_lanes(fft_type, problems, n) and _in_group(fft_type, n) <= fft_plan.LONGEST:
        return None
    return fft_plan.halves(n, _SIDE_BY_SIDE)


class _Transform:
    """The steps of one instruction."""

    def __init__(self, builder: ProgramBuilder, node: Instruction) -> None:
        assert isinstance(node.attributes, FftAttributes)
        self.builder, self.node = builder, node
        self.type = node.attributes.fft_type
        self.lengths = node.attributes.fft_length
        shapes = (node.operands[0].shape, node.shape)
        self.given, self.made = shapes
        self.complex = next(s.element_type for s in shapes if s.element_type.is_complex)
        self.real = REALS[self.complex]
        self.inverse = int(self.type in ("IFFT", "IRFFT"))
        self.latest = builder.slice(node.operands[0])

    @property
    def work(self) -> Slice:
        """Memory for what lies between two steps."""
        elements = max(
            self.given.num_elements, math.prod(self.given.dimensions[:-1]) * self.lengths[-1]
        )
        return self.builder.scratch(Shape.array(self.complex, (elements,)))

    def axes(self, axes: Sequence[int], source: Slice, target: Slice) -> list[Step]:
        """Complex transforms along axes that are not the last one."""
        dims = (self.made if self.type != "IRFFT" else self.given).dimensions
        steps: list[Step] = []
        self.latest = source
        for axis in axes:
            place = len(dims) - len(self.lengths) + axis
            n, inner = dims[place], math.prod(dims[place + 1 :])
            layout = Layout(n * inner, 1, inner)
            outer = math.prod(dims[:place])
            step = _Axis("fft", outer, inner, n, layout, layout, n)
            steps.append(self._step(step, self.latest, target))
            self.latest = target
        return steps

    def along(self, axis: int, source: Slice, target: Slice) -> list[Step]:
        """Along the last axis."""
        n = self.lengths[axis]
        given, made = self.given.dimensions[-1], self.made.dimensions[-1]
        problems = math.prod(self.given.dimensions[:-1])
        kind = {"RFFT": "rfft", "IRFFT": "irfft"}.get(self.type, "fft")
        halved = _halved(self.type, problems, n)
        if halved is None:
            if _is_packed(self.type, n):
                pairs = (
                    given // 2 if kind == "rfft" else given,
                    made // 2 if kind == "irfft" else made,
                )
                layouts = Layout(pairs[0], 0, 1), Layout(pairs[1], 0, 1)
                step = _Axis(f"packed_{kind}", problems, 1, n // 2, *layouts, pairs[1])
                return [self._step(step, source, target)]
            layouts = Layout(given, 0, 1), Layout(made, 0, 1)
            return [self._step(_Axis(kind, problems, 1, n, *layouts, made), source, target)]
        a, b = halved
        work = self.work
        between = Layout(n, 1, b)
        first = _Axis(kind, problems, b, a, between, between, a)
        kept, tail = divmod(made, a)
        second = _Axis("fft", problems, a, b, Layout(n, b, 1), Layout(made, 1, a), kept, tail)
        return [
            self._step(first, source, work, rotated=n),
            self._step(second, work, target),
        ]

    def _step(self, axis: _Axis, source: Slice, target: Slice, rotated: int = 0) -> Library:
        builder, n, dtype = self.builder, axis.n, self.real.numpy_dtype
        roots = builder.table(("fft roots", n, self.real), partial(fft_plan.pass_roots, n, dtype))
        rotations = None
        if rotated:
            make = partial(fft_plan.rotations, rotated, n, dtype)
            rotations = builder.table(("fft rotations", rotated, n, self.real), make)
        if axis.kind.startswith("packed"):
            make = partial(fft_plan.half_turn, 2 * n, dtype)
            rotations = builder.table(("fft half turn", 2 * n, self.real), make)
        plan = fft_plan.passes(n)
        numbers = (
            axis.outer,
            axis.inner,
            n,
            *axis.source,
            *axis.target,
            axis.kept,
            axis.tail,
            self.inverse,
            plan.total,
        )
        prime = fft_plan.large_prime(n)
        places, work = None, plan.total
        if prime is not None:
            make_places = partial(np.array, fft_plan.generated(prime), np.int32)
            places = builder.table(("fft places", prime), make_places)
            work += 2 * len(plan.numbers) // 4
        operands = (*numbers, plan.numbers, roots, rotations, places, source, target)
        cycles = _CYCLES * axis.outer * axis.inner * n * (1 + work)
        return Library(self.node.name, cycles, f"{axis.kind}_{self.complex}", operands)
