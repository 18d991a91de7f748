"""Values that the program itself has cut: between `SPMDFullToShardShape` and
`SPMDShardToFullShape` shapes are those of a device's part, and collectives are written out."""

from __future__ import annotations

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.spmd.values import ArrayValue, Values

TO_PARTS, TO_WHOLE, CONSTRAINT = "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding"

# What differs from device to device by itself.
_SOURCES = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID, *COLLECTIVES})


def annotation(node: Instruction) -> str:
    """The target of a custom call that says how its operand is cut; "" for all else."""
    a = node.attributes
    if isinstance(a, CustomCallAttributes) and a.target in (TO_PARTS, TO_WHOLE, CONSTRAINT):
        return a.target
    return ""


def manual_values(values: Values) -> set[ArrayValue]:
    """Those that devices have each their own of: what is computed from a part is one."""
    found: set[ArrayValue] = set()
    count = -1
    while count != len(found):
        count = len(found)
        for computation in values.computations:
            for node in computation.post_order():
                if _is_manual(node, values, found):
                    found.update(values.of(node))
        found.update(target for source, target in values.links if source in found)
    return found


def _is_manual(node: Instruction, values: Values, found: set[ArrayValue]) -> bool:
    kind = annotation(node)
    if kind in (TO_PARTS, TO_WHOLE):
        return kind == TO_PARTS
    if node.opcode in _SOURCES:
        return True
    if node.opcode in (
        Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.OPT_BARRIER, Opcode.WHILE,
        Opcode.CONDITIONAL, Opcode.PARAMETER,
    ):  # fmt: skip
        return False  # their values are those of others
    return any(value in found for operand in node.operands for value in values.of(operand))
