"""scan -> while, or a prefix reduce-window where the step is one associative operation."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import ScanAttributes, WindowAttributes, WindowDimension
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import identity_of
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.counted_loop import COUNTER, counted_loop, row, with_row
from xla_backend.passes.emit import Emit, adopt, binary_computation

_EXACT = frozenset({Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR, Opcode.XOR})
_ASSOCIATIVE = _EXACT | {Opcode.ADD, Opcode.MULTIPLY}


class ScanExpander(HloPass):
    """scan(xs, carries; f) -> a loop that calls f once for each position along the dimension.

    Where f(x, c) = (op(x, c), op(x, c)) and regrouping changes nothing (or `is_associative` allows
    it), the prefixes of xs are one reduce-window, for which there is a fast kernel.

    Why: loops and windows have code.  Needs: calls inlined.  Leaves: no scan.
    """

    name = "scan-expander"
    opcodes = frozenset({Opcode.SCAN})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.SCAN)
        for node in nodes:
            b = Emit(node)
            opcode = _prefix_opcode(node)
            if _length(node) == 0:
                results = [*_empty_outputs(b, node), *_carries(node)]
            elif opcode is None:
                results = _loop(node)
            else:
                results = _prefixes(node, opcode)
            computation.replace(node, b.tuple(results) if node.shape.is_tuple else results[0])
        if nodes:
            adopt(computation)
        return bool(nodes)


def _attributes(node: Instruction) -> ScanAttributes:
    assert isinstance(node.attributes, ScanAttributes)
    return node.attributes


def _length(node: Instruction) -> int:
    return node.operands[0].shape.dimensions[_attributes(node).dimension]


def _carries(node: Instruction) -> list[Instruction]:
    return node.operands[len(node.operands) - _attributes(node).num_carries :]


def _empty_outputs(b: Emit, node: Instruction) -> list[Instruction]:
    """Arrays of zeros that the steps write their outputs to."""
    shapes = node.shape.tuple_shapes if node.shape.is_tuple else (node.shape,)
    return [b.splat(s, 0) for s in shapes[: len(shapes) - _attributes(node).num_carries]]


def _prefix_opcode(node: Instruction) -> Opcode | None:
    """The operation whose prefixes the scan gives, if it is one that may be regrouped."""
    a = _attributes(node)
    body = node.called[0]
    root = body.root
    if len(node.operands) != 2 or a.num_carries != 1 or root is None:
        return None
    if root.opcode is not Opcode.TUPLE or len(root.operands) != 2:
        return None
    step, carry = root.operands
    if step is not carry or len(step.operands) != 2 or set(step.operands) != set(body.parameters):
        return None
    element_type = node.operands[0].shape.element_type
    regroups = step.opcode in _EXACT or element_type.is_integral or a.is_associative
    return step.opcode if step.opcode in _ASSOCIATIVE and regroups else None


def _prefixes(node: Instruction, opcode: Opcode) -> list[Instruction]:
    """op(init, prefix of x), and its last element."""
    b = Emit(node)
    a = _attributes(node)
    x, initial = node.operands
    dims, n = x.shape.dimensions, _length(node)
    neutral = b.broadcast(initial, dims, [d for d in range(len(dims)) if d != a.dimension])
    if n == 1:
        whole = b.binary(opcode, neutral, x)
    else:
        whole = b.binary(opcode, neutral, _running(b, x, a, opcode))
    last = 0 if a.is_reverse else n - 1
    starts = [last if d == a.dimension else 0 for d in range(len(dims))]
    limits = [last + 1 if d == a.dimension else m for d, m in enumerate(dims)]
    carry = b.reshape(b.slice(whole, starts, limits), initial.shape.dimensions)
    return [whole, carry]


def _running(b: Emit, x: Instruction, a: ScanAttributes, opcode: Opcode) -> Instruction:
    dims, n = x.shape.dimensions, x.shape.dimensions[a.dimension]
    low, high = (0, n - 1) if a.is_reverse else (n - 1, 0)
    window = tuple(
        WindowDimension(n, 1, low, high) if d == a.dimension else WindowDimension(1)
        for d in range(len(dims))
    )
    element_type = x.shape.element_type
    neutral = b.splat(x.shape.with_dimensions(()), identity_of(opcode, element_type))
    return b.add(
        Opcode.REDUCE_WINDOW,
        (x, neutral),
        WindowAttributes(window),
        (binary_computation(opcode, element_type),),
        shape=x.shape.with_dimensions(dims),
    )


def _loop(node: Instruction) -> list[Instruction]:
    b = Emit(node)
    a = _attributes(node)
    carries = _carries(node)
    inputs = node.operands[: len(node.operands) - len(carries)]
    outputs = _empty_outputs(b, node)
    length = _length(node)

    def step(inner: Emit, counter: Instruction, values: list[Instruction]) -> Sequence[Instruction]:
        at = counter
        if a.is_reverse:
            at = inner.binary(Opcode.SUBTRACT, inner.splat(COUNTER, length - 1), counter)
        arrays = values[: len(inputs)]
        written = values[len(inputs) : len(inputs) + len(outputs)]
        arguments = [row(inner, x, at, a.dimension) for x in arrays]
        arguments += values[len(inputs) + len(outputs) :]
        results = _members(inner, inner.computation.inline(node.called[0], arguments))
        written = [
            with_row(inner, whole, part, at, a.dimension) for whole, part in zip(written, results)
        ]
        return [*arrays, *written, *results[len(outputs) :]]

    values = counted_loop(b, "scan", length, [*inputs, *outputs, *carries], step)
    return values[len(inputs) :]


def _members(b: Emit, result: Instruction) -> list[Instruction]:
    if result.opcode is Opcode.TUPLE:
        return list(result.operands)
    if not result.shape.is_tuple:
        return [result]
    return [b.gte(result, i) for i in range(len(result.shape.tuple_shapes))]
