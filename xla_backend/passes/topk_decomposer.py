"""topk, as an opcode or as the custom call of optimised programs, -> sort and slice."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    TOPK_CALL,
    CompareAttributes,
    ComparisonDirection,
    ParameterAttributes,
    SortAttributes,
    TopKAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit, adopt


class TopKDecomposer(HloPass):
    """topk(x) -> the first k of a stable sort of (x, position) along the last dimension.

    Why: sorting has a fast kernel.  Needs: nothing.
    Leaves: no topk, and no custom call "TopK" (which XLA makes of a sort that only needs its k
    largest elements).
    """

    name = "topk-decomposer"
    opcodes = frozenset({Opcode.TOPK, Opcode.CUSTOM_CALL})

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        for node in computation.post_order(*self.opcodes):
            attributes = _attributes(node)
            if attributes is not None:
                computation.replace(node, _decompose(node, attributes))
                changed = True
        if changed:
            adopt(computation)
        return changed


def _attributes(node: Instruction) -> TopKAttributes | None:
    """What a topk instruction or custom call wants, None for other custom calls."""
    if isinstance(node.attributes, TopKAttributes):
        return node.attributes
    if getattr(node.attributes, "target", None) != TOPK_CALL:
        return None
    return TopKAttributes(node.shape.tuple_shapes[0].dimensions[-1], largest=True)


def _decompose(node: Instruction, attributes: TopKAttributes) -> Instruction:
    b = Emit(node)
    x = node.operands[0]
    last = x.shape.rank - 1
    index_type = node.shape.tuple_shapes[1].element_type
    positions = b.iota(x.shape.with_type(index_type), last)
    comparator = _comparator(x.shape.element_type, index_type, attributes.largest)
    both = b.add(
        Opcode.SORT,
        (x, positions),
        SortAttributes(last, True),
        (comparator,),
        shape=Shape.tuple([x.shape, positions.shape]),
    )
    start = (0,) * x.shape.rank
    limit = (*x.shape.dimensions[:last], attributes.k)
    return b.tuple([b.slice(b.gte(both, i), start, limit) for i in range(2)])


def _comparator(value: PrimitiveType, index: PrimitiveType, largest: bool) -> Computation:
    """Total order on floats, so that NaNs have a place (above all numbers)."""
    computation = Computation("topk_order")
    parameters = [
        computation.add(
            Instruction(Opcode.PARAMETER, Shape.array(t), (), ParameterAttributes(i), name=f"p{i}")
        )
        for i, t in enumerate((value, value, index, index))
    ]
    direction = ComparisonDirection.GT if largest else ComparisonDirection.LT
    attributes = CompareAttributes(direction, total_order=value.is_floating)
    shape = Shape.array(PrimitiveType.PRED)
    computation.root = computation.add(
        Instruction(Opcode.COMPARE, shape, (parameters[0], parameters[1]), attributes)
    )
    return computation
