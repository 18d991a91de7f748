"""Loops over a few numbers run several iterations at a time."""

from __future__ import annotations

from xla_backend.hlo.cost_analysis import known_trip_count
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.fusion_rules import is_fusible
from xla_backend.passes.while_iterations import iterate
from xla_backend.passes.while_trip_count import set_trip_count

_FACTORS = (4, 2)
# Instructions of a body that is worth having several times, and iterations that pay for it.
_MAX_BODY = 32
_FEWEST_TRIPS = 16


class WhileUnrolling(HloPass):
    """A loop whose carries are numbers, of which a few are computed: four iterations become one, or
    two where four do not divide how many there are.

    Why: carries are in memory, and the next iteration waits until what was stored can be loaded,
    as long as for the arithmetic. Iterations in one body are one fusion, in registers.
    Needs: trip counts annotated. Before fusion.
    Leaves: such loops with a quarter or half of their iterations; others as they were.
    """

    name = "while-unrolling"
    opcodes = frozenset({Opcode.WHILE})

    def run(self, module: HloModule) -> bool:
        changed = False
        for computation in list(module.computations):
            for loop in computation.instructions:
                factor = _factor(loop)
                if factor == 1 or not self.may_rewrite():
                    continue
                trips = known_trip_count(loop)
                assert trips is not None
                loop.called[1] = _repeated(module, loop.called[1], factor)
                set_trip_count(loop, trips // factor)
                self.rewritten()
                changed = True
        if changed:
            module.remove_unreachable()
        return changed


def _factor(loop: Instruction) -> int:
    """How many iterations become one."""
    if loop.opcode is not Opcode.WHILE:
        return 1
    trips, body = known_trip_count(loop), loop.called[1]
    if trips is None or trips < _FEWEST_TRIPS or len(body) > _MAX_BODY:
        return 1
    if not loop.shape.is_tuple or not all(_is_number(s) for s in loop.shape.tuple_shapes):
        return 1
    parameter, root = body.parameters[0], body.root
    if root is None or root.opcode is not Opcode.TUPLE:
        return 1
    for node in body.instructions:
        if node is parameter or node is root:
            continue
        carry = node.opcode is Opcode.GET_TUPLE_ELEMENT and node.operands[0] is parameter
        if not carry and not (is_fusible(node) and _is_number(node.shape)):
            return 1
    return next((f for f in _FACTORS if trips % f == 0), 1)


def _is_number(shape: Shape) -> bool:
    return shape.is_array and not shape.dimensions


def _repeated(module: HloModule, body: Computation, times: int) -> Computation:
    """A body that does the work of so many iterations."""
    new = Computation(body.name)
    old_parameter, root = body.parameters[0], body.root
    assert root is not None
    parameter = new.add(clone_instruction(old_parameter, []))
    carries: dict[int, Instruction] = {}
    for node in old_parameter.users:
        if node.tuple_index not in carries:
            carries[node.tuple_index] = new.add(clone_instruction(node, [parameter]))
    for _ in range(times):
        carries = dict(enumerate(iterate(module, new, body, carries)))
    new.root = new.add(clone_instruction(root, [carries[i] for i in range(len(carries))]))
    return module.add_computation(new)
