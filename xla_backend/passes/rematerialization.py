"""Rematerialization: compute cheap values again instead of keeping them in memory."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.fusion_rules import FREE_ALIASES
from xla_backend.passes.memory_schedule import Liveness

# Each round walks over the program once.
_MAX_ROUNDS = 400
_VIEWS = FREE_ALIASES | {Opcode.GET_TUPLE_ELEMENT}


class Rematerialization(HloPass):
    """Compute loop and reduction fusions a second time where that lets a program fit.

    Why: a backward pass needs activations that are cheap to compute from what is in memory anyway;
    kept, they fill memory from the forward pass on.
    Needs: a schedule. `memory_limit`: bytes of temporaries of the entry that may be alive at once,
    without arguments and outputs; None leaves the module alone.
    Leaves: a schedule with a lower peak, below the limit if cheap values are enough for that.
    Products, convolutions, loops and in-place updates are never run twice.
    """

    name = "rematerialization"

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit

    def run(self, module: HloModule) -> bool:
        if self.memory_limit is None or module.entry is None:
            return False
        changed = False
        for _ in range(_MAX_ROUNDS):
            moment = _Moment(module.entry)
            if moment.bytes <= self.memory_limit:
                break
            choice = moment.best_choice()
            if choice is None:
                break
            _compute_again(module, module.entry, choice, moment)
            changed = True
        return changed


class _Moment:
    """The time at which most memory is in use."""

    def __init__(self, computation: Computation) -> None:
        self.order = computation.instructions
        self.position = {node: i for i, node in enumerate(self.order)}
        self.memory = Liveness(computation, self.order)
        self.readers = self.memory.readers()
        self.defined_by: dict[int, tuple[Instruction, int]] = {}
        for node in self.order:
            for leaf, buffer in enumerate(self.memory.leaves[node]):
                if buffer in self.memory.defines[node]:
                    self.defined_by[buffer] = node, leaf
        self.last = [
            max((self.position[n] for n in readers), default=-1) for readers in self.readers
        ]
        self.time, self.bytes = self._find()

    def _find(self) -> tuple[int, int]:
        sizes = self.memory.sizes
        changes = [0] * (len(self.order) + 1)
        for buffer, (node, _) in self.defined_by.items():
            changes[self.position[node]] += sizes[buffer]
            changes[max(self.last[buffer], self.position[node]) + 1] -= sizes[buffer]
        now, best = 0, (0, 0)
        for time, change in enumerate(changes):
            now += change
            if now > best[1]:
                best = (time, now)
        return best

    def best_choice(self) -> int | None:
        """The buffer whose later readers should have a second one; None if that never helps."""
        best, most = None, 0
        for buffer, (node, leaf) in self.defined_by.items():
            waits = self.position[node] < self.time < self.last[buffer]
            if waits and self.memory.sizes[buffer] > most and _is_cheap(node):
                saved = self._saved(buffer, node, leaf)
                if saved > most:
                    best, most = buffer, saved
        return best

    def later_readers(self, buffer: int) -> list[Instruction]:
        """Readers after the moment, in order."""
        found = [n for n in self.readers[buffer] if self.position[n] > self.time]
        return sorted(found, key=self.position.__getitem__)

    def _saved(self, buffer: int, node: Instruction, leaf: int) -> int:
        """Bytes less at this moment; negative if the operands are larger than the value."""
        if any(self.position[n] == self.time for n in self.readers[buffer]):
            return 0
        again = self.position[self.later_readers(buffer)[0]]
        kept_longer = 0
        for operand in _needed_operands(node, leaf):
            for read in self.memory.leaves[operand]:
                if self.last[read] < self.time:
                    kept_longer += self.memory.sizes[read]
                elif self.last[read] < again and self.memory.sizes[read] > 0:
                    return 0  # it would have to live past the moment, and perhaps make another
        return self.memory.sizes[buffer] - kept_longer


def _is_cheap(node: Instruction) -> bool:
    if node.opcode is not Opcode.FUSION or in_place_operands(node):
        return False
    assert isinstance(node.attributes, FusionAttributes)
    return node.attributes.kind in (FusionKind.LOOP, FusionKind.INPUT)


def _needed_operands(node: Instruction, leaf: int) -> list[Instruction]:
    """Operands of a fusion that one of its outputs needs."""
    root = node.called[0].root
    assert root is not None
    stack = [root.operands[leaf] if root.opcode is Opcode.TUPLE else root]
    seen = set(stack)
    while stack:
        for operand in stack.pop().operands:
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    parameters = node.called[0].parameters
    return [o for p, o in zip(parameters, node.operands) if p in seen]


def _compute_again(
    module: HloModule, computation: Computation, buffer: int, moment: _Moment
) -> None:
    """Give the later readers of a buffer a copy of the instruction that defines it."""
    node, leaf = moment.defined_by[buffer]
    later = moment.later_readers(buffer)
    again = computation.add(_only_leaf(module, node, leaf))
    new = [again]
    for reader in later:
        for number, operand in enumerate(reader.operands):
            if buffer in moment.memory.leaves[operand]:
                value = _same_view(computation, operand, node, again, new)
                computation.replace_operand(reader, number, value)
    first = moment.position[later[0]]
    order = [*moment.order[:first], *new, *moment.order[first:]]
    computation.reorder(order)
    for unused in reversed(order):
        if unused.opcode in _VIEWS and not unused.users and unused is not computation.root:
            computation.remove(unused)


def _same_view(
    computation: Computation,
    operand: Instruction,
    node: Instruction,
    again: Instruction,
    new: list[Instruction],
) -> Instruction:
    """`again`, relabelled as `operand` relabels the value of `node`."""
    if operand is node or operand.opcode is Opcode.GET_TUPLE_ELEMENT:
        return again
    inner = _same_view(computation, operand.operands[0], node, again, new)
    new.append(computation.add(clone_instruction(operand, [inner])))
    return new[-1]


def _only_leaf(module: HloModule, node: Instruction, leaf: int) -> Instruction:
    """A fusion that computes one output of `node`, from the operands which that needs."""
    fused = node.called[0].clone()
    root = fused.root
    assert root is not None
    if root.opcode is Opcode.TUPLE:
        fused.root = root.operands[leaf]
        fused.remove_if_dead(root)
    operands = list(node.operands)
    for i in reversed(range(len(operands))):
        parameter = fused.parameters[i]
        if not parameter.users and parameter is not fused.root:
            fused.remove_parameter(i)
            del operands[i]
    module.add_computation(fused)
    again = clone_instruction(node, operands, fused.root.shape)  # type: ignore[union-attr]
    again.called = [fused]
    return again
