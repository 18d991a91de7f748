"""How often the instructions of a module are executed in one run of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xla_backend.hlo.cost_analysis import CostAnalysis, known_trip_count
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode

_CALLS = frozenset({Opcode.CALL, Opcode.ASYNC_START})


class Execution(NamedTuple):
    """An instruction that is no control flow, and how often it is executed: as if loops had one
    round of which it is not known how many they have."""

    node: Instruction
    times: int


def executions(module: HloModule) -> Iterator[Execution]:
    """Of all instructions that a run executes, in order: those of loops once, those of calls at
    each of these. Of a conditional they are those of the branch that moves most bytes."""
    assert module.entry is not None
    return _of_computation(module.entry, 1, CostAnalysis())


def _of_computation(
    computation: Computation, times: int, costs: CostAnalysis
) -> Iterator[Execution]:
    for node in computation.post_order():
        if node.opcode is Opcode.WHILE:
            rounds = known_trip_count(node)
            for called in node.called:
                yield from _of_computation(called, times * (1 if rounds is None else rounds), costs)
        elif node.opcode is Opcode.CONDITIONAL:
            dearest = max(node.called, key=lambda c: costs.computation(c).bytes_accessed)
            yield from _of_computation(dearest, times, costs)
        elif node.opcode in _CALLS:
            yield from _of_computation(node.called[0], times, costs)
        else:
            yield Execution(node, times)


def open_loops(module: HloModule) -> list[Instruction]:
    """Loops whose number of rounds is not known."""
    return [
        node
        for computation in module.post_order()
        for node in computation
        if node.opcode is Opcode.WHILE and known_trip_count(node) is None
    ]
