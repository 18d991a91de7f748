"""Convolutions over an image dilated with zeros -> one convolution for each phase of the output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.attributes import ConvolutionAttributes, WindowDimension
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit

# Fewer multiplications than this are not worth several calls.
_MIN_WORK = 1 << 20
_MAX_PHASES = 8


class _Phase(NamedTuple):
    """Every d-th element of an output dimension: the taps of the window that meet no zeros, and
    the window over the image as it was. No taps: the phase is zero."""

    first_tap: int
    taps: int
    window: WindowDimension


def _phases(w: WindowDimension, inputs: int, outputs: int) -> list[_Phase]:
    """The phases of one dimension, `ceil(outputs / d)` elements each.

    Element r + d q of the output sums tap k times element (r + d q + k - padding) / d of the image
    where that is whole: k = first + d j, and the image's element is q + j + shift.
    """
    d = w.base_dilation
    count = -(-outputs // d)
    phases = []
    for r in range(d):
        first = (w.padding_low - r) % d
        taps = len(range(first, w.size, d))
        low = -((r + first - w.padding_low) // d)
        high = count + taps - 1 - inputs - low
        window = WindowDimension(taps, 1, low, high, 1, 1, w.reversal)
        # A reversed window is walked from its end: its taps are counted from there.
        start = (w.size - 1 - first) % d if w.reversal else first
        phases.append(_Phase(start, taps, window))
    return phases


def _decompose(node: Instruction) -> Instruction | None:
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    dilated = [i for i, w in enumerate(a.window) if w.base_dilation > 1]
    if not dilated or any(a.window[i].stride > 1 for i in dilated):
        return None
    if any(a.window[i].window_dilation > 1 for i in dilated):
        return None
    if math.prod(a.window[i].base_dilation for i in dilated) > _MAX_PHASES:
        return None
    if _work(node, a) < _MIN_WORK:
        return None
    return _Decomposition(node, a, dilated).build()


def _work(node: Instruction, a: ConvolutionAttributes) -> int:
    kernel = node.operands[1].shape
    features = kernel.dimensions[a.dimension_numbers.kernel_output_feature]
    return node.shape.num_elements * kernel.num_elements // max(features, 1)


class _Decomposition:
    """Builds the convolutions of all phases and lays their results side by side."""

    def __init__(self, node: Instruction, a: ConvolutionAttributes, dilated: Sequence[int]) -> None:
        self.node, self.a, self.dilated = node, a, dilated
        self.b = Emit(node)
        x = node.operands[0].shape.dimensions
        numbers = a.dimension_numbers
        self.phases = [
            _phases(
                a.window[i],
                x[numbers.input_spatial[i]],
                node.shape.dimensions[numbers.output_spatial[i]],
            )
            for i in dilated
        ]
        dims = list(node.shape.dimensions)
        for i in dilated:
            place = numbers.output_spatial[i]
            dims[place] = -(-dims[place] // a.window[i].base_dilation)
        self.shape = node.shape.with_dimensions(dims)

    def build(self) -> Instruction:
        parts = [self._convolve(choice) for choice in itertools.product(*self.phases)]
        for i in reversed(self.dilated):
            d = self.a.window[i].base_dilation
            place = self.a.dimension_numbers.output_spatial[i]
            groups = [parts[n : n + d] for n in range(0, len(parts), d)]
            parts = [self._interleave(group, place) for group in groups]
        (result,) = parts
        if result.shape.dimensions == self.node.shape.dimensions:
            return result
        return self.b.slice(result, [0] * result.shape.rank, self.node.shape.dimensions)

    def _convolve(self, choice: Sequence[_Phase]) -> Instruction:
        b, a = self.b, self.a
        x, kernel = self.node.operands
        if any(phase.taps == 0 for phase in choice):
            return b.splat(self.shape, 0)
        starts, strides = [0] * kernel.shape.rank, [1] * kernel.shape.rank
        window = list(a.window)
        for i, phase in zip(self.dilated, choice):
            place = a.dimension_numbers.kernel_spatial[i]
            starts[place] = phase.first_tap
            strides[place] = a.window[i].base_dilation
            window[i] = phase.window
        taps = b.slice(kernel, starts, kernel.shape.dimensions, strides)
        attributes = ConvolutionAttributes(
            tuple(window),
            a.dimension_numbers,
            a.feature_group_count,
            a.batch_group_count,
            a.precision,
        )
        return b.add(Opcode.CONVOLUTION, (x, taps), attributes, shape=self.shape)

    def _interleave(self, parts: Sequence[Instruction], place: int) -> Instruction:
        """Element q of part r -> element r + d q of the result."""
        dims = list(parts[0].shape.dimensions)
        apart = [*dims[: place + 1], 1, *dims[place + 1 :]]
        dims[place] *= len(parts)
        stacked = self.b.concatenate([self.b.reshape(p, apart) for p in parts], place + 1)
        return self.b.reshape(stacked, dims)


class ConvolutionDilationDecomposer(RuleTablePass):
    """convolution(x dilated by d, w) -> d interleaved convolutions(x, every d-th tap of w).

    Why: the gradient of a strided convolution by its input, and transposed convolutions: in two
    dimensions with d = 2, three of four multiplications are by inserted zeros.
    Needs: nothing.
    Leaves: no large convolution with base dilation, unless it also has a stride or window dilation.
    """

    name = "convolution-dilation-decomposer"
    opcodes = frozenset({Opcode.CONVOLUTION})
    rules = {Opcode.CONVOLUTION: (_decompose,)}
