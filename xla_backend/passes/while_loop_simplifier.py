"""Loops that need not be, and carries a loop need not carry."""

from __future__ import annotations

from xla_backend.hlo.attributes import ConstantAttributes, ParameterAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.dce import has_side_effect
from xla_backend.passes.emit import Emit
from xla_backend.passes.fusion_rules import is_fusible
from xla_backend.passes.while_trip_count import trip_count

Effects = dict[Computation, bool]

_MAX_UNROLLED_TRIPS = 8
_MAX_UNROLLED_INSTRUCTIONS = 512
# Constants of so many elements are places in arrays, weights of windows: what reads them can be
# simplified. Larger ones are memory, in the loop as before it.
_MAX_SUNK_ELEMENTS = 64
_UNROLLED = frozenset(
    {Opcode.PARAMETER, Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.CONSTANT, Opcode.RESHAPE}
)


class WhileLoopSimplifier(HloPass):
    """Loops of no, one or a few small iterations are replaced; carries that nobody needs are
    dropped; constant carries become constants in the body; results of carries the loop hands on
    unchanged are their initial values.

    Why: differentiation threads residuals and unused counters through loops; each carry is memory
    traffic, and a constant behind a carry hides from simplification.
    Needs: call graph flattened (a body has one caller), tuples simplified.
    Leaves: no dead carry in a loop whose state is a flat tuple.
    """

    name = "while-loop-simplifier"
    opcodes = frozenset({Opcode.WHILE})

    def run(self, module: HloModule) -> bool:
        changed = False
        # What has side effects, asked once: nothing here gives a computation new ones.
        effects: Effects = {}
        for computation in list(module.computations):
            loops = [node for node in computation.instructions if node.opcode is Opcode.WHILE]
            for loop in loops:
                changed |= _simplify(module, computation, loop, effects)
        if changed:
            module.remove_unreachable()
        return changed


def _simplify(
    module: HloModule, computation: Computation, loop: Instruction, effects: Effects
) -> bool:
    if loop.parent is None or not _is_plain(loop):
        return False
    trips = trip_count(loop)
    has_effects = has_side_effect(loop, effects)
    if trips == 0 and not _has_side_effect_in(loop.called[0], effects):
        computation.replace_uses(loop, loop.operands[0])
        computation.remove(loop)
        return True
    if trips is not None and _worth_unrolling(loop, trips, effects):
        state = loop.operands[0]
        for _ in range(trips):
            state = computation.inline(loop.called[1], [state])
        computation.replace_uses(loop, state)
        computation.remove(loop)
        return True
    changed = _sink_invariants(computation, loop)
    if not has_effects:
        changed |= _drop_dead_carries(module, computation, loop)
    return changed


def _worth_unrolling(loop: Instruction, trips: int, effects: Effects) -> bool:
    """One iteration, or a few of a small body that can fuse into one loop nest (the rounds of a
    random number generator are such a loop)."""
    condition, body = loop.called
    if _has_side_effect_in(condition, effects):
        return False
    if trips == 1:
        return True
    if trips > _MAX_UNROLLED_TRIPS or trips * len(body) > _MAX_UNROLLED_INSTRUCTIONS:
        return False
    return all(node.opcode in _UNROLLED or is_fusible(node) for node in body.instructions)


def _has_side_effect_in(computation: Computation, effects: Effects) -> bool:
    return any(has_side_effect(node, effects) for node in computation.instructions)


def _is_plain(loop: Instruction) -> bool:
    """State is a flat tuple, built and taken apart in sight."""
    condition, body = loop.called
    root = body.root
    if (
        root is None
        or root.opcode is not Opcode.TUPLE
        or loop.operands[0].opcode is not Opcode.TUPLE
    ):
        return False
    if any(s.is_tuple for s in loop.shape.tuple_shapes):
        return False
    users = (*condition.parameters[0].users, *body.parameters[0].users)
    return all(u.opcode is Opcode.GET_TUPLE_ELEMENT for u in users)


def _sink_invariants(computation: Computation, loop: Instruction) -> bool:
    condition, body = loop.called
    assert body.root is not None
    initial = loop.operands[0].operands
    changed = False
    for i, result in enumerate(body.root.operands):
        old = body.parameters[0]
        if result.opcode is not Opcode.GET_TUPLE_ELEMENT or result.operands[0] is not old:
            continue
        if result.tuple_index != i:
            continue
        value = initial[i]
        if value.opcode is Opcode.CONSTANT and value.shape.num_elements <= _MAX_SUNK_ELEMENTS:
            for inside in (condition, body):
                changed |= _replace_carry(inside, i, value)
        for user in list(loop.users):
            if user.opcode is Opcode.GET_TUPLE_ELEMENT and user.tuple_index == i:
                computation.replace_uses(user, value)
                computation.remove(user)
                changed = True
    return changed


def _replace_carry(inside: Computation, index: int, value: Instruction) -> bool:
    """Use a constant for a carry that always has its value (but keep handing the carry on)."""
    assert isinstance(value.attributes, ConstantAttributes)
    changed = False
    for old in list(inside.parameters[0].users):
        if old.tuple_index != index:
            continue
        users = [u for u in old.users if u is not inside.root]
        if not users and inside.root is not old:
            continue
        constant = inside.add(clone_instruction(value, []))
        for user in users:
            for k, operand in enumerate(user.operands):
                if operand is old:
                    inside.replace_operand(user, k, constant)
                    changed = True
        if not constant.users:
            inside.remove(constant)
    return changed


def _drop_dead_carries(module: HloModule, computation: Computation, loop: Instruction) -> bool:
    if loop is computation.root or any(
        u.opcode is not Opcode.GET_TUPLE_ELEMENT for u in loop.users
    ):
        return False
    needed = _needed_carries(loop)
    count = len(loop.shape.tuple_shapes)
    if len(needed) == count:
        return False
    kept = sorted(needed)
    shape = Shape.tuple([loop.shape.tuple_shapes[i] for i in kept])
    number = {old: new for new, old in enumerate(kept)}
    condition = _with_carries(module, loop.called[0], shape, number, is_body=False)
    body = _with_carries(module, loop.called[1], shape, number, is_body=True)
    b = Emit(loop)
    start = b.tuple([loop.operands[0].operands[i] for i in kept])
    new = b.add(Opcode.WHILE, (start,), loop.attributes, (condition, body), shape=shape)
    new.annotations = loop.annotations
    for user in list(loop.users):
        element = b.get_tuple_element(new, number[user.tuple_index])
        computation.replace_uses(user, element)
        computation.remove(user)
    old_start = loop.operands[0]
    computation.remove(loop)
    computation.remove_if_dead(old_start)
    return True


def _needed_carries(loop: Instruction) -> set[int]:
    """Carries that a result, the condition or a needed carry's next value depends on."""
    condition, body = loop.called
    assert body.root is not None
    work = {u.tuple_index for u in loop.users}
    work |= {u.tuple_index for u in condition.parameters[0].users}
    needed: set[int] = set()
    seen: set[Instruction] = set()
    while work:
        index = work.pop()
        if index in needed:
            continue
        needed.add(index)
        stack = [body.root.operands[index]]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.opcode is Opcode.GET_TUPLE_ELEMENT and node.operands[0] is body.parameters[0]:
                work.add(node.tuple_index)
            else:
                stack.extend(node.operands)
    return needed


def _with_carries(
    module: HloModule, old: Computation, shape: Shape, number: dict[int, int], is_body: bool
) -> Computation:
    """A copy of a condition or body whose state has the numbered carries only."""
    new = Computation(old.name)
    parameter = new.add(
        Instruction(
            Opcode.PARAMETER, shape, (), ParameterAttributes(0), name=old.parameters[0].name
        )
    )
    mapping: dict[Instruction, Instruction] = {}
    assert old.root is not None
    for node in _reaching(old, number, is_body):
        if node.opcode is Opcode.PARAMETER:
            continue
        if node.opcode is Opcode.GET_TUPLE_ELEMENT and node.operands[0] is old.parameters[0]:
            mapping[node] = Emit(parameter).get_tuple_element(parameter, number[node.tuple_index])
        elif node is old.root and is_body:
            mapping[node] = Emit(parameter).tuple(
                [mapping[node.operands[i]] for i in sorted(number)]
            )
        else:
            mapping[node] = new.add(clone_instruction(node, [mapping[o] for o in node.operands]))
    new.root = mapping[old.root]
    return module.add_computation(new)


def _reaching(old: Computation, number: dict[int, int], is_body: bool) -> list[Instruction]:
    """Instructions the kept results need, in order, and the root."""
    assert old.root is not None
    stack = [old.root.operands[i] for i in number] if is_body else [old.root]
    live = {old.root, *stack}
    while stack:
        for operand in stack.pop().operands:
            if operand not in live:
                live.add(operand)
                stack.append(operand)
    return [n for n in old.post_order() if n in live]
