"""Copies where values that must share memory cannot."""

from __future__ import annotations

from bisect import bisect_right

from xla_backend.hlo.attributes import GetTupleElementAttributes
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.buffer_values import Conflict, ConflictKind, conflicts_of
from xla_backend.passes.fusion_rules import memory_origin

_MAX_ROUNDS = 24


class CopyInsertion(HloPass):
    """Insert the copies without which loop carries, branch results, in-place updates and outputs
    could not have the memory they must have.

    Why: XLA's values are immutable; running them in fixed buffers needs a copy where the old value
    is still wanted. Only proven conflicts are copied, so most loops get none.
    Needs: a schedule.
    Leaves: a module for which BufferValues finds no conflict; may-alias entries that would cost a
    copy are dropped.
    """

    name = "copy-insertion"

    def run(self, module: HloModule) -> bool:
        changed = False
        for _ in range(_MAX_ROUNDS):
            conflicts = conflicts_of(module)
            if not conflicts:
                return changed
            changed = True
            donations = {c.leaf for c in conflicts if c.kind is ConflictKind.DONATION}
            if donations:
                _drop_aliases(module, donations)
            else:
                _Editor(module).resolve(conflicts)
        raise HloError(f"copy insertion does not settle in module {module.name!r}: {conflicts[0]}")


def _drop_aliases(module: HloModule, outputs: set[int]) -> None:
    assert module.entry is not None and module.entry.root is not None
    shape = module.entry.root.shape
    module.aliases = tuple(
        a for a in module.aliases if shape.leaf_number(a.output_index) not in outputs
    )


class _Editor:
    """Adds copies to scheduled computations, at their place in the schedule."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.new_computations = False
        # New instructions by the instruction they precede; None: before the root's tuple, at the
        # end.
        self.insertions: dict[Computation, dict[Instruction | None, list[Instruction]]] = {}

    def resolve(self, conflicts: list[Conflict]) -> None:
        assert self.module.entry is not None
        roots: dict[Computation, list[int]] = {}
        operands: dict[tuple[Instruction, int], list[int]] = {}
        for conflict in conflicts:
            node = conflict.instruction
            if conflict.kind is ConflictKind.OUTPUT:
                roots.setdefault(self.module.entry, []).append(conflict.leaf)
                continue
            assert node is not None
            if conflict.kind is ConflictKind.WHILE_INIT:
                operands.setdefault((node, 0), []).append(conflict.leaf)
            elif conflict.kind is ConflictKind.IN_PLACE:
                operands.setdefault((node, conflict.leaf), []).append(0)
            elif conflict.kind is ConflictKind.WHILE_BODY:
                roots.setdefault(node.called[1], []).append(conflict.leaf)
            else:
                roots.setdefault(node.called[conflict.branch], []).append(conflict.leaf)
        for (node, number), leaves in operands.items():
            computation = node.parent
            assert computation is not None
            new = self._with_copies(computation, node.operands[number], set(leaves), node)
            computation.replace_operand(node, number, new)
        for computation, leaves in roots.items():
            assert computation.root is not None
            new = self._with_copies(computation, computation.root, set(leaves), None)
            old = computation.root
            computation.root = new
            if old.opcode is Opcode.TUPLE:
                computation.remove_if_dead(old)
        for computation, insertions in self.insertions.items():
            _reorder(computation, insertions)
        if self.new_computations:  # callees before callers
            self.module.remove_unreachable()

    def _add(
        self, computation: Computation, node: Instruction, before: Instruction | None
    ) -> Instruction:
        computation.add(node)
        self.insertions.setdefault(computation, {}).setdefault(before, []).append(node)
        return node

    def _with_copies(
        self,
        computation: Computation,
        value: Instruction,
        leaves: set[int],
        before: Instruction | None,
    ) -> Instruction:
        """`value` with copies of the numbered leaves in place of the originals."""
        shape = value.shape
        if not shape.is_tuple:
            if value.opcode is Opcode.FUSION and not value.operands:
                # A fill or an iota: writing it again is cheaper than reading it.
                again = clone_instruction(value, [])
                again.called = [self.module.add_computation(value.called[0].clone())]
                self.new_computations = True
                return self._add(computation, again, before)
            return self._add(
                computation,
                Instruction(Opcode.COPY, shape, (value,), metadata=value.metadata),
                before,
            )
        copied: dict[int, set[int]] = {}
        for leaf in leaves:
            i = bisect_right(shape.leaf_starts, leaf) - 1
            copied.setdefault(i, set()).add(leaf - shape.leaf_starts[i])
        elements: list[Instruction] = []
        for i, member in enumerate(shape.tuple_shapes):
            if value.opcode is Opcode.TUPLE:
                element = value.operands[i]
            else:
                element = self._add(
                    computation,
                    Instruction(
                        Opcode.GET_TUPLE_ELEMENT,
                        member,
                        (value,),
                        GetTupleElementAttributes(i),
                        metadata=value.metadata,
                    ),
                    before,
                )
            elements.append(element)
        # Old carries first: each copy of one frees the place that a new value is copied to.
        for i in sorted(copied, key=lambda i: (not _is_old_carry(elements[i]), i)):
            elements[i] = self._with_copies(computation, elements[i], copied[i], before)
        new_shape = Shape.tuple([e.shape for e in elements])
        return self._add(
            computation,
            Instruction(Opcode.TUPLE, new_shape, elements, metadata=value.metadata),
            before,
        )


def _is_old_carry(node: Instruction) -> bool:
    node = memory_origin(node)
    return node.opcode is Opcode.GET_TUPLE_ELEMENT and (node.operands[0].opcode is Opcode.PARAMETER)


def _reorder(
    computation: Computation, insertions: dict[Instruction | None, list[Instruction]]
) -> None:
    added = {node for nodes in insertions.values() for node in nodes}
    order: list[Instruction] = []
    for node in computation.instructions:
        if node in added:
            continue
        order.extend(insertions.get(node, ()))
        order.append(node)
    order.extend(insertions.get(None, ()))
    # Tuples and get-tuple-elements left without users by the new ones.
    computation.reorder(order)
    for node in reversed(order):
        if (
            node.opcode in (Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.FUSION)
            and not node.users
            and node is not computation.root
        ):
            computation.remove(node)
