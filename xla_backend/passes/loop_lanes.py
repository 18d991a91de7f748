"""Loops inside what happens in the lanes of a predicate: how they can leave dead lanes alone."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.emit import Emit
from xla_backend.passes.lanes import Dims, Lanes, confined, mask_of
from xla_backend.passes.patterns import binary_reducer, dims_of, is_splat
from xla_backend.passes.while_carries import add_carries, is_plain
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True)
class LoopPlan:
    """How a loop is kept from changing dead lanes of element `leaf` of its state.

    Fields:
      loop: the loop, with a plain state.
      leaves: the elements of the state whose dead lanes change by that, and the dimensions that
        are the predicate's.
      flag: the element that says which lanes go on. Lanes that are dead never start. None: the
        loop runs a number of times that has nothing to do with lanes; the updates in its body are
        to be masked.
      updates: those updates, in order.
    """

    loop: Instruction
    leaf: int
    leaves: dict[int, Dims]
    flag: int | None
    updates: tuple[Instruction, ...] = ()


def loop_of(node: Instruction) -> Instruction | None:
    """The loop of whose state `node` is an element."""
    if node.opcode is not Opcode.GET_TUPLE_ELEMENT:
        return None
    loop = node.operands[0]
    return loop if loop.opcode is Opcode.WHILE and is_plain(loop) else None


def plan_loop(
    node: Instruction, dims: Dims, updates_from: list[Instruction] | None
) -> LoopPlan | None:
    """A plan for an element of a loop's final state, or None.

    Args:
      dims: the element's dimensions that are the predicate's.
      updates_from: the updates that lead from the element at the start of a step to the one at
        its end; None if something else does.
    """
    loop = loop_of(node)
    if loop is None:
        return None
    plan = _gated(loop, node.tuple_index, dims)
    if plan is None and updates_from is not None:
        plan = _masked(loop, node.tuple_index, dims, tuple(updates_from))
    return plan


def _gated(loop: Instruction, leaf: int, dims: Dims) -> LoopPlan | None:
    """The loop goes on while any lane of a flag is true, and freezes lanes whose flag is false."""
    condition, body = loop.called
    flag = _any_of(condition)
    root = body.root
    assert root is not None
    if flag is None or flag == leaf:
        return None
    inside = elements(body)
    (go,) = inside.get(flag, [None])[:1]
    if go is None or root.operands[flag].opcode is not Opcode.AND:
        return None
    if go not in root.operands[flag].operands:
        return None
    lies: dict[int, Dims] = {flag: tuple(range(go.shape.rank))}
    for number, new in enumerate(root.operands):
        old = inside.get(number, [])
        if number == flag or new in old:
            continue
        if new.opcode is not Opcode.SELECT or new.operands[2] not in old:
            return None
        predicate, where = mask_of(new)
        if predicate is not go:
            return None
        lies[number] = where
    if leaf not in lies or not set(dims) <= set(lies[leaf]):
        return None
    own = [lies[leaf].index(d) for d in dims]
    leaves = {number: tuple(where[i] for i in own) for number, where in lies.items()}
    exits: dict[int, Dims] = {}
    starts = [(e, leaves[n]) for n in leaves for e in inside.get(n, [])]
    if not confined(starts, exits=exits) or any(leaves.get(n) != d for n, d in exits.items()):
        return None
    return LoopPlan(loop, leaf, leaves, flag)


def _any_of(condition: Computation) -> int | None:
    """The element of the state if the condition is whether any of its lanes is true, and reads
    nothing else."""
    root = condition.root
    if root is None or root.opcode is not Opcode.REDUCE or len(root.operands) != 2:
        return None
    source, start = root.operands
    if binary_reducer(root.called[0]) is not Opcode.OR or not is_splat(start, 0):
        return None
    if source.opcode is not Opcode.GET_TUPLE_ELEMENT or root.shape.dimensions:
        return None
    return source.tuple_index if source.operands[0].opcode is Opcode.PARAMETER else None


def _masked(
    loop: Instruction, leaf: int, dims: Dims, updates: tuple[Instruction, ...]
) -> LoopPlan | None:
    condition, body = loop.called
    inside, read = elements(body), elements(condition)
    leaves = {leaf: dims}
    while True:
        exits = dict(leaves)
        starts = [(e, leaves[n]) for n in leaves for e in inside.get(n, [])]
        starts += [(update, dims) for update in updates]
        if not confined(starts, exits=exits):
            return None
        if exits == leaves:
            break
        leaves = exits
    if any(e.users or e.is_root for n in leaves for e in read.get(n, [])):
        return None
    return LoopPlan(loop, leaf, leaves, None, updates)


def elements(computation: Computation) -> dict[int, list[Instruction]]:
    """What reads the elements of the state, by number."""
    result: dict[int, list[Instruction]] = {}
    for user in computation.parameters[0].users:
        if user.opcode is Opcode.GET_TUPLE_ELEMENT:
            result.setdefault(user.tuple_index, []).append(user)
    return result


def gate(b: Emit, plan: LoopPlan, lanes: Lanes) -> None:
    """Let dead lanes never start."""
    loop, flag = plan.loop, plan.flag
    assert flag is not None and loop.parent is not None
    start = loop.operands[0].operands[flag]
    dims, every = plan.leaves[flag], tuple(range(start.shape.rank))
    if lanes.value and start.opcode is Opcode.AND:
        for operand in start.operands:
            if operand.opcode is Opcode.BROADCAST and dims_of(operand) == dims:
                operand = operand.operands[0]
            elif dims != every:
                continue
            if operand is lanes.predicate:
                return
    live = lanes.predicate if lanes.value else b.unary(Opcode.NOT, lanes.predicate)
    if dims != every:
        live = b.broadcast(live, start.shape.dimensions, dims)
    set_start(plan.loop, flag, b.binary(Opcode.AND, start, live))


def set_start(loop: Instruction, number: int, value: Instruction) -> None:
    """Give the state another initial element."""
    initial, computation = loop.operands[0], loop.parent
    assert computation is not None
    if initial.operands[number] is value:
        return
    parts = list(initial.operands)
    parts[number] = value
    tuple_ = Instruction(Opcode.TUPLE, initial.shape, parts, metadata=initial.metadata)
    computation.replace_operand(loop, 0, computation.add(tuple_))
    computation.remove_if_dead(initial)


def carried(loop: Instruction, predicate: Instruction) -> Instruction:
    """The predicate in the body of a loop, carried there if it is not yet."""
    body = loop.called[1]
    root = body.root
    assert root is not None
    for number, readers in elements(body).items():
        if loop.operands[0].operands[number] is predicate and root.operands[number] in readers:
            return root.operands[number]
    (element,) = add_carries(loop, [predicate])
    return element
