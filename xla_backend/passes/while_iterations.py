"""Copies of iterations of a while, for passes that run several of them at a time."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode

WITH_BODIES = frozenset({Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL, Opcode.FUSION})


def iterate(
    module: HloModule, target: Computation, body: Computation, carries: dict[int, Instruction]
) -> list[Instruction]:
    """Copy one iteration into `target`; the new carries."""
    parameter, root = body.parameters[0], body.root
    assert root is not None
    mapping: dict[Instruction, Instruction] = {}
    for node in body.instructions:
        if node is parameter or node is root:
            continue
        if node.opcode is Opcode.GET_TUPLE_ELEMENT and node.operands[0] is parameter:
            mapping[node] = carries[node.tuple_index]
            continue
        copy = clone_instruction(node, [mapping[o] for o in node.operands])
        if node.opcode in WITH_BODIES:
            copy.called = [_deep_clone(module, callee) for callee in node.called]
        mapping[node] = target.add(copy)
    return [mapping[o] for o in root.operands]


def _deep_clone(module: HloModule, computation: Computation) -> Computation:
    """A copy that shares no scheduled or fused computation with the original: each of them has one
    caller."""
    copy = computation.clone()
    for node in copy.instructions:
        if node.opcode in WITH_BODIES:
            node.called = [_deep_clone(module, callee) for callee in node.called]
    return module.add_computation(copy)
