"""Annotations of a program for many devices, taken out for one."""

from __future__ import annotations

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass

# Custom calls that hand their operand on; they say where its parts or its memory are.
_ANNOTATIONS = frozenset(
    {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.ShardingGroup",
        "xla.sdy.PropagationBarrier",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "MoveToHost",
        "MoveToDevice",
        "annotate_device_placement",
    }
)


class ShardingRemover(HloPass):
    """Sharding(x), domain(x) and their like -> x.

    Why: on one device every array is whole, and calls hide what could fuse.
    Needs: a module for one device.  Leaves: no annotation and no domain instruction.
    """

    name = "sharding-remover"
    opcodes = frozenset({Opcode.CUSTOM_CALL, Opcode.DOMAIN})

    def run(self, module: HloModule) -> bool:
        if module.replica_count * module.num_partitions != 1:
            return False
        return super().run(module)

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(*self.opcodes):
            if not node.operands or not _is_annotation(node):
                continue
            if not node.shape.leaf_count:
                computation.remove(node)  # a member of a group
                changed = True
            else:
                (operand,) = node.operands
                computation.replace_uses(node, operand)
                computation.remove(node)
                changed = True
        return changed


def _is_annotation(node: Instruction) -> bool:
    if node.opcode is Opcode.DOMAIN:
        return True
    attributes = node.attributes
    assert isinstance(attributes, CustomCallAttributes)
    return (
        attributes.target in _ANNOTATIONS
        and len(node.operands) == 1
        and (node.shape.compatible(node.operands[0].shape) or not node.shape.leaf_count)
    )
