"""map -> the operations of its computation, on whole arrays."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.passes.fusion_rules import ELEMENTWISE


class MapInliner(HloPass):
    """map(f, xs) with f of elementwise operations and constants -> those operations on arrays.

    Why: they fuse.  Needs: calls inlined.  Leaves: no map of an elementwise computation.
    """

    name = "map-inliner"
    opcodes = frozenset({Opcode.MAP})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(Opcode.MAP):
            body = node.called[0]
            if all(_is_elementwise(inner) for inner in body.instructions):
                computation.replace(node, _inline(node, body))
                changed = True
        return changed


def _is_elementwise(node: Instruction) -> bool:
    return node.opcode in ELEMENTWISE or node.opcode in (Opcode.PARAMETER, Opcode.CONSTANT)


def _inline(node: Instruction, body: Computation) -> Instruction:
    b = Emit(node)
    dims = node.shape.dimensions
    arrays: dict[Instruction, Instruction] = dict(zip(body.parameters, node.operands))
    for inner in body.post_order():
        if inner.opcode is Opcode.CONSTANT:
            scalar = b.computation.add(clone_instruction(inner, []))
            arrays[inner] = b.broadcast(scalar, dims, ()) if dims else scalar
        elif inner.opcode is not Opcode.PARAMETER:
            operands = [arrays[o] for o in inner.operands]
            shape = inner.shape.with_dimensions(dims)
            arrays[inner] = b.computation.add(clone_instruction(inner, operands, shape))
    assert body.root is not None
    return arrays[body.root]
