"""What is known of carries that a loop fills row by row: the stacked outputs of a scan."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.patterns import splat_value
from xla_backend.passes.while_trip_count import InductionVariable
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """The row number sign * counter + offset; sign is 1 or -1."""

    sign: int
    offset: int


def row_number(node: Instruction, parameter: Instruction, counter: int) -> Row | None:
    """A scalar of a loop body as a function of the counter carry, if it is of this form."""
    if node.opcode is Opcode.GET_TUPLE_ELEMENT:
        known = node.operands[0] is parameter and node.tuple_index == counter
        return Row(1, 0) if known else None
    if node.opcode not in (Opcode.ADD, Opcode.SUBTRACT) or node.shape.dimensions:
        return None
    left, right = node.operands
    constant, variable = splat_value(right), left
    if constant is None:
        constant, variable = splat_value(left), right
    if constant is None:
        return None
    inner = row_number(variable, parameter, counter)
    if inner is None:
        return None
    if node.opcode is Opcode.ADD:
        return Row(inner.sign, inner.offset + int(constant))
    if variable is left:
        return Row(inner.sign, inner.offset - int(constant))
    return Row(-inner.sign, int(constant) - inner.offset)


def visits_every_row(row: Row, variable: InductionVariable, rows: int) -> bool:
    """Whether the loop's iterations reach each of the rows 0 .. rows - 1 exactly once."""
    if abs(variable.step) != 1 or variable.trips != rows:
        return False
    first = row.sign * variable.start + row.offset
    last = first + row.sign * variable.step * (rows - 1)
    return min(first, last) == 0


def row_of_window(node: Instruction) -> Instruction | None:
    """The row number of a dynamic-slice or dynamic-update-slice of one whole row, or None."""
    if node.opcode is Opcode.DYNAMIC_SLICE:
        window, starts = node.shape, node.operands[1:]
    else:
        window, starts = node.operands[1].shape, node.operands[2:]
    whole = node.operands[0].shape.dimensions
    if not whole or window.dimensions != (1, *whole[1:]):
        return None
    # A window as large as the array starts at 0 whatever the index says.
    return starts[0]
