"""Conditionals whose branch is known, or not worth a branch."""

from __future__ import annotations

from xla_backend.hlo.attributes import ComparisonDirection, ConditionalAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.passes.fusion_rules import cost_of, is_fusible
from xla_backend.passes.patterns import splat_value

# Branches up to this much work are done both: a branch would cost as much, and not fuse.
_MAX_SELECTED_BRANCHES = 4
_MAX_SELECTED_COST = 16
_MAX_SELECTED_ELEMENTS = 64


class ConditionalSimplifier(HloPass):
    """A conditional on a constant, or with one branch, is that branch inlined; branches of a few
    scalar instructions are both done, and the results selected.

    Why: static arguments and vmapped switches leave such conditionals; a scalar `cond` in a loop
    keeps everything around it from fusing.
    Needs: call graph flattened.
    Leaves: no conditional whose branch is known or whose branches are trivial.
    """

    name = "conditional-simplifier"
    opcodes = frozenset({Opcode.CONDITIONAL})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.CONDITIONAL):
            branch = _known_branch(node)
            if branch is None:
                if _worth_selecting(node):
                    _select(computation, node)
                    changed = True
                continue
            result = computation.inline(node.called[branch], [node.operands[1 + branch]])
            computation.replace_uses(node, result)
            computation.remove(node)
            changed = True
        return changed

    def run(self, module: HloModule) -> bool:
        changed = super().run(module)
        if changed:
            module.remove_unreachable()
        return changed


def _known_branch(node: Instruction) -> int | None:
    assert isinstance(node.attributes, ConditionalAttributes)
    count = len(node.called)
    if count == 1:
        return 0
    value = splat_value(node.operands[0])
    if value is None:
        return None
    if not node.attributes.is_indexed:
        return 0 if value else 1
    index = int(value)
    return index if 0 <= index < count else count - 1


def _worth_selecting(node: Instruction) -> bool:
    if len(node.called) > _MAX_SELECTED_BRANCHES:
        return False
    leaves = node.shape.tuple_shapes if node.shape.is_tuple else (node.shape,)
    if not all(s.is_array and s.num_elements <= _MAX_SELECTED_ELEMENTS for s in leaves):
        return False
    cost = 0
    for branch in node.called:
        for inner in branch.instructions:
            if inner.opcode.is_free:
                continue
            if not is_fusible(inner) or inner.shape.num_elements > _MAX_SELECTED_ELEMENTS:
                return False
            cost += max(1, cost_of(inner))
    return cost <= _MAX_SELECTED_COST


def _select(computation: Computation, node: Instruction) -> None:
    """Replace the conditional by selections between the results of all its branches."""
    results = [
        computation.inline(branch, [operand])
        for branch, operand in zip(node.called, node.operands[1:])
    ]
    b = Emit(node)
    if node.shape.is_tuple:
        elements = [
            _choose(b, node, [b.get_tuple_element(result, i) for result in results])
            for i in range(len(node.shape.tuple_shapes))
        ]
        chosen = b.tuple(elements)
    else:
        chosen = _choose(b, node, results)
    computation.replace_uses(node, chosen)
    computation.remove(node)


def _choose(b: Emit, node: Instruction, results: list[Instruction]) -> Instruction:
    assert isinstance(node.attributes, ConditionalAttributes)
    selector = node.operands[0]
    chosen = results[-1]  # also where the number is out of range
    if not node.attributes.is_indexed:
        return _pick(b, selector, results[0], chosen)
    for number, result in reversed(list(enumerate(results[:-1]))):
        here = b.compare(selector, b.splat(selector.shape, number), ComparisonDirection.EQ)
        chosen = _pick(b, here, result, chosen)
    return chosen


def _pick(b: Emit, condition: Instruction, yes: Instruction, no: Instruction) -> Instruction:
    if yes.shape.dimensions:
        condition = b.broadcast(condition, yes.shape.dimensions, ())
    return b.add(Opcode.SELECT, (condition, yes, no), shape=yes.shape)
