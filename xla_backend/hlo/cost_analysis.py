"""Cost of a module as XLA counts it: flops, transcendentals, bytes accessed.

An elementwise operation is one flop per result element; exp, log, sin, sqrt, power ... count apart
as transcendentals; a multiply-add is two flops. Every instruction outside fusions reads its
operands and writes its result; a fusion costs what it contains but touches memory only at its
edges. A while loop costs its known trip count times condition and body, or one iteration if the
count is unknown. Custom calls cost only their traffic. An operand of a fusion of which it reads
slices costs these, and one that it updates in place the update.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np

from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    DotAttributes,
    FftAttributes,
    RaggedDotAttributes,
    ScanAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_rules_contractions import window_output_size
from xla_backend.process.light_dataclasses import dataclass

_POINTER_BYTES = 8
_FREE = frozenset(
    Opcode(text)
    for text in (
        "parameter constant bitcast get-tuple-element after-all add-dependency domain async-update "
        "async-done"
    ).split()
)


@dataclass(frozen=True, slots=True)
class Cost:
    flops: float = 0.0
    transcendentals: float = 0.0
    bytes_accessed: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_accessed + other.bytes_accessed,
        )

    def times(self, count: float) -> Cost:
        return Cost(self.flops * count, self.transcendentals * count, self.bytes_accessed * count)

    def arithmetic(self) -> Cost:
        """Without the memory traffic."""
        return Cost(self.flops, self.transcendentals)


def analyze(module: HloModule) -> Cost:
    """Cost of running the module once."""
    assert module.entry is not None, f"module {module.name} has no entry computation"
    return CostAnalysis().computation(module.entry)


class CostAnalysis:
    """Costs of computations and instructions; each computation is counted once and remembered."""

    def __init__(self) -> None:
        self._computations: dict[Computation, Cost] = {}

    def computation(self, computation: Computation) -> Cost:
        cost = self._computations.get(computation)
        if cost is None:
            cost = Cost()
            for node in computation:
                cost += self.instruction(node)
            self._computations[computation] = cost
        return cost

    def instruction(self, node: Instruction) -> Cost:
        """Cost of one instruction, with the computations it calls."""
        opcode = node.opcode
        if opcode in _FREE:
            return Cost()
        control = _CONTROL.get(opcode)
        if control is not None:
            return control(self, node)
        arithmetic = Cost()
        rule = _ARITHMETIC.get(opcode)
        if rule is not None:
            arithmetic = rule(self, node)
        elif opcode.is_transcendental:
            arithmetic = Cost(transcendentals=node.shape.num_elements)
        elif opcode.is_elementwise and opcode is not Opcode.COPY:
            arithmetic = Cost(flops=node.shape.num_elements)
        return arithmetic + Cost(bytes_accessed=bytes_accessed(node))

    def called(self, node: Instruction, index: int = 0) -> Cost:
        """Arithmetic of one application of a called scalar computation."""
        return self.computation(node.called[index]).arithmetic()


# -- memory traffic --------------------------------------------------------------------------------


def _operand_bytes(shape: Shape) -> int:
    """Reading a tuple reads its pointers."""
    return _POINTER_BYTES * len(shape.tuple_shapes) if shape.is_tuple else shape.byte_size


def bytes_accessed(node: Instruction) -> int:
    """Bytes one instruction reads and writes. Slicing opcodes touch only the slice."""
    operands, result = node.operands, node.shape.byte_size
    opcode = node.opcode
    if opcode is Opcode.SLICE:
        return 2 * result
    if opcode is Opcode.DYNAMIC_SLICE:
        return 2 * result + (operands[1].shape.byte_size if len(operands) > 1 else 0)
    if opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        indices = operands[2].shape.byte_size if len(operands) > 2 else 0
        return 2 * operands[1].shape.byte_size + indices
    if opcode is Opcode.GATHER:
        return 2 * result + operands[1].shape.byte_size
    if opcode is Opcode.SCATTER:
        count = len(operands) // 2
        updates = sum(u.shape.byte_size for u in operands[count + 1 :])
        return 3 * updates + operands[count].shape.byte_size
    if opcode is Opcode.CHOLESKY:  # a triangle in, a triangle out
        return result
    if opcode is Opcode.TRIANGULAR_SOLVE:
        return result + operands[0].shape.byte_size // 2 + operands[1].shape.byte_size
    if opcode is Opcode.TUPLE:
        return _POINTER_BYTES * len(operands)
    return result + sum(_operand_bytes(o.shape) for o in operands)


_SLICING = frozenset({Opcode.SLICE, Opcode.DYNAMIC_SLICE, Opcode.GATHER})


def _fusion_bytes(node: Instruction) -> int:
    """Bytes that a fusion reads and writes at its edges."""
    body = node.called[0]
    assert body.root is not None
    roots = body.root.operands if body.root.opcode is Opcode.TUPLE else [body.root]
    return sum(map(_read_bytes, body.parameters)) + sum(map(_written_bytes, roots))


def _read_bytes(parameter: Instruction) -> int:
    """Of an operand, what those read that use the parameter which stands for it."""
    users = parameter.users
    if users and all(user.operands[0] is parameter for user in users):
        if all(user.opcode in _SLICING for user in users):
            return sum(user.shape.byte_size for user in users)
        if all(user.opcode is Opcode.DYNAMIC_UPDATE_SLICE for user in users):
            return 0
    return _operand_bytes(parameter.shape)


def _written_bytes(root: Instruction) -> int:
    updates = root.opcode is Opcode.DYNAMIC_UPDATE_SLICE
    in_place = updates and root.operands[0].opcode is Opcode.PARAMETER
    return root.operands[1].shape.byte_size if in_place else root.shape.byte_size


# -- control flow ----------------------------------------------------------------------------------


def known_trip_count(node: Instruction) -> int | None:
    """What `backend_config={"known_trip_count":{"n":"5"}}` of a while says, or None."""
    text = (node.annotations or {}).get("backend_config")
    if not text:
        return None
    try:
        return int(json.loads(text)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        return None


def _while(analysis: CostAnalysis, node: Instruction) -> Cost:
    one = analysis.computation(node.called[0]) + analysis.computation(node.called[1])
    trips = known_trip_count(node)
    return one.times(1 if trips is None else trips)


def _conditional(analysis: CostAnalysis, node: Instruction) -> Cost:
    """The dearest branch, each quantity by itself."""
    branches = [analysis.computation(c) for c in node.called]
    return Cost(
        max(b.flops for b in branches),
        max(b.transcendentals for b in branches),
        max(b.bytes_accessed for b in branches),
    )


def _call(analysis: CostAnalysis, node: Instruction) -> Cost:
    return analysis.computation(node.called[0])


def _fusion(analysis: CostAnalysis, node: Instruction) -> Cost:
    return analysis.called(node) + Cost(bytes_accessed=_fusion_bytes(node))


_CONTROL: dict[Opcode, Callable[[CostAnalysis, Instruction], Cost]] = {
    Opcode.WHILE: _while,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CALL: _call,
    Opcode.ASYNC_START: _call,
    Opcode.FUSION: _fusion,
}


# -- arithmetic ------------------------------------------------------------------------------------


def _dot(analysis: CostAnalysis, node: Instruction) -> Cost:
    a = node.attributes
    assert isinstance(a, DotAttributes)
    lhs = node.operands[0].shape.dimensions
    return Cost(flops=2.0 * node.shape.num_elements * math.prod(lhs[i] for i in a.lhs_contracting))


def _ragged_dot(analysis: CostAnalysis, node: Instruction) -> Cost:
    """Each row meets the matrix of one group only."""
    a = node.attributes
    assert isinstance(a, RaggedDotAttributes)
    lhs, rhs = node.operands[0].shape, node.operands[1].shape
    shared = {*a.rhs_batch, *a.rhs_contracting, *a.rhs_group}
    columns = math.prod(n for d, n in enumerate(rhs.dimensions) if d not in shared)
    return Cost(flops=2.0 * lhs.num_elements * columns)


def _valid_taps(size: int, window: WindowDimension) -> int:
    """Pairs (output position, kernel position) of one dimension that meet a real input element."""
    count = 0
    positions = window_output_size(size, window)
    if window.base_dilation == 1:
        # Of taps and positions those that are fewer, and how many of the others each of them meets
        # within the input.
        few, many = (window.size, window.window_dilation), (positions, window.stride)
        if few[0] > many[0]:
            few, many = many, few
        for n in range(few[0]):
            place = n * few[1] - window.padding_low
            first = max(0, -(place // many[1]))
            last = min(many[0] - 1, (size - 1 - place) // many[1])
            count += max(0, last - first + 1)
        return count
    starts = np.arange(positions) * window.stride - window.padding_low
    for k in range(window.size):
        position = starts + k * window.window_dilation
        real = (position >= 0) & (position % window.base_dilation == 0)
        count += int(np.count_nonzero(real & (position // window.base_dilation < size)))
    return count


def _convolution(analysis: CostAnalysis, node: Instruction) -> Cost:
    """Multiply-adds with elements of the input, not with its padding."""
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    n, lhs = a.dimension_numbers, node.operands[0].shape.dimensions
    taps = math.prod(_valid_taps(lhs[d], w) for d, w in zip(n.input_spatial, a.window))
    features = lhs[n.input_feature] // a.feature_group_count
    batch = lhs[n.input_batch] // a.batch_group_count
    return Cost(flops=2.0 * taps * features * batch * node.shape.dimensions[n.output_feature])


def _reduce(analysis: CostAnalysis, node: Instruction) -> Cost:
    operand, result = node.operands[0].shape, node.shape.flatten()[0]
    return analysis.called(node).times(max(0, operand.num_elements - result.num_elements))


def _reduce_window(analysis: CostAnalysis, node: Instruction) -> Cost:
    a = node.attributes
    assert isinstance(a, WindowAttributes)
    steps = math.prod(w.size for w in a.window) - 1
    return analysis.called(node).times(node.shape.flatten()[0].num_elements * max(0, steps))


def _select_and_scatter(analysis: CostAnalysis, node: Instruction) -> Cost:
    a = node.attributes
    assert isinstance(a, WindowAttributes)
    source = node.operands[1].shape.num_elements
    steps = max(0, math.prod(w.size for w in a.window) - 1)
    return analysis.called(node, 0).times(source * steps) + analysis.called(node, 1).times(source)


def _scatter(analysis: CostAnalysis, node: Instruction) -> Cost:
    return analysis.called(node).times(node.operands[-1].shape.num_elements)


def _per_element(analysis: CostAnalysis, node: Instruction) -> Cost:
    return analysis.called(node).times(sum(s.num_elements for s in node.shape.flatten()))


def _scan(analysis: CostAnalysis, node: Instruction) -> Cost:
    a = node.attributes
    assert isinstance(a, ScanAttributes)
    return analysis.called(node).times(node.operands[0].shape.dimensions[a.dimension])


def _sort(analysis: CostAnalysis, node: Instruction) -> Cost:
    """n log n comparisons over all elements."""
    count = node.operands[0].shape.num_elements
    return Cost(flops=float(count * max(count - 1, 0).bit_length()))


def _fft(analysis: CostAnalysis, node: Instruction) -> Cost:
    """One complex multiply-add (8 flops) per element and power of two."""
    a = node.attributes
    assert isinstance(a, FftAttributes)
    stages = math.prod(a.fft_length).bit_length() - 1
    return Cost(flops=8.0 * max(0, stages) * node.operands[0].shape.num_elements)


def _cholesky(analysis: CostAnalysis, node: Instruction) -> Cost:
    n = node.shape.dimensions[-1]
    return Cost(flops=float(node.shape.num_elements * n // 3))


def _triangular_solve(analysis: CostAnalysis, node: Instruction) -> Cost:
    return Cost(flops=2.0 * node.shape.num_elements * node.operands[0].shape.dimensions[-1])


def _random_bits(analysis: CostAnalysis, node: Instruction) -> Cost:
    return Cost(transcendentals=sum(s.num_elements for s in node.shape.flatten()))


_ARITHMETIC: dict[Opcode, Callable[[CostAnalysis, Instruction], Cost]] = {
    Opcode.DOT: _dot,
    Opcode.SCALED_DOT: _dot,
    Opcode.RAGGED_DOT: _ragged_dot,
    Opcode.CONVOLUTION: _convolution,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SCATTER: _scatter,
    Opcode.MAP: _per_element,
    Opcode.ALL_REDUCE: _per_element,
    Opcode.ALL_REDUCE_START: _per_element,
    Opcode.REDUCE_SCATTER: _per_element,
    Opcode.SCAN: _scan,
    Opcode.SORT: _sort,
    Opcode.FFT: _fft,
    Opcode.CHOLESKY: _cholesky,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
    Opcode.RNG_BIT_GENERATOR: _random_bits,
}
