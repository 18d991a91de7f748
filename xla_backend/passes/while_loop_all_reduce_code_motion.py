"""Sums over devices that a loop only adds up, or only stacks, are made once, after it."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.collectives import exchanged_alike
from xla_backend.passes.emit import Emit
from xla_backend.passes.loop_lanes import set_start
from xla_backend.passes.patterns import splat_value
from xla_backend.passes.while_carries import is_plain
from xla_backend.passes.while_stacks import row_number, row_of_window, visits_every_row
from xla_backend.passes.while_trip_count import induction_variable


class WhileLoopAllReduceCodeMotion(HloPass):
    """total = op(total, all-reduce(x)) in a loop -> total = op(total, x), and an all-reduce by op
    behind it; the same of rows of an array that each iteration writes one of.

    Why: gradients of microbatches, or of layers, are exchanged once, and not in each iteration.
    The terms of a sum are added in another order, as other groupings of devices would.
    Needs: no asynchronous forms, call graph flattened.
    Leaves: no such all-reduce that serves nothing else, in a body whose state is a flat tuple.
    Reduce-scatters stay: the total of whole arrays takes as many times more memory as there are
    devices, which is what they are there to save.
    """

    name = "while-loop-all-reduce-code-motion"
    opcodes = frozenset({Opcode.WHILE})
    module_opcodes = frozenset({Opcode.ALL_REDUCE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for loop in computation.post_order():
            if loop.opcode is not Opcode.WHILE or not is_plain(loop):
                continue
            for index in range(len(loop.shape.tuple_shapes)):
                if not self.may_rewrite():
                    return changed
                if _move_total(loop, index) or _move_rows(loop, index):
                    self.rewritten()
                    changed = True
        return changed


def _old_value(loop: Instruction, index: int) -> Instruction | None:
    """What the body takes from a carry, if it takes it once and the condition does not."""
    condition, body = loop.called
    if any(
        u.tuple_index == index and (u.users or u.is_root) for u in condition.parameters[0].users
    ):
        return None
    taken = [user for user in body.parameters[0].users if user.tuple_index == index]
    if len(taken) != 1 or len(taken[0].users) != 1:
        return None
    return taken[0]


def _is_result_only(node: Instruction, root: Instruction) -> bool:
    """Whether a value of the body is one carry's next, and nothing else."""
    return list(node.users) == [root] and sum(x is node for x in root.operands) == 1


# -- totals ----------------------------------------------------------------------------------------


def _move_total(loop: Instruction, index: int) -> bool:
    root, old = loop.called[1].root, _old_value(loop, index)
    assert root is not None
    total = root.operands[index]
    if old is None or not _is_result_only(total, root):
        return False
    sums = _summed(total, old)
    if not sums:
        return False
    first = sums[0]
    for each in sums:
        body = loop.called[1]
        body.replace(each, each.operands[0])
    start = loop.operands[0].operands[index]
    operation, type = total.opcode, start.shape.element_type
    identity = identity_of(operation, type)
    given = splat_value(start)
    is_identity = given is not None and bool(given == identity)  # or another 0

    def finish(b: Emit, result: Instruction) -> Instruction:
        made = b.add(first.opcode, (result,), first.attributes, first.called, first.shape)
        made.metadata = first.metadata
        return made if is_identity else b.binary(operation, start, made)

    _finish(loop, index, finish)
    if not is_identity:
        # Each device adds to the identity; what the loop began with is added once, behind it.
        set_start(loop, index, Emit(loop).splat(start.shape, identity))
    return True


def _summed(total: Instruction, old: Instruction) -> list[Instruction]:
    """All-reduces that are all that is added to an old value; none: it is not made so."""
    found: list[Instruction] = []
    node = total
    while node is not old:
        if node.opcode is not total.opcode or len(node.operands) != 2:
            return []
        if node is not total and len(node.users) != 1:
            return []
        left, right = node.operands
        if not _sums_by(right, total.opcode):
            left, right = right, left
        if not _sums_by(right, total.opcode) or len(right.users) != 1 or left is right:
            return []
        if found and not exchanged_alike(found[0], right):
            return []
        found.append(right)
        node = left
    return found


def _sums_by(node: Instruction, opcode: Opcode) -> bool:
    return (
        node.opcode is Opcode.ALL_REDUCE
        and node.shape.is_array
        and monoid(node.called[0]) is opcode
    )


# -- rows ------------------------------------------------------------------------------------------


def _move_rows(loop: Instruction, index: int) -> bool:
    """Of an array all of whose rows are written, each once, and which is not read before."""
    body = loop.called[1]
    parameter, root, old = body.parameters[0], body.root, _old_value(loop, index)
    assert root is not None
    update = root.operands[index]
    if old is None or update.opcode is not Opcode.DYNAMIC_UPDATE_SLICE:
        return False
    if update.operands[0] is not old or not _is_result_only(update, root):
        return False
    variable, number = induction_variable(loop), row_of_window(update)
    if variable is None or number is None:
        return False
    row = row_number(number, parameter, variable.index)
    if row is None or not visits_every_row(row, variable, update.shape.dimensions[0]):
        return False
    summed = update.operands[1]
    while summed.opcode is Opcode.RESHAPE and len(summed.users) == 1:
        summed = summed.operands[0]
    if summed.opcode is not Opcode.ALL_REDUCE or summed.shape.is_tuple or len(summed.users) != 1:
        return False
    body.replace(summed, summed.operands[0])

    def finish(b: Emit, result: Instruction) -> Instruction:
        made = b.add(summed.opcode, (result,), summed.attributes, summed.called, result.shape)
        made.metadata = summed.metadata
        return made

    _finish(loop, index, finish)
    return True


def _finish(
    loop: Instruction, index: int, finish: Callable[[Emit, Instruction], Instruction]
) -> None:
    """Put what a function makes of a loop's result in the place of that."""
    computation = loop.parent
    assert computation is not None
    taken = [user for user in loop.users if user.tuple_index == index]
    if not taken:
        return
    b = Emit(loop)
    made = finish(b, b.get_tuple_element(loop, index))
    for user in taken:
        computation.replace(user, made)
