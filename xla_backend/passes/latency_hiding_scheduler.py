"""Collectives as late as what needs them allows, so that participants who come to them early have
other work until the others come."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.dce import has_side_effect
from xla_backend.passes.fusion import control_flow_computations
from xla_backend.passes.fusion_rules import FREE_ALIASES
from xla_backend.passes.memory_schedule import Liveness
from xla_backend.passes.scheduler import definition

_NAMES = FREE_ALIASES | {Opcode.GET_TUPLE_ELEMENT, Opcode.TUPLE}
# How much more memory a computation may need.
_MOST_MEMORY = 1.1


class LatencyHidingScheduler(HloPass):
    """Move each collective down, to the first instruction that needs its results.

    Why: a participant comes to a collective when its operands are there, and waits for the others
    when the collective stands in the order; what is in between, it does meanwhile.
    Needs: a schedule.  Leaves: the order of collectives among each other and with other effects,
    which must be the same for all participants; control predecessors before what names them; peak
    memory at most a tenth higher.
    """

    name = "latency-hiding-scheduler"

    def run(self, module: HloModule) -> bool:
        changed = False
        for computation in control_flow_computations(module):
            order = computation.instructions
            later = _delayed(computation)
            if later != order and _fits(computation, order, later):
                computation.reorder(later)
                changed = True
        return changed


def _fits(
    computation: Computation, order: Sequence[Instruction], later: Sequence[Instruction]
) -> bool:
    memory = Liveness(computation, list(order))
    return memory.peak(later) <= _MOST_MEMORY * memory.peak(order)


def _delayed(computation: Computation) -> list[Instruction]:
    order: list[Instruction] = []
    waiting: list[Instruction] = []  # collectives, and what only names their results
    for node in computation.instructions:
        if node.opcode in COLLECTIVES:
            if _needs(node, waiting):
                _release(waiting, order)
            waiting.append(node)
            continue
        if node.opcode in _NAMES and _needs(node, waiting):
            waiting.append(node)
            continue
        if waiting and (_is_fixed(node) or _needs(node, waiting) or _overwrites(node, waiting)):
            _release_until(node, waiting, order)
        order.append(node)
    _release(waiting, order)
    return order


def _release(waiting: list[Instruction], order: list[Instruction]) -> None:
    order += waiting
    waiting.clear()


def _release_until(node: Instruction, waiting: list[Instruction], order: list[Instruction]) -> None:
    """What a node needs of what waits, and all that came before it; everything before an
    instruction that stays where it is."""
    if _is_fixed(node):
        _release(waiting, order)
        return
    while waiting and (_needs(node, waiting) or _overwrites(node, waiting)):
        order.append(waiting.pop(0))


def _needs(node: Instruction, waiting: Sequence[Instruction]) -> bool:
    """Whether the node uses, or is told to follow, something that waits."""
    if any(operand in waiting for operand in node.operands):
        return True
    return bool(node.annotations) and any(p in waiting for p in node.control_predecessors)


def _overwrites(node: Instruction, waiting: Sequence[Instruction]) -> bool:
    """Whether the node's results take the memory of what a collective still has to read."""
    written = {definition(node.operands[number]) for number, _ in in_place_operands(node)}
    if not written:
        return False
    return any(definition(operand) in written for each in waiting for operand in each.operands)


def _is_fixed(node: Instruction) -> bool:
    """Control flow, whose computations may have collectives, and what has effects."""
    return node.opcode in _CONTROL_FLOW or has_side_effect(node)


_CONTROL_FLOW = frozenset({Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL})
