"""Orders of execution and the memory they need at their peak.

A depth-first order keeps few arrays alive along one chain, and is at its worst where many results
wait for the end: a training step computes the gradient of each weight from an activation and a
cotangent, and as long as that has not run, both stay. A list scheduler takes, of all instructions
that could run next, the one that frees most.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.fusion_rules import FREE_ALIASES

# Below this peak nothing is gained by another order.
_SMALL_BYTES = 1 << 20
# Depth first also keeps what was just written in the cache: another order must be worth it.
_WORTH_CHANGING = 0.9
_NOTHING_RUNS = FREE_ALIASES | {
    Opcode.PARAMETER,
    Opcode.CONSTANT,
    Opcode.TUPLE,
    Opcode.GET_TUPLE_ELEMENT,
    Opcode.AFTER_ALL,
}

Before = Mapping[Instruction, Sequence[Instruction]]


def best_order(
    computation: Computation, depth_first: list[Instruction], before: Before
) -> list[Instruction]:
    """`depth_first`, or an order that needs clearly less memory. `before`: what else should run
    before an instruction, besides its operands."""
    if _is_chain(depth_first):
        return depth_first
    memory = Liveness(computation, depth_first)
    peak = memory.peak(depth_first)
    if peak < _SMALL_BYTES:
        return depth_first
    listed = list_order(depth_first, before, memory)
    return listed if memory.peak(listed) < _WORTH_CHANGING * peak else depth_first


def _is_chain(order: Sequence[Instruction]) -> bool:
    """Whether each instruction that runs needs the one that runs before it: then there is no other
    order."""
    last = None
    for node in order:
        if node.opcode in _NOTHING_RUNS:
            continue
        if last is not None:
            for operand in node.operands:
                while operand.opcode in FREE_ALIASES or operand.opcode is Opcode.GET_TUPLE_ELEMENT:
                    operand = operand.operands[0]
                if operand is last:
                    break
            else:
                return False
        last = node
    return True


class Liveness:
    """The buffers that instructions read and define, by number.

    Parameters, constants and what the computation returns have memory of their own in any order:
    their size counts as 0.
    """

    def __init__(self, computation: Computation, order: Sequence[Instruction]) -> None:
        self.sizes: list[int] = []
        self.leaves: dict[Instruction, tuple[int, ...]] = {}
        self.reads: dict[Instruction, frozenset[int]] = {}
        self.defines: dict[Instruction, list[int]] = {}
        for node in order:
            self.defines[node] = []
            self.leaves[node] = self._leaves_of(node)
            runs = node.opcode not in _NOTHING_RUNS
            read = {b for o in node.operands for b in self.leaves[o]} if runs else ()
            self.reads[node] = frozenset(read)
        assert computation.root is not None
        for buffer in self.leaves[computation.root]:
            self.sizes[buffer] = 0

    def _leaves_of(self, node: Instruction) -> tuple[int, ...]:
        opcode = node.opcode
        if opcode in FREE_ALIASES or opcode is Opcode.WHILE:
            return self.leaves[node.operands[0]]
        if opcode is Opcode.TUPLE:
            return tuple(b for operand in node.operands for b in self.leaves[operand])
        if opcode is Opcode.GET_TUPLE_ELEMENT:
            (operand,) = node.operands
            first = operand.shape.leaf_starts[node.tuple_index]
            return self.leaves[operand][first : first + node.shape.leaf_count]
        shared = {leaf: operand for operand, leaf in in_place_operands(node)}
        result: list[int] = []
        for leaf, shape in enumerate(node.shape.flatten()):
            if leaf in shared:
                result.append(self.leaves[node.operands[shared[leaf]]][0])
                continue
            result.append(len(self.sizes))
            self.defines[node].append(len(self.sizes))
            self.sizes.append(0 if opcode in _NOTHING_RUNS else shape.byte_size)
        return tuple(result)

    def readers(self) -> list[set[Instruction]]:
        """Who reads each buffer."""
        result: list[set[Instruction]] = [set() for _ in self.sizes]
        for node, buffers in self.reads.items():
            for buffer in buffers:
                result[buffer].add(node)
        return result

    def peak(self, order: Sequence[Instruction]) -> int:
        """Bytes alive at the worst moment of an order."""
        left = [len(nodes) for nodes in self.readers()]
        now = worst = 0
        for node in order:
            now += sum(self.sizes[b] for b in self.defines[node])
            worst = max(worst, now)
            for buffer in self.reads[node]:
                left[buffer] -= 1
                if not left[buffer]:
                    now -= self.sizes[buffer]
            now -= sum(self.sizes[b] for b in self.defines[node] if not left[b])
        return worst


def list_order(
    depth_first: Sequence[Instruction], before: Before, memory: Liveness
) -> list[Instruction]:
    """Greedily the instruction that leaves least memory in use; of equals, the first in
    `depth_first`."""
    return _ListScheduler(depth_first, before, memory).run()


class _ListScheduler:
    def __init__(
        self, depth_first: Sequence[Instruction], before: Before, memory: Liveness
    ) -> None:
        self.memory = memory
        self.position = {node: i for i, node in enumerate(depth_first)}
        self.nodes = depth_first
        self.readers = memory.readers()
        self.waiting: dict[Instruction, int] = {}
        self.followers: dict[Instruction, list[Instruction]] = {n: [] for n in depth_first}
        for node in depth_first:
            needs = {*node.operands, *before.get(node, ())}
            self.waiting[node] = len(needs)
            for need in needs:
                self.followers[need].append(node)
        self.order: list[Instruction] = []
        self.ready: list[tuple[int, int]] = []  # (bytes, position); may be out of date
        self.price: dict[Instruction, int] = {}  # of what is ready

    def run(self) -> list[Instruction]:
        for node in self.nodes:
            if not self.waiting[node]:
                self._offer(node)
        while self.ready:
            price, position = heapq.heappop(self.ready)
            node = self.nodes[position]
            if self.price.get(node) == price:
                del self.price[node]
                self._take(node)
        return self.order

    def _offer(self, node: Instruction) -> None:
        """The node may run from now on, or has become cheaper."""
        sizes, memory = self.memory.sizes, self.memory
        price = sum(sizes[b] for b in memory.defines[node])
        price -= sum(sizes[b] for b in memory.reads[node] if len(self.readers[b]) == 1)
        if node.opcode in _NOTHING_RUNS:
            price = -(1 << 62)
        self.price[node] = price
        heapq.heappush(self.ready, (price, self.position[node]))

    def _take(self, node: Instruction) -> None:
        self.order.append(node)
        for buffer in self.memory.reads[node]:
            readers = self.readers[buffer]
            readers.discard(node)
            if len(readers) == 1:
                (last,) = readers
                if last in self.price:
                    self._offer(last)
        for follower in self.followers[node]:
            self.waiting[follower] -= 1
            if not self.waiting[follower]:
                self._offer(follower)
