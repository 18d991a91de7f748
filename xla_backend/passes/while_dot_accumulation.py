"""Matrix products summed up over the iterations of a loop become one product after it."""

from __future__ import annotations

from xla_backend.hlo.attributes import DotAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.passes.fusion_rules import memory_origin
from xla_backend.passes.while_carries import add_carries, is_plain
from xla_backend.passes.while_stacks import (
    Row,
    row_number,
    row_of_window,
    visits_every_row,
)
from xla_backend.passes.while_trip_count import InductionVariable, induction_variable
from xla_backend.process.light_dataclasses import dataclass

_MIN_TRIPS = 4
_MIN_SUM_BYTES = 128 << 10  # smaller sums stay close to the core
_MAX_STACK_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class _Rows:
    """An operand of the product: row `row` (computed by `number`) of carry `carry`."""

    carry: int
    row: Row
    number: Instruction


class WhileDotAccumulation(HloPass):
    """sum += dot(a_i, b_i) in a loop -> sum += dot(a, b) after it, over the stacked a_i and b_i.

    Why: the gradient of a weight used in a scan. A product with a short contraction writes, and the
    sum reads and writes, an array much larger than a_i and b_i; one long product is also faster.
    The terms are added in another order, as a library call may add those of one product.
    Needs: transposes folded into dots, loop counts in sight.
    Leaves: no such sum whose operands are smaller than the product.
    """

    name = "while-dot-accumulation"
    opcodes = frozenset({Opcode.WHILE})
    module_opcodes = frozenset({Opcode.DOT})

    def __init__(self, min_sum_bytes: int = _MIN_SUM_BYTES) -> None:
        self.min_sum_bytes = min_sum_bytes

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for loop in computation.instructions:
            if loop.opcode is not Opcode.WHILE or not is_plain(loop):
                continue
            variable = induction_variable(loop)
            if variable is None or abs(variable.step) != 1 or variable.trips < _MIN_TRIPS:
                continue
            for index in range(len(loop.shape.tuple_shapes)):
                dot = _accumulated_dot(loop, index)
                if dot is not None and dot.shape.byte_size >= self.min_sum_bytes:
                    changed |= _move_out(loop, index, dot, variable)
        return changed


def _accumulated_dot(loop: Instruction, index: int) -> Instruction | None:
    """The product that the body adds to carry `index`, which serves nothing else."""
    condition, body = loop.called
    root, parameter = body.root, body.parameters[0]
    assert root is not None
    total = root.operands[index]
    if total.opcode is not Opcode.ADD or list(total.users) != [root]:
        return None
    if sum(o is total for o in root.operands) != 1:
        return None
    if total.shape.element_type not in (PrimitiveType.F32, PrimitiveType.F64):
        return None
    if any(u.tuple_index == index for u in condition.parameters[0].users):
        return None
    old, dot = total.operands
    if dot.opcode is not Opcode.DOT:
        old, dot = dot, old
    if dot.opcode is not Opcode.DOT or list(dot.users) != [total] or list(old.users) != [total]:
        return None
    if [u for u in parameter.users if u.tuple_index == index] != [old]:
        return None
    assert isinstance(dot.attributes, DotAttributes)
    return None if dot.attributes.lhs_batch else dot


def _rows(operand: Instruction, loop: Instruction, variable: InductionVariable) -> _Rows | None:
    """The carry of which `operand` is another row in each iteration, all rows being visited."""
    body = loop.called[1]
    parameter, root = body.parameters[0], body.root
    assert root is not None
    window = memory_origin(operand)
    if window.opcode is not Opcode.DYNAMIC_SLICE:
        return None
    source = window.operands[0]
    if source.opcode is not Opcode.GET_TUPLE_ELEMENT or source.operands[0] is not parameter:
        return None
    carry = source.tuple_index
    if root.operands[carry] is not source:
        return None
    if window.shape.dimensions != (1, *operand.shape.dimensions):
        return None
    number = row_of_window(window)
    if number is None:
        return None
    row = row_number(number, parameter, variable.index)
    if row is None or not visits_every_row(row, variable, source.shape.dimensions[0]):
        return None
    return _Rows(carry, row, number)


def _move_out(loop: Instruction, index: int, dot: Instruction, variable: InductionVariable) -> bool:
    body = loop.called[1]
    found = [_rows(operand, loop, variable) for operand in dot.operands]
    known = [rows for rows in found if rows is not None]
    if len(known) == 2 and known[0].row != known[1].row:
        return False
    new_bytes = sum(o.shape.byte_size for o, rows in zip(dot.operands, found) if rows is None)
    if new_bytes >= dot.shape.byte_size or new_bytes * variable.trips > _MAX_STACK_BYTES:
        return False
    if known:
        number = known[0].number
    elif variable.start == 0 and variable.step == 1:
        counters = [u for u in body.parameters[0].users if u.tuple_index == variable.index]
        number = counters[0]
    else:
        return False
    computation = loop.parent
    assert computation is not None and body.root is not None
    after = Emit(loop)
    stacks: list[Instruction] = []
    for operand, rows in zip(dot.operands, found):
        if rows is not None:
            stacks.append(loop.operands[0].operands[rows.carry])
        else:
            carry = _stack(loop, operand, number, variable.trips)
            stacks.append(after.get_tuple_element(loop, carry))
    a = dot.attributes
    assert isinstance(a, DotAttributes)
    numbers = DotAttributes(
        (0, *(d + 1 for d in a.lhs_contracting)),
        (0, *(d + 1 for d in a.rhs_contracting)),
        (),
        (),
        a.precision,
        a.algorithm,
    )
    product = after.add(Opcode.DOT, stacks, numbers, shape=dot.shape)
    product.metadata = dot.metadata
    initial = loop.operands[0].operands[index]
    total = after.binary(Opcode.ADD, initial, product)
    for user in list(loop.users):
        if user.tuple_index == index:
            computation.replace_uses(user, total)
            computation.remove(user)
    # The carry is handed on; the loop simplifier drops it.
    sum_ = body.root.operands[index]
    (old,) = (o for o in sum_.operands if o is not dot)
    body.replace_operand(body.root, index, old)
    body.remove_if_dead(sum_)
    return True


def _stack(loop: Instruction, operand: Instruction, number: Instruction, trips: int) -> int:
    """Add a carry in which the loop keeps each iteration's `operand`; the carry's number."""
    body = loop.called[1]
    outside, inside = Emit(loop), Emit(operand)
    dims = operand.shape.dimensions
    start = outside.splat(operand.shape.with_dimensions((trips, *dims)), 0)
    (carry,) = add_carries(loop, [start])
    zero = inside.splat(number.shape, 0)
    update = inside.add(
        Opcode.DYNAMIC_UPDATE_SLICE,
        (carry, inside.reshape(operand, (1, *dims)), number, *[zero] * len(dims)),
        shape=carry.shape,
    )
    assert body.root is not None
    body.replace_operand(body.root, carry.tuple_index, update)
    return carry.tuple_index
