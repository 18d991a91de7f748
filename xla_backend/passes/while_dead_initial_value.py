"""Stacked outputs of a scan are not filled before the loop that writes every row of them."""

from __future__ import annotations

from xla_backend.hlo.attributes import ALLOCATE_BUFFER, CustomCallAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.while_stacks import row_number, row_of_window, visits_every_row
from xla_backend.passes.while_trip_count import InductionVariable, induction_variable

# Smaller arrays are filled in less time than it takes to look.
_MIN_BYTES = 1024
_FILLS = frozenset({Opcode.BROADCAST, Opcode.CONSTANT, Opcode.IOTA})


class WhileDeadInitialValue(HloPass):
    """The initial value of a carry of which the loop reads nothing before it has written all of it
    becomes memory as it is: custom-call "AllocateBuffer".

    Why: a scan stacks its outputs into an array of zeros; the zeros cost as much as the outputs.
    Needs: the comparison of the loop in sight (before fusion), unused carries dropped.
    Leaves: no fill in front of a loop that overwrites it row by row.
    """

    name = "while-dead-initial-value"
    opcodes = frozenset({Opcode.WHILE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for loop in computation.instructions:
            if loop.opcode is not Opcode.WHILE or loop.operands[0].opcode is not Opcode.TUPLE:
                continue
            variable = induction_variable(loop)
            if variable is None:
                continue
            initial = loop.operands[0]
            for index, value in enumerate(initial.operands):
                if value.opcode not in _FILLS or value.shape.byte_size < _MIN_BYTES:
                    continue
                if not _overwrites(loop, index, variable):
                    continue
                memory = Instruction(
                    Opcode.CUSTOM_CALL,
                    value.shape,
                    (),
                    CustomCallAttributes(ALLOCATE_BUFFER),
                    metadata=value.metadata,
                    name="allocate",
                )
                computation.replace_operand(initial, index, computation.add(memory))
                computation.remove_if_dead(value)
                changed = True
        return changed


def _overwrites(loop: Instruction, index: int, variable: InductionVariable) -> bool:
    condition, body = loop.called
    root, parameter = body.root, body.parameters[0]
    assert root is not None and root.opcode is Opcode.TUPLE
    users = (*condition.parameters[0].users, *parameter.users)
    if any(u.opcode is not Opcode.GET_TUPLE_ELEMENT for u in users):
        return False
    if any(u.tuple_index == index for u in condition.parameters[0].users):
        return False
    update = root.operands[index]
    if update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE or list(update.users) != [root]:
        return False
    if sum(o is update for o in root.operands) != 1:
        return False
    old = update.operands[0]
    olds = [u for u in parameter.users if u.tuple_index == index]
    if olds != [old] or list(old.users) != [update] or old in update.operands[1:]:
        return False
    number = row_of_window(update)
    if number is None:
        return False
    row = row_number(number, parameter, variable.index)
    return row is not None and visits_every_row(row, variable, old.shape.dimensions[0])
