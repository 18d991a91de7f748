"""Work that is the same in every iteration of a loop is done once, before it."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.fusion_rules import EXPENSIVE, cost_of, is_fusible
from xla_backend.passes.while_carries import add_carries, is_plain

# Never hoisted for its own sake: names of memory, or cheaper computed again than loaded.
_FREE = frozenset(op for op in Opcode if op.is_free) | {Opcode.BROADCAST, Opcode.IOTA}
# Not hoisted at all: running them although the loop runs zero times would show, or might not end.
_STAYS = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.WHILE,
        Opcode.CONDITIONAL,
        Opcode.CALL,
        Opcode.CUSTOM_CALL,
        Opcode.RNG,
        Opcode.RNG_BIT_GENERATOR,
        Opcode.OPT_BARRIER,
        Opcode.COPY,
    }
)
_RESHAPED = frozenset({Opcode.RESHAPE, Opcode.BITCAST})
_WORTH_ELEMENTS = 16


class WhileLoopInvariantCodeMotion(HloPass):
    """Move out of a loop body what depends on nothing the loop changes.

    Why: a matrix product or an exponential of weights inside a scan is done once instead of in each
    step. Cheap operations stay: fused, they cost less than reading their result from memory, unless
    their reader is a library call, which needs an array, or a scatter, which goes through its
    updates one by one, without vectors.
    Needs: call graph flattened, tuples simplified.
    Leaves: no expensive invariant operation in a body whose state is a flat tuple.
    """

    name = "while-loop-invariant-code-motion"
    opcodes = frozenset({Opcode.WHILE})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for loop in computation.instructions:
            if loop.opcode is Opcode.WHILE and is_plain(loop):
                worth = _worth_hoisting(loop)
                if worth:
                    _hoist(computation, loop, worth)
                    changed = True
        return changed


def _worth_hoisting(loop: Instruction) -> list[Instruction]:
    """Invariant operations of the body whose result is needed by something that varies and that
    are worth a place in memory."""
    body = loop.called[1]
    parameter, root = body.parameters[0], body.root
    assert root is not None
    invariant: set[Instruction] = set()
    for node in topological_order(body):
        if node.opcode is Opcode.GET_TUPLE_ELEMENT and node.operands[0] is parameter:
            if root.operands[node.tuple_index] is node:
                invariant.add(node)
        elif node.opcode in _STAYS or node.opcode.has_side_effect or not node.shape.is_array:
            continue
        elif all(operand in invariant for operand in node.operands):
            invariant.add(node)
    return [
        node
        for node in body.instructions
        if node in invariant
        and node.opcode not in _FREE
        and node.shape.num_elements >= _WORTH_ELEMENTS
        and (
            _is_read_as_array(node, invariant)
            or (
                any(user not in invariant for user in node.users) and _is_expensive(node, invariant)
            )
        )
    ]


def _is_expensive(node: Instruction, invariant: set[Instruction]) -> bool:
    """Whether the node, or what would be fused into it, costs more than a load."""
    stack, total = [node], 0
    seen = {node}
    while stack:
        node = stack.pop()
        if node.opcode not in _FREE and not is_fusible(node):
            return True
        total += cost_of(node) if is_fusible(node) else 0
        if total >= EXPENSIVE:
            return True
        for operand in node.operands:
            if operand in invariant and operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return False


def _is_read_as_array(node: Instruction, invariant: set[Instruction]) -> bool:
    """Whether something that varies and is not fused reads the node, as it is or reshaped."""
    return any(
        user.opcode in _RESHAPED and _is_read_as_array(user, invariant)
        if user in invariant
        else not is_fusible(user) and user.opcode not in _FREE
        for user in node.users
    )


def _hoist(computation: Computation, loop: Instruction, worth: list[Instruction]) -> None:
    body = loop.called[1]
    parameter, initial = body.parameters[0], loop.operands[0]
    outside: dict[Instruction, Instruction] = {}
    for node in topological_order(body):
        if node.opcode is Opcode.GET_TUPLE_ELEMENT and node.operands[0] is parameter:
            outside[node] = initial.operands[node.tuple_index]
    for node in _closure(worth, outside):
        outside[node] = computation.add(
            clone_instruction(node, [outside[o] for o in node.operands])
        )
    elements = add_carries(loop, [outside[node] for node in worth])
    for node, element in zip(worth, elements):
        body.replace(node, element)


def _closure(worth: list[Instruction], known: dict[Instruction, Instruction]) -> list[Instruction]:
    """What computes `worth` from the known values, operands first."""
    needed: set[Instruction] = set()
    stack = list(worth)
    while stack:
        node = stack.pop()
        if node not in needed and node not in known:
            needed.add(node)
            stack.extend(node.operands)
    if not needed:
        return []
    body = worth[0].parent
    assert body is not None
    return [node for node in topological_order(body) if node in needed]
