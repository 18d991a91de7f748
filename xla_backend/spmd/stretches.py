"""Slices that are stretches of one dimension, and what puts two of them together again.

Who needs a stretch of a slice can take it from the array below: then elements move once.
"""

from __future__ import annotations

from xla_backend.hlo.attributes import DimensionsAttributes, SliceAttributes, Value
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode


class Stretch(Value):
    """A slice that has all of an array but in one dimension, and neighbours there.

    Fields:
      source: the array.
      start: where it begins in the dimension.
    """

    source: Instruction
    start: int


def stretch_of(node: Instruction, dimension: int) -> Stretch | None:
    """What a slice takes along a dimension; None: it is none, or takes parts of others too."""
    if node.opcode is not Opcode.SLICE:
        return None
    a, source = node.attributes, node.operands[0]
    assert isinstance(a, SliceAttributes)
    for d, size in enumerate(source.shape.dimensions):
        if a.strides[d] != 1 or (d != dimension and (a.starts[d], a.limits[d]) != (0, size)):
            return None
    return Stretch(source, a.starts[dimension])


def rotation(node: Instruction) -> Stretch | None:
    """The array of which a concatenation of two stretches is a rotation, and where this begins in
    it: `concatenate(x[k:], x[:k])`."""
    if node.opcode is not Opcode.CONCATENATE or len(node.operands) != 2:
        return None
    assert isinstance(node.attributes, DimensionsAttributes)
    (d,) = node.attributes.dimensions
    behind, front = (stretch_of(operand, d) for operand in node.operands)
    if behind is None or front is None or behind.source is not front.source:
        return None
    size = behind.source.shape.dimensions[d]
    whole = behind.start + node.operands[0].shape.dimensions[d] == size == node.shape.dimensions[d]
    return behind if whole and front.start == 0 else None
