"""Reduce-scatter along the first dimension only."""

from __future__ import annotations

from xla_backend.hlo.attributes import CollectiveAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit


class ReduceScatterLeadingDimension(HloPass):
    """reduce-scatter along dimension d -> transposes around one along the first dimension.

    Why: each member's part lies in one piece then, and is combined as it lies.
    Needs: no asynchronous forms.  Leaves: no reduce-scatter along another dimension.
    """

    name = "reduce-scatter-leading-dimension"
    opcodes = frozenset({Opcode.REDUCE_SCATTER})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.REDUCE_SCATTER)
        others = [node for node in nodes if _dimension(node) != 0]
        for node in others:
            computation.replace_uses(node, _moved(node))
            computation.remove(node)
        return bool(others)


def _dimension(node: Instruction) -> int:
    assert isinstance(node.attributes, CollectiveAttributes)
    (dimension,) = node.attributes.dimensions
    return dimension


def _moved(node: Instruction) -> Instruction:
    assert isinstance(node.attributes, CollectiveAttributes)
    b, dimension = Emit(node), _dimension(node)

    def order(shape: Shape) -> list[int]:
        numbers = list(range(shape.rank))
        numbers[0], numbers[dimension] = dimension, 0
        return numbers

    def exchanged(shape: Shape) -> Shape:
        return shape.with_dimensions(tuple(shape.dimensions[k] for k in order(shape)))

    def exchange(x: Instruction) -> Instruction:
        return b.transpose(x, order(x.shape))

    operands = [exchange(x) for x in node.operands]
    attributes = CollectiveAttributes(**{**vars(node.attributes), "dimensions": (0,)})
    parts = [exchanged(s) for s in node.shape.flatten()]
    shape = Shape.tuple(parts) if node.shape.is_tuple else parts[0]
    scattered = b.add(Opcode.REDUCE_SCATTER, operands, attributes, node.called, shape)
    if not node.shape.is_tuple:
        return exchange(scattered)
    return b.tuple([exchange(b.gte(scattered, i)) for i in range(len(operands))])
