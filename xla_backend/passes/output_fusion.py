"""What a kOutput fusion is: a matrix product and the elementwise work on its result.

The fused computation holds one dot; everything else reads the dot at the very element that it
computes. The pass that makes such fusions, buffer sharing and code generation agree on the
questions answered here.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType

# Types whose GEMM adds to memory exactly as a sum of the program would.
_ADDING_TYPES = frozenset({PrimitiveType.F32, PrimitiveType.F64})


def is_output_fusion(node: Instruction) -> bool:
    return (
        node.opcode is Opcode.FUSION
        and isinstance(node.attributes, FusionAttributes)
        and node.attributes.kind is FusionKind.OUTPUT
    )


def dot_of(fused: Computation) -> Instruction:
    """The product of the computation of a kOutput fusion."""
    return next(node for node in fused.instructions if node.opcode is Opcode.DOT)


def accumulated_parameter(fused: Computation) -> int | None:
    """The parameter x of a computation that is dot + x and nothing else, if a GEMM can add its
    product to the memory of x."""
    root = fused.root
    assert root is not None
    if root.opcode is not Opcode.ADD or root.shape.element_type not in _ADDING_TYPES:
        return None
    dot = dot_of(fused)
    if dot not in root.operands:
        return None
    other = root.operands[1] if root.operands[0] is dot else root.operands[0]
    if other.opcode is not Opcode.PARAMETER or other in dot.operands:
        return None
    return other.parameter_number


def first_column_dimension(dimensions: Sequence[int], columns: int) -> int | None:
    """The first of the trailing dimensions whose product is `columns`; None if there are none."""
    product, d = 1, len(dimensions)
    while product < columns and d > 0:
        d -= 1
        product *= dimensions[d]
    return d if product == columns else None
