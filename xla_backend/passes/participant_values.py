"""Scalars that depend on nothing but who computes them: where slices of a device's part begin."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import ConstantAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.topology import Topology
from xla_backend.process.on_first_use import on_first_use

_evaluate_computation = on_first_use("xla_backend.hlo.evaluator", "evaluate_computation")

# Of what partitioners and users make such numbers.
_ARITHMETIC = frozenset(
    {
        Opcode.BROADCAST,
        Opcode.CONSTANT,
        Opcode.DYNAMIC_SLICE,
        Opcode.RESHAPE,
        Opcode.SLICE,
    }
)
_MOST_INSTRUCTIONS = 64


def value_by_participant(node: Instruction, topology: Topology) -> list[int] | None:
    """The value of a scalar integer for each participant; None: it depends on more."""
    nodes = _behind(node)
    if nodes is None:
        return None
    own = {Opcode.PARTITION_ID, Opcode.REPLICA_ID}
    if not any(n.opcode in own for n in nodes):
        return [_evaluate(nodes, node, 0, 0)] * topology.size
    parts = topology.num_partitions
    return [_evaluate(nodes, node, *divmod(k, parts)) for k in range(topology.size)]


def _behind(node: Instruction) -> list[Instruction] | None:
    """What a value is made of, operands first; None: not of these numbers alone."""
    found: dict[Instruction, None] = {}
    stack = [(node, False)]
    while stack:
        current, ready = stack.pop()
        if ready:
            found.setdefault(current)
        elif current not in found:
            simple = current.opcode.is_elementwise or current.opcode in _ARITHMETIC
            number = current.opcode in (Opcode.PARTITION_ID, Opcode.REPLICA_ID)
            if not (simple or number) or len(found) > _MOST_INSTRUCTIONS:
                return None
            stack.append((current, True))
            stack += [(operand, False) for operand in current.operands]
    return list(found)


def _evaluate(nodes: list[Instruction], root: Instruction, replica: int, partition: int) -> int:
    scratch = Computation("number")
    copies: dict[Instruction, Instruction] = {}
    numbers = {Opcode.REPLICA_ID: replica, Opcode.PARTITION_ID: partition}
    for node in nodes:
        if node.opcode in numbers:
            literal = Literal(np.array(numbers[node.opcode], node.shape.element_type.numpy_dtype))
            made = Instruction(Opcode.CONSTANT, node.shape, (), ConstantAttributes(literal))
        else:
            made = clone_instruction(node, [copies[operand] for operand in node.operands])
        copies[node] = scratch.add(made)
    scratch.root = copies[root]
    return int(np.asarray(_evaluate_computation(scratch, [])))
