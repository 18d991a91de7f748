"""Several collectives of one kind as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.collectives import key_of
from xla_backend.passes.emit import Emit

# XLA's, for GPUs; on CPUs it knows no limit of bytes, and 256 operands.
MOST_BYTES = 30 * 1024 * 1024 + 7
MOST_OPERANDS = 256


class _CollectiveCombiner(HloPass):
    """Collectives of one opcode between the same devices, none of which needs another's result ->
    one with all their operands.

    Why: devices meet once, and each message has a cost of its own.
    Needs: no asynchronous forms.  Leaves: collectives that are not alike, or whose operands are
    together larger or more than the limits; larger ones stay as they are.
    """

    opcode: Opcode

    def __init__(self, most_bytes: int | None = MOST_BYTES, most_operands: int = MOST_OPERANDS):
        """`most_bytes` None: any number."""
        self._most_bytes = most_bytes
        self._most_operands = most_operands
        self.opcodes = frozenset({self.opcode})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for together in self._sets(computation):
            if not self.may_rewrite():
                break
            _combine(computation, together)
            self.rewritten()
            changed = True
        return changed

    def _sets(self, computation: Computation) -> list[list[Instruction]]:
        """Collectives to combine: those behind as many others on the longest way to them cannot
        need each other, in whatever sets they are."""
        depth: dict[Instruction, int] = {}
        by_key: dict[tuple[object, ...], list[Instruction]] = {}
        for node in topological_order(computation):
            depth[node] = max([depth[x] + self._counts(x) for x in node.operands], default=0)
            if self._counts(node):
                by_key.setdefault((depth[node], *key_of(node)), []).append(node)
        return [s for nodes in by_key.values() for s in self._within_limits(nodes) if len(s) > 1]

    def _counts(self, node: Instruction) -> bool:
        if node.opcode is not self.opcode:
            return False
        plain = not node.annotations or "control-predecessors" not in node.annotations
        return plain and all(x.shape.is_array for x in node.operands)

    def _within_limits(self, nodes: Sequence[Instruction]) -> Iterator[list[Instruction]]:
        found: list[Instruction] = []
        bytes = operands = 0
        for node in nodes:
            own = sum(leaf.byte_size for leaf in node.shape.flatten())
            too_large = self._most_bytes is not None and bytes + own > self._most_bytes
            if found and (too_large or operands + len(node.operands) > self._most_operands):
                yield found
                found, bytes, operands = [], 0, 0
            found.append(node)
            bytes += own
            operands += len(node.operands)
        if found:
            yield found


def _combine(computation: Computation, nodes: Sequence[Instruction]) -> None:
    first = nodes[0]
    operands = [x for node in nodes for x in node.operands]
    leaves = [leaf for node in nodes for leaf in node.shape.flatten()]
    combined = Instruction(
        first.opcode, Shape.tuple(leaves), operands, first.attributes, first.called, first.metadata
    )
    b = Emit(first)
    computation.add(combined)
    number = 0
    for node in nodes:
        count = len(node.operands)
        results = [b.gte(combined, k) for k in range(number, number + count)]
        number += count
        computation.replace(node, b.tuple(results) if node.shape.is_tuple else results[0])


class AllReduceCombiner(_CollectiveCombiner):
    name = "all-reduce-combiner"
    opcode = Opcode.ALL_REDUCE
    __doc__ = _CollectiveCombiner.__doc__


class AllGatherCombiner(_CollectiveCombiner):
    name = "all-gather-combiner"
    opcode = Opcode.ALL_GATHER
    __doc__ = _CollectiveCombiner.__doc__


class ReduceScatterCombiner(_CollectiveCombiner):
    name = "reduce-scatter-combiner"
    opcode = Opcode.REDUCE_SCATTER
    __doc__ = _CollectiveCombiner.__doc__
