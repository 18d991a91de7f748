"""Instruction order: readers of a buffer before the instruction that writes over it; depth first
unless another order needs less memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.fusion import control_flow_computations
from xla_backend.passes.fusion_rules import FREE_ALIASES
from xla_backend.passes.memory_schedule import best_order

# Of what would write over one value only one can do so without a copy: few are tried.
_MAX_WRITERS = 16
_MAX_SEARCH = 2000


class Scheduler(HloPass):
    """Set the order in which instructions run.

    Why: buffers are assigned by live range, so the order decides how many are alive at once; and
    putting the readers of an array before an in-place update of it saves copying the array.
    Needs: fusion done (nothing that changes instructions follows, but copy insertion).
    `for_memory`: look for an order that needs less memory than depth first.
    Leaves: instruction order = execution order, module.is_scheduled.
    """

    name = "scheduler"

    def __init__(self, for_memory: bool = True) -> None:
        self.for_memory = for_memory

    def run(self, module: HloModule) -> bool:
        changed = not module.is_scheduled
        for computation in control_flow_computations(module):
            order = schedule(computation, self.for_memory)
            changed |= order != computation.instructions
            computation.reorder(order)
        module.is_scheduled = True
        return changed


def schedule(computation: Computation, for_memory: bool = True) -> list[Instruction]:
    """A topological order: depth first, or one that needs less memory."""
    before = _predecessors(computation)
    depth_first = _depth_first(computation, before)
    return best_order(computation, depth_first, before) if for_memory else depth_first


def _depth_first(
    computation: Computation, before: dict[Instruction, list[Instruction]]
) -> list[Instruction]:
    emitted: set[Instruction] = set()
    order: list[Instruction] = []
    for parameter in computation.parameters:
        emitted.add(parameter)
        order.append(parameter)
    assert computation.root is not None
    # What the root does not need (side effects) runs first, in program order.
    starts = [n for n in computation.instructions if not n.users and n is not computation.root]
    for start in [*starts, computation.root]:
        if start not in emitted:
            _emit(start, before, emitted, order)
    return order


def _emit(
    start: Instruction,
    before: dict[Instruction, list[Instruction]],
    emitted: set[Instruction],
    order: list[Instruction],
) -> None:
    in_progress = {start}
    stack: list[tuple[Instruction, list[Instruction]]] = [(start, _needs(start, before))]
    while stack:
        node, pending = stack[-1]
        while pending:
            following = pending.pop()
            if following not in emitted and following not in in_progress:
                in_progress.add(following)
                stack.append((following, _needs(following, before)))
                break
        else:
            stack.pop()
            in_progress.discard(node)
            emitted.add(node)
            order.append(node)


def _needs(node: Instruction, before: dict[Instruction, list[Instruction]]) -> list[Instruction]:
    """What runs before the node, to be popped from the end: operands, then predecessors."""
    needs = before.get(node, [])[::-1]
    return needs + node.operands[::-1]


def _predecessors(computation: Computation) -> dict[Instruction, list[Instruction]]:
    """For each instruction its control predecessors, and, if it overwrites a buffer, the other
    readers of that.

    Of the latter only those that keep the order acyclic are kept; the rest costs a copy later.
    """
    writers: dict[Instruction, list[Instruction]] = {}
    for writer, value in _overwrites(computation):
        writers.setdefault(value, []).append(writer)
    told = _control_predecessors(computation)
    if not writers:
        return told
    order = GrowingOrder(computation, told)
    for value, candidates in writers.items():
        readers = _readers(value)
        for writer in candidates[:_MAX_WRITERS]:
            # The first that all others can precede has the memory; the others need copies anyway.
            if all(order.put_before(r, writer) for r in readers if r is not writer):
                break
    return order.before


def _control_predecessors(computation: Computation) -> dict[Instruction, list[Instruction]]:
    return {
        node: list(found)
        for node in computation.instructions
        if node.annotations and (found := node.control_predecessors)
    }


class GrowingOrder:
    """An order of instructions, operands before users, in which some are told to precede others.
    `told`: by the program, of each what precedes it.

    It is kept topological: what has to move is searched for between the places of the two only
    (Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2006).
    """

    def __init__(
        self, computation: Computation, told: dict[Instruction, list[Instruction]] | None = None
    ) -> None:
        self.before = told or {}
        self._after: dict[Instruction, list[Instruction]] = {}
        for second, firsts in self.before.items():
            for first in firsts:
                self._after.setdefault(first, []).append(second)
        order = _depth_first(computation, self.before) if told else computation.post_order()
        self._place = {node: i for i, node in enumerate(order)}

    def put_before(self, first: Instruction, second: Instruction) -> bool:
        """Let `first` precede `second`; False if it depends on it, or that is too much work to find
        out."""
        place = self._place
        if place[first] > place[second]:
            low, high = place[second], place[first]
            followers = self._reach(second, lambda n: place[n] <= high, self._followers)
            needs = self._reach(first, lambda n: place[n] >= low, self._needs)
            if first in followers or max(len(followers), len(needs)) > _MAX_SEARCH:
                return False
            moved = sorted(needs, key=place.__getitem__) + sorted(followers, key=place.__getitem__)
            for node, new in zip(moved, sorted(place[n] for n in moved)):
                place[node] = new
        self.before.setdefault(second, []).append(first)
        self._after.setdefault(first, []).append(second)
        return True

    def _needs(self, node: Instruction) -> Iterable[Instruction]:
        return (*node.operands, *self.before.get(node, ()))

    def _followers(self, node: Instruction) -> Iterable[Instruction]:
        return (*node.users, *self._after.get(node, ()))

    def _reach(
        self,
        start: Instruction,
        within: Callable[[Instruction], bool],
        neighbours: Callable[[Instruction], Iterable[Instruction]],
    ) -> set[Instruction]:
        seen = {start}
        stack = [start]
        while stack and len(seen) <= _MAX_SEARCH:
            for node in neighbours(stack.pop()):
                if node not in seen and within(node):
                    seen.add(node)
                    stack.append(node)
        return seen


def _overwrites(computation: Computation) -> list[tuple[Instruction, Instruction]]:
    """(instruction, value whose buffer it will write over)."""
    pairs: list[tuple[Instruction, Instruction]] = []
    for node in computation.instructions:
        for number, _ in in_place_operands(node):
            pairs.append((node, node.operands[number]))
        if node.opcode is Opcode.WHILE and node.operands[0].opcode is Opcode.TUPLE:
            pairs.extend((node, element) for element in node.operands[0].operands)
    # A loop body writes its new carry over the old one.
    root = computation.root
    if (
        root is not None
        and root.opcode is Opcode.TUPLE
        and len(computation.parameters) == 1
        and computation.parameters[0].shape == root.shape
    ):
        old = {
            n.tuple_index: n
            for n in computation.parameters[0].users
            if n.opcode is Opcode.GET_TUPLE_ELEMENT
        }
        for i, element in enumerate(root.operands):
            if i in old and element is not old[i]:
                pairs.append((definition(element), old[i]))
    return pairs


def definition(node: Instruction) -> Instruction:
    """What a relabelling, or an element of a tuple, is of."""
    while node.opcode in FREE_ALIASES or node.opcode is Opcode.GET_TUPLE_ELEMENT:
        node = node.operands[0]
    return node


def _readers(value: Instruction) -> list[Instruction]:
    """What reads a value or a relabelling of it; tuples only name it."""
    readers: list[Instruction] = []
    stack = list(value.users)
    while stack:
        user = stack.pop()
        if user.opcode in FREE_ALIASES:
            stack.extend(user.users)
        elif user.opcode is not Opcode.TUPLE:
            readers.append(user)
    return readers
