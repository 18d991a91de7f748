"""Large sums over devices by parts."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import CollectiveAttributes, PadAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Groups
from xla_backend.passes.base import HloPass
from xla_backend.passes.collectives import topology_of
from xla_backend.passes.emit import Emit

# Of one operand; smaller ones take longer by two meetings than they do as a whole.
LEAST_BYTES = 1 << 20
# Between two the same bytes go either way.
_LEAST_MEMBERS = 3


class AllReduceDecomposition(HloPass):
    """all-reduce(x) of a large x -> all-gather(reduce-scatter(x)), on x as a row of elements.

    Why: where members are in several processes each reads the operands of all others: of N members
    N-1 whole ones, and twice (N-1)/N of one this way. The order in which elements are combined
    stays, and so do all bits.
    Needs: no asynchronous forms.  Leaves: no all-reduce of such an operand between equal groups.
    """

    name = "all-reduce-decomposition"
    opcodes = frozenset({Opcode.ALL_REDUCE})

    def __init__(self, least_bytes: int = LEAST_BYTES) -> None:
        self._least_bytes = least_bytes

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.ALL_REDUCE):
            if not self.may_rewrite():
                break
            groups = topology_of(node).groups(node)
            large = [n for n, x in enumerate(node.operands) if self._is_large(x.shape)]
            if large and _are_equal(groups) and _is_global(node):
                _decompose(computation, node, large, groups)
                self.rewritten()
                changed = True
        return changed

    def _is_large(self, shape: Shape) -> bool:
        return shape.is_array and shape.byte_size >= self._least_bytes


def _are_equal(groups: Groups) -> bool:
    sizes = {len(group) for group in groups}
    return len(sizes) == 1 and min(sizes) >= _LEAST_MEMBERS


def _is_global(node: Instruction) -> bool:
    """Whether the groups may be written down as numbers of participants."""
    assert isinstance(node.attributes, CollectiveAttributes)
    return node.attributes.channel_id is not None


def _decompose(
    computation: Computation, node: Instruction, large: list[int], groups: Groups
) -> None:
    b = Emit(node)
    assert isinstance(node.attributes, CollectiveAttributes)
    members, channel = len(groups[0]), node.attributes.channel_id
    by_parts = CollectiveAttributes(groups, channel, (0,), use_global_device_ids=True)
    results: dict[int, Instruction] = {}

    def exchange(
        opcode: Opcode, operands: list[Instruction], shapes: list[Shape]
    ) -> list[Instruction]:
        called = node.called if opcode is Opcode.REDUCE_SCATTER else ()
        together = Shape.tuple(shapes) if len(shapes) > 1 else shapes[0]
        made = b.add(opcode, operands, by_parts, called, together)
        return [b.gte(made, n) for n in range(len(shapes))] if len(shapes) > 1 else [made]

    rows = [_row(b, node.operands[n], members) for n in large]
    parts = [row.shape.with_dimensions((row.shape.num_elements // members,)) for row in rows]
    scattered = exchange(Opcode.REDUCE_SCATTER, rows, parts)
    gathered = exchange(Opcode.ALL_GATHER, scattered, [row.shape for row in rows])
    for n, row in zip(large, gathered):
        shape = node.operands[n].shape
        results[n] = b.reshape(b.slice(row, (0,), (shape.num_elements,)), shape.dimensions)
    small = [n for n in range(len(node.operands)) if n not in results]
    if small:
        shapes = [node.operands[n].shape for n in small]
        together = Shape.tuple(shapes) if len(shapes) > 1 else shapes[0]
        operands = [node.operands[n] for n in small]
        rest = b.add(Opcode.ALL_REDUCE, operands, node.attributes, node.called, together)
        results |= {n: b.gte(rest, k) if len(small) > 1 else rest for k, n in enumerate(small)}
    found = [results[n] for n in range(len(node.operands))]
    computation.replace(node, b.tuple(found) if node.shape.is_tuple else found[0])


def _row(b: Emit, x: Instruction, members: int) -> Instruction:
    """The elements of an array in a row, of which each member can have an equal part."""
    count = x.shape.num_elements
    row = b.reshape(x, (count,))
    behind = math.ceil(count / members) * members - count
    if not behind:
        return row
    shape = row.shape.with_dimensions((count + behind,))
    zero = b.splat(Shape.array(x.shape.element_type), 0)
    return b.add(Opcode.PAD, (row, zero), PadAttributes((0,), (behind,), (0,)), shape=shape)
