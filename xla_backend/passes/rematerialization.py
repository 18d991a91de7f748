"""Rematerialization: compute cheap values again instead of keeping them in memory."""

from __future__ import annotations

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.instruction import CONTROL_FLOW, Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.fusion_rules import FREE_ALIASES
from xla_backend.passes.memory_schedule import Liveness

# Each round walks over one computation once.
_MAX_ROUNDS = 400
# What is not needed to fit must be worth it: this part of the peak.
_WORTH_IT = 1 / 32
_VIEWS = FREE_ALIASES | {Opcode.GET_TUPLE_ELEMENT}


class Rematerialization(HloPass):
    """Compute loop and reduction fusions a second time where that lets a program fit.

    Why: a backward pass needs activations that are cheap to compute from what is in memory anyway;
    kept, they fill memory from the forward pass on.
    Needs: a schedule. `memory_limit`: bytes that arguments, results and temporaries may take
    together, None for no limit; `lowest`: go on below it, as long as each value computed again
    lowers the peak by a thirty-second.
    Leaves: a schedule with a lower peak, below the limit if cheap values are enough for that.
    Where the peak is inside of a loop or a branch, values of the caller are tried first (they are
    computed again once), then those of the body. Products, convolutions, loops and in-place
    updates are never run twice.
    """

    name = "rematerialization"

    def __init__(self, memory_limit: int | None = None, lowest: bool = False) -> None:
        self.memory_limit = memory_limit
        self.lowest = lowest

    def run(self, module: HloModule) -> bool:
        if module.entry is None or (self.memory_limit is None and not self.lowest):
            return False
        peaks = _Peaks(module)
        changed = False
        if self.memory_limit is not None:
            changed = peaks.lower(module.entry, self.memory_limit - fixed_bytes(module), 1)
        if self.lowest:
            least = max(1, int(peaks.of(module.entry) * _WORTH_IT))
            changed |= peaks.lower(module.entry, 0, least)
        return changed


def fixed_bytes(module: HloModule) -> int:
    """Bytes of the arguments and results of a module; memory that is both counts once."""
    assert module.entry is not None and module.entry.root is not None
    results = module.entry.root.shape
    taken_over = {results.leaf_number(alias.output_index) for alias in module.aliases}
    return sum(p.shape.byte_size for p in module.entry.parameters) + sum(
        leaf.byte_size for n, leaf in enumerate(results.flatten()) if n not in taken_over
    )


class _Peaks:
    """The most memory that computations use at once, those that they call included."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._known: dict[Computation, int] = {}

    def of(self, computation: Computation) -> int:
        if computation not in self._known:
            self._known[computation] = self._moment(computation).bytes
        return self._known[computation]

    def _moment(self, computation: Computation) -> _Moment:
        inside = {
            node: max(map(self.of, node.called))
            for node in computation.instructions
            if node.opcode in CONTROL_FLOW
        }
        return _Moment(computation, inside)

    def lower(self, computation: Computation, goal: int, least: int) -> bool:
        """Bring the peak below `goal`, by values that save `least` bytes; True after a change."""
        changed = False
        for _ in range(_MAX_ROUNDS):
            moment = self._moment(computation)
            if moment.bytes <= goal:
                break
            choice = moment.best_choice(least)
            if choice:
                _compute_again(self._module, computation, choice, moment)
            else:
                callee = max(moment.now.called, key=self.of, default=None)
                if callee is None or moment.now.opcode not in CONTROL_FLOW:
                    break
                if not self.lower(callee, goal - moment.bytes + self.of(callee), least):
                    break
            changed = True
        self._known.pop(computation, None)
        return changed


class _Moment:
    """The time at which most memory is in use. `inside`: what called computations use."""

    def __init__(self, computation: Computation, inside: dict[Instruction, int]) -> None:
        self.order = computation.instructions
        self.inside = inside
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
        self.now = self.order[self.time]

    def _find(self) -> tuple[int, int]:
        sizes = self.memory.sizes
        changes = [0] * (len(self.order) + 1)
        for buffer, (node, _) in self.defined_by.items():
            changes[self.position[node]] += sizes[buffer]
            changes[max(self.last[buffer], self.position[node]) + 1] -= sizes[buffer]
        now, best = 0, (0, 0)
        for time, node in enumerate(self.order):
            now += changes[time]
            used = now + self.inside.get(node, 0)
            if used > best[1]:
                best = (time, used)
        return best

    def best_choice(self, least: int) -> list[int]:
        """Buffers whose later readers should have second ones, which all need the same values kept
        for longer; empty if that never saves `least` bytes."""
        groups: dict[frozenset[int], list[int]] = {}
        for buffer, (node, leaf) in self.defined_by.items():
            waits = self.position[node] < self.time < self.last[buffer]
            if waits and self.memory.sizes[buffer] and _is_cheap(node):
                kept = self._kept_longer(buffer, node, leaf)
                if kept is not None:
                    groups.setdefault(kept, []).append(buffer)
        best: list[int] = []
        most = least - 1
        for kept, buffers in groups.items():
            alone = self._independent(buffers)
            sizes = self.memory.sizes
            saved = sum(sizes[b] for b in alone) - sum(sizes[b] for b in kept)
            if saved > most:
                best, most = alone, saved
        return best

    def _independent(self, buffers: list[int]) -> list[int]:
        """Those that are not computed from others among them."""
        together = set(buffers)
        return [b for b in buffers if not self.needed(*self.defined_by[b]) & together]

    def needed(self, node: Instruction, leaf: int) -> set[int]:
        """The buffers that an output of an instruction is computed from."""
        return {b for o in _needed_operands(node, leaf) for b in self.memory.leaves[o]}

    def later_readers(self, buffer: int) -> list[Instruction]:
        """Readers after the moment, in order."""
        found = [n for n in self.readers[buffer] if self.position[n] > self.time]
        return sorted(found, key=self.position.__getitem__)

    def _kept_longer(self, buffer: int, node: Instruction, leaf: int) -> frozenset[int] | None:
        """What else would be in memory at this moment, if the buffer were computed again after it;
        None if it cannot be, or should not."""
        if any(self.position[n] == self.time for n in self.readers[buffer]):
            return None
        again = self.position[self.later_readers(buffer)[0]]
        kept = set()
        for read in self.needed(node, leaf):
            if self.last[read] < self.time:
                kept.add(read)
            elif self.last[read] < again and self.memory.sizes[read] > 0:
                return None  # it would have to live past the moment, and perhaps make another
        return frozenset(kept)


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
    module: HloModule, computation: Computation, buffers: list[int], moment: _Moment
) -> None:
    """Give the later readers of each buffer a copy of the instruction that defines it."""
    before: dict[Instruction, list[Instruction]] = {}
    for buffer in buffers:
        node, leaf = moment.defined_by[buffer]
        later = moment.later_readers(buffer)
        again = computation.add(_only_leaf(module, node, leaf))
        new = [again]
        for reader in later:
            for number, operand in enumerate(reader.operands):
                if buffer in moment.memory.leaves[operand]:
                    value = _same_view(computation, operand, node, again, new)
                    computation.replace_operand(reader, number, value)
        before.setdefault(later[0], []).extend(new)
    order = [n for node in moment.order for n in (*before.get(node, ()), node)]
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
