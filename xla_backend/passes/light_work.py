"""Fusions whose work is so light that it may be done where their results are read."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order

# Done again for each block that reads an element: no more than a load takes.
_LIGHT = frozenset(
    {
        Opcode.ADD,
        Opcode.BROADCAST,
        Opcode.COMPARE,
        Opcode.CONSTANT,
        Opcode.CONVERT,
        Opcode.COPY,
        Opcode.IOTA,
        Opcode.MAXIMUM,
        Opcode.MINIMUM,
        Opcode.MULTIPLY,
        Opcode.NEGATE,
        Opcode.PARAMETER,
        Opcode.REDUCE_PRECISION,
        Opcode.RESHAPE,
        Opcode.SELECT,
        Opcode.SUBTRACT,
    }
)


def is_light(node: Instruction) -> bool:
    """Whether an instruction of a fusion takes no more than a load."""
    return node.opcode in _LIGHT and node.shape.is_array


def copy_body(
    fused: Computation, body: Computation, arguments: list[Instruction]
) -> dict[Instruction, Instruction]:
    """Copy a computation into another one, on arguments that are there."""
    copies: dict[Instruction, Instruction] = {}
    for node in topological_order(body):
        if node.opcode is Opcode.PARAMETER:
            copies[node] = arguments[node.parameter_number]
        else:
            copies[node] = fused.add(clone_instruction(node, [copies[o] for o in node.operands]))
    return copies
