"""fft as a routine for each axis, in place from the second one on.

Real numbers of which there is an even count are half as many complex ones.

One long transform is two axes: of n = a b numbers, transforms of length a of those that are b
apart, rotations, and transforms of length b, whose results lie a apart. Lengths with a prime factor
above `LARGEST_FACTOR`, and long ones that are no such product, are convolutions with a chirp
(Bluestein's), of quick lengths. What is too large for places of 32 bits is the host's.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from xla_backend.hlo.attributes import FftAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Slice, Step, aligned
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.cpu.routines import fft_plan, transpose_plans
from xla_backend.targets.cpu.routines.matrix_facts import REALS
from xla_backend.targets.cpu.rules import RULES

P = PrimitiveType
# Lanes of any vector: one transform fills them with parts of itself. So do few transforms, which
# takes two ways through memory: up to this many lanes may stay empty instead.
_SIDE_BY_SIDE = fft_plan.LANE_ROOTS
_EMPTY_LANES = 4
_WORTH_HALVING = 256
# Places within a group are numbers of 32 bits.
_LARGEST_STEP = 1 << 25
# The longest transform of a group that may be nearly empty.
FEW = 16384
_CYCLES = 0.5  # of an element in a pass
_ROW_CYCLES = 2.0  # of an element of rows that are multiplied by tables
_MOVE_CYCLES = 1.0


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
    inverse: int
    tail: int = 0


class _End(NamedTuple):
    """What a transform of rows reads or writes: of which kind, how far they are apart, and how many
    elements of each."""

    kind: str
    row: int
    length: int


class _Way(enum.Enum):
    """How a transform of rows is done: in groups, as two axes, as one of pairs of real numbers, as
    one of all numbers of what is conjugate-symmetric, or as a convolution."""

    GROUPS = "groups"
    HALVES = "halves"
    PAIRS = "pairs"
    SYMMETRIC = "symmetric"
    CHIRP = "chirp"


@RULES.runs(Opcode.FFT)
def _fft(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    attributes = node.attributes
    assert isinstance(attributes, FftAttributes)
    operand, lengths = node.operands[0].shape, attributes.fft_length
    if not operand.num_elements or not node.shape.num_elements or not _runs_here(node):
        return HOST_RULES[node.opcode](builder, node)
    transform = _Transform(builder, node)
    axes, source = range(len(lengths) - 1), builder.slice(node.operands[0])
    result = builder.slice(node)
    if attributes.fft_type != "IRFFT":
        return [*transform.along_rows(source, result), *transform.axes(axes, result, result)]
    # The axes of complex numbers come first.
    if not axes:
        return transform.along_rows(source, result)
    with transform.memory(operand.num_elements) as work:
        return [*transform.axes(axes, source, work), *transform.along_rows(work, result)]


def _runs_here(node: Instruction) -> bool:
    """Whether no step has too many elements."""
    attributes = node.attributes
    assert isinstance(attributes, FftAttributes)
    shapes = node.operands[0].shape, node.shape
    lengths = attributes.fft_length
    largest = max(shape.num_elements for shape in shapes)
    others = math.prod(shapes[0].dimensions[:-1])
    ways = [_way(attributes.fft_type, others, lengths[-1])]
    problems = [others]
    for n in lengths[:-1]:
        problems.append(min(shape.num_elements for shape in shapes) // n)
        ways.append(_way_of_axis(problems[-1], n))
    for way, count, n in zip(ways, problems, (lengths[-1], *lengths[:-1])):
        if way is _Way.PAIRS:
            way, n = _way("FFT", count, n // 2), n // 2
        if way is _Way.CHIRP:
            largest = max(largest, count * fft_plan.chirp_length(n))
    return largest <= _LARGEST_STEP


def _way(fft_type: str, problems: int, n: int) -> _Way:
    """How transforms along the last axis are done."""
    packed = _is_packed(fft_type, n)
    length = n // 2 if packed else n
    has_passes = fft_plan.factors(n) is not None
    if has_passes and length <= fft_plan.LONGEST and _fill_lanes(problems):
        return _Way.GROUPS
    if packed and length >= _WORTH_HALVING:
        return _Way.PAIRS
    if n >= _WORTH_HALVING and fft_plan.halves(n, _SIDE_BY_SIDE) is not None:
        return _Way.SYMMETRIC if fft_type == "IRFFT" else _Way.HALVES
    return _Way.GROUPS if has_passes and length <= FEW else _Way.CHIRP


def _way_of_axis(problems: int, n: int) -> _Way:
    """How transforms along another axis are done."""
    longest = fft_plan.LONGEST if _fill_lanes(problems) else FEW
    in_groups = fft_plan.factors(n) is not None and n <= longest
    return _Way.GROUPS if in_groups else _Way.CHIRP


def _fill_lanes(problems: int) -> bool:
    """Whether so many transforms are better one in each lane."""
    return problems >= _SIDE_BY_SIDE - _EMPTY_LANES


def _is_packed(fft_type: str, n: int) -> bool:
    """Whether a transform along the last axis is one of pairs of numbers."""
    return fft_type in ("RFFT", "IRFFT") and n % 2 == 0 and n > 2


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
        self._taken = 0

    @contextmanager
    def memory(self, elements: int) -> Iterator[Slice]:
        """Complex numbers that lie between the steps which are made inside."""
        shape, before = Shape.array(self.complex, (elements,)), self._taken
        self._taken += aligned(shape.byte_size)
        yield self.builder.scratch(shape, before)
        self._taken = before

    def axes(self, axes: Sequence[int], source: Slice, target: Slice) -> list[Step]:
        """Complex transforms along axes that are not the last one."""
        dims = (self.made if self.type != "IRFFT" else self.given).dimensions
        steps: list[Step] = []
        for axis in axes:
            place = len(dims) - len(self.lengths) + axis
            n, inner = dims[place], math.prod(dims[place + 1 :])
            layout = Layout(n * inner, 1, inner)
            outer = math.prod(dims[:place])
            if _way_of_axis(outer * inner, n) is _Way.CHIRP:
                steps += self._convolution_apart(outer, inner, n, source, target)
            else:
                step = _Axis("fft", outer, inner, n, layout, layout, n, self.inverse)
                steps.append(self._step(step, source, target))
            source = target
        return steps

    def along_rows(self, source: Slice, target: Slice) -> list[Step]:
        """Along the last axis."""
        n = self.lengths[-1]
        given, made = self.given.dimensions[-1], self.made.dimensions[-1]
        problems = math.prod(self.given.dimensions[:-1])
        kind = {"RFFT": "rfft", "IRFFT": "irfft"}.get(self.type, "fft")
        return self._rows(kind, problems, n, self.inverse, (given, made), (source, target))

    def _rows(
        self,
        kind: str,
        problems: int,
        n: int,
        inverse: int,
        lengths: tuple[int, int],
        places: tuple[Slice, Slice],
    ) -> list[Step]:
        """Transforms of rows, of which so many elements are given and made."""
        (given, made), (source, target) = lengths, places
        fft_type = {"rfft": "RFFT", "irfft": "IRFFT"}.get(kind, "FFT")
        way, packed = _way(fft_type, problems, n), _is_packed(fft_type, n)
        if way is _Way.GROUPS:
            if packed:
                given, made = (each // 2 if each == n else each for each in (given, made))
            layouts = Layout(given, 0, 1), Layout(made, 0, 1)
            name, length = (f"packed_{kind}", n // 2) if packed else (kind, n)
            return [
                self._step(
                    _Axis(name, problems, 1, length, *layouts, made, inverse), source, target
                )
            ]
        if way is _Way.PAIRS:
            return self._pairs(kind, problems, n // 2, source, target)
        if way is _Way.SYMMETRIC:
            return self._symmetric(problems, n, *places)
        if way is _Way.CHIRP:
            ends = _End(kind, given, n), _End(kind, made, made)
            return self._convolution(problems, n, inverse, ends, places)
        halves = fft_plan.halves(n, _SIDE_BY_SIDE)
        assert halves is not None, n
        a, b = halves
        between = Layout(n, 1, b)
        first = _Axis(kind, problems, b, a, between, between, a, inverse)
        kept, tail = divmod(made, a)
        target_layout = Layout(made, 1, a)
        second = _Axis("fft", problems, a, b, Layout(n, b, 1), target_layout, kept, inverse, tail)
        with self.memory(problems * n) as work:
            return [
                self._step(first, source, work, rotated=n),
                self._step(second, work, target),
            ]

    def _pairs(self, kind: str, problems: int, n: int, source: Slice, target: Slice) -> list[Step]:
        """Of 2 n real numbers, by way of n complex ones."""
        dtype = self.real.numpy_dtype
        make = partial(fft_plan.half_turn, 2 * n, dtype)
        half_turn = self.builder.table(("fft half turn", 2 * n, self.real), make)
        inverse = int(kind == "irfft")

        def step(source: Slice, target: Slice) -> Step:
            operands = (problems, n, half_turn, source, target)
            return self._library(f"pairs_{kind}", problems * n, operands)

        def as_pairs(real: Slice) -> Slice:
            shape = Shape.array(self.complex, (problems * n,))
            return Slice(real.space, real.number, real.offset, shape)

        def transforms(source: Slice, target: Slice) -> list[Step]:
            return self._rows("fft", problems, n, inverse, (n, n), (source, target))

        with self.memory(problems * n) as work:
            if inverse:
                return [step(source, work), *transforms(work, as_pairs(target))]
            return [*transforms(as_pairs(source), work), step(work, target)]

    def _symmetric(self, problems: int, n: int, source: Slice, target: Slice) -> list[Step]:
        """Real numbers, by way of as many complex ones."""

        def step(kind: str, row: int, source: Slice, target: Slice) -> Step:
            operands = (problems, n, n, row, n, None, source, target)
            return self._library(kind, problems * n, operands)

        with self.memory(problems * n) as work:
            return [
                step(fft_plan.CHIRP_IRFFT, n // 2 + 1, source, work),
                *self._rows("fft", problems, n, 1, (n, n), (work, work)),
                step(fft_plan.CHIRP_REAL, n, work, target),
            ]

    def _convolution_apart(
        self, outer: int, inner: int, n: int, source: Slice, target: Slice
    ) -> list[Step]:
        """A transform of any length along an axis that is not the last one: of rows, which are put
        side by side and back."""
        end, problems = _End("fft", n, n), outer * inner
        if inner == 1:
            return self._convolution(outer, n, self.inverse, (end, end), (source, target))
        with self.memory(problems * n) as rows:
            return [
                self._turned((outer, n, inner), source, rows),
                *self._convolution(problems, n, self.inverse, (end, end), (rows, rows)),
                self._turned((outer, inner, n), rows, target),
            ]

    def _turned(self, dims: tuple[int, int, int], source: Slice, target: Slice) -> Library:
        """The last two dimensions exchanged."""
        found = transpose_plans.plan(dims, (0, 2, 1), self.complex.byte_size, in_tiles=False)
        assert found is not None, dims
        cycles = _MOVE_CYCLES * math.prod(dims)
        return Library(self.node.name, cycles, found.routine, (source, target, found.numbers))

    def _convolution(
        self,
        problems: int,
        n: int,
        inverse: int,
        ends: tuple[_End, _End],
        places: tuple[Slice, Slice],
    ) -> list[Step]:
        """A transform of any length: numbers times a chirp, convolved with its conjugate, times
        it."""
        size, dtype = fft_plan.chirp_length(n), self.complex.numpy_dtype
        numbers = cache(partial(fft_plan.chirp, n, inverse))

        def table(name: str, make: Callable[[], np.ndarray]) -> Slice:
            key = (f"fft {name}", n, inverse, self.complex)
            return self.builder.table(key, lambda: make().astype(dtype))

        chirp = table("chirp", numbers)
        spectrum = table("spectrum", lambda: fft_plan.chirp_spectrum(numbers(), inverse))
        (source, target), (given, made) = places, ends

        def times(kind: str, lengths: tuple[int, ...], table: Slice, *places: Slice) -> Step:
            operands = (problems, *lengths, table, *places)
            return self._library(kind, problems * size, operands)

        def transforms(work: Slice, inverse: int) -> list[Step]:
            return self._rows("fft", problems, size, inverse, (size, size), (work, work))

        last = fft_plan.CHIRP_REAL if made.kind == "irfft" else fft_plan.CHIRP_FFT
        with self.memory(problems * size) as work:
            return [
                times(f"chirp_{given.kind}", (n, size, given.row, size), chirp, source, work),
                *transforms(work, 0),
                times(fft_plan.CHIRP_FFT, (size, size, size, size), spectrum, work, work),
                *transforms(work, 1),
                times(last, (n, made.length, size, made.row), chirp, work, target),
            ]

    def _library(self, kind: str, elements: int, operands: tuple[Any, ...]) -> Library:
        return Library(self.node.name, _ROW_CYCLES * elements, f"{kind}_{self.complex}", operands)

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
            axis.inverse,
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
