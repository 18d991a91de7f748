"""How often a while runs, where that can be seen."""

from __future__ import annotations

import json

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.cost_analysis import known_trip_count
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.patterns import splat_value
from xla_backend.process.light_dataclasses import dataclass

_FLIPPED = {
    ComparisonDirection.LT: ComparisonDirection.GT,
    ComparisonDirection.GT: ComparisonDirection.LT,
    ComparisonDirection.LE: ComparisonDirection.GE,
    ComparisonDirection.GE: ComparisonDirection.LE,
}


@dataclass(frozen=True, slots=True)
class InductionVariable:
    """Carry `index` counts from `start` by `step`; the loop runs `trips` times."""

    index: int
    start: int
    step: int
    trips: int


def induction_variable(loop: Instruction) -> InductionVariable | None:
    """For loops of the form `while i < n: i += step` with constant start, n and step."""
    condition, body = loop.called
    test = condition.root
    init = loop.operands[0]
    if test is None or test.opcode is not Opcode.COMPARE or init.opcode is not Opcode.TUPLE:
        return None
    assert isinstance(test.attributes, CompareAttributes)
    direction = test.attributes.direction
    counter, bound = test.operands
    if counter.opcode is Opcode.CONSTANT and direction in _FLIPPED:
        counter, bound, direction = bound, counter, _FLIPPED[direction]
    if counter.opcode is not Opcode.GET_TUPLE_ELEMENT or not counter.shape.element_type.is_integral:
        return None
    if counter.operands[0] is not condition.parameters[0]:
        return None
    index = counter.tuple_index
    limit, start = splat_value(bound), splat_value(init.operands[index])
    step = _step(loop, index)
    if limit is None or start is None or step is None or body.root is None:
        return None
    trips = _count(int(start), int(limit), step, direction)
    if trips is None:
        return None
    # The counter must not wrap on the way.
    bits = counter.shape.element_type.bits
    signed = counter.shape.element_type.is_signed_integral
    top = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    bottom = -(1 << (bits - 1)) if signed else 0
    if not bottom <= int(start) + trips * step <= top:
        return None
    return InductionVariable(index, int(start), step, trips)


def trip_count(loop: Instruction) -> int | None:
    """Number of iterations, or None where it is not known."""
    found = induction_variable(loop)
    return None if found is None else found.trips


def _step(loop: Instruction, index: int) -> int | None:
    body = loop.called[1]
    root = body.root
    if root is None or root.opcode is not Opcode.TUPLE:
        return None
    following = root.operands[index]
    if following.opcode is not Opcode.ADD:
        return None
    for old, step in (following.operands, following.operands[::-1]):
        if (
            old.opcode is Opcode.GET_TUPLE_ELEMENT
            and old.operands[0] is body.parameters[0]
            and old.tuple_index == index
        ):
            value = splat_value(step)
            return None if value is None else int(value)
    return None


def _count(start: int, limit: int, step: int, direction: ComparisonDirection) -> int | None:
    if direction is ComparisonDirection.LE:
        limit, direction = limit + 1, ComparisonDirection.LT
    elif direction is ComparisonDirection.GE:
        limit, direction = limit - 1, ComparisonDirection.GT
    if direction is ComparisonDirection.LT:
        if start >= limit:
            return 0
        return -(-(limit - start) // step) if step > 0 else None
    if direction is ComparisonDirection.GT:
        if start <= limit:
            return 0
        return -(-(start - limit) // -step) if step < 0 else None
    return None


class WhileTripCountAnnotator(HloPass):
    """backend_config={"known_trip_count":{"n":"100"}} on each while whose count can be seen.

    Why: fusion hides the comparison that tells the count; unrolling, the cost analysis and code
    generation want it afterwards.
    Needs: constants folded.  Leaves: no while of the form `while i < n: i += step` without a count.
    """

    name = "while-trip-count-annotator"
    opcodes = frozenset({Opcode.WHILE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.instructions:
            if node.opcode is Opcode.WHILE and known_trip_count(node) is None:
                trips = trip_count(node)
                if trips is not None:
                    set_trip_count(node, trips)
                    changed = True
        return changed


def set_trip_count(loop: Instruction, trips: int) -> None:
    """Write the count where `known_trip_count` reads it, other entries of the config kept."""
    annotations = dict(loop.annotations or {})
    text = annotations.get("backend_config") or "{}"
    config = json.loads(text) if text.startswith("{") else {}
    config["known_trip_count"] = {"n": str(trips)}
    annotations["backend_config"] = json.dumps(config, separators=(",", ":"))
    loop.annotations = annotations
