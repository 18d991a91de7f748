"""Collectives: each participant waits for the others of its group, and gets its results."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.evaluator.participants import Participant
from xla_backend.hlo.evaluator.reductions import combine
from xla_backend.hlo.evaluator.scalar_computations import ScalarRunner
from xla_backend.hlo.evaluator.values import unflatten_value, zeros_of
from xla_backend.hlo.exchanges import Members, exchange_of
from xla_backend.hlo.instruction import Instruction

Value = Any


def collective(
    node: Instruction, operands: list[Value], me: Participant, run: ScalarRunner
) -> Value:
    """The result of a collective; also of all-reduce-start, which returns no more than that."""
    return unflatten_value(node.shape, _exchanged(node, operands, me, run))


def collective_start(
    node: Instruction, operands: list[Value], me: Participant, run: ScalarRunner
) -> Value:
    """What the other -start halves return: operands, result, and contexts, which are zero."""
    given, result, *contexts = node.shape.tuple_shapes
    received = unflatten_value(result, _exchanged(node, operands, me, run))
    return (unflatten_value(given, operands), received, *map(zeros_of, contexts))


def _exchanged(
    node: Instruction, operands: list[Value], me: Participant, run: ScalarRunner
) -> Value:
    exchange = exchange_of(node, me.topology)
    group = exchange.group_of(me.number, node)
    if group is None:
        return exchange.results_of_nobody(operands)

    def meaning(members: Members) -> Members:
        return exchange.results(
            group, members, lambda _, parts: combine(node.called[0], parts, run)
        )

    return me.meet(node, group, operands, meaning)
