"""HloBuilder: builds one computation. Shapes are inferred unless the caller already knows them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    CompareAttributes,
    ComparisonDirection,
    ConstantAttributes,
    DimensionsAttributes,
    GetTupleElementAttributes,
    IotaAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.instruction import NO_METADATA, Computation, Instruction, OpMetadata
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.process.on_first_use import on_first_use

# Rules of all opcodes; who finds what he needs on disk builds nothing.
_infer_shape = on_first_use("xla_backend.hlo.shape_inference", "infer_shape")


class HloBuilder:
    """Appends instructions to a computation; `metadata` is stamped on each."""

    def __init__(self, name: str) -> None:
        self.computation = Computation(name)
        self.metadata: OpMetadata = NO_METADATA

    def add(
        self,
        opcode: Opcode,
        operands: Sequence[Instruction] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
        name: str = "",
    ) -> Instruction:
        """Append one instruction. `shape=None` infers it (and checks the operands).

        Raises:
          ShapeInferenceError: operands, attributes and opcode do not fit together.
        """
        if shape is None:
            shape = _infer_shape(opcode, operands, attributes, called)
        node = Instruction(
            opcode, shape, tuple(operands), attributes, tuple(called), self.metadata, name
        )
        return self.computation.add(node)

    def parameter(self, number: int, shape: Shape, name: str = "") -> Instruction:
        return self.add(Opcode.PARAMETER, (), ParameterAttributes(number), shape=shape, name=name)

    def constant(
        self, value: np.ndarray | np.generic | float, dtype: np.dtype | None = None
    ) -> Instruction:
        literal = Literal(np.asarray(value, dtype=dtype))
        return self.add(Opcode.CONSTANT, (), ConstantAttributes(literal), shape=literal.shape)

    def full(self, shape: Shape, value: float) -> Instruction:
        """A scalar constant broadcast to `shape`."""
        scalar = self.constant(np.asarray(value).astype(shape.element_type.numpy_dtype))
        return scalar if not shape.dimensions else self.broadcast(scalar, shape.dimensions, ())

    def iota(self, shape: Shape, dimension: int) -> Instruction:
        return self.add(Opcode.IOTA, (), IotaAttributes(dimension), shape=shape)

    def broadcast(
        self, operand: Instruction, dimensions: Sequence[int], operand_dims: Sequence[int]
    ) -> Instruction:
        """Broadcast so that operand dimension i becomes output dimension operand_dims[i]; sizes
        must agree (HLO's broadcast does not stretch size 1)."""
        shape = operand.shape.with_dimensions(dimensions)
        return self.add(
            Opcode.BROADCAST, (operand,), DimensionsAttributes(tuple(operand_dims)), shape=shape
        )

    def convert(self, operand: Instruction, element_type: PrimitiveType) -> Instruction:
        if operand.shape.element_type is element_type:
            return operand
        return self.add(Opcode.CONVERT, (operand,), shape=operand.shape.with_type(element_type))

    def reshape(self, operand: Instruction, dimensions: Sequence[int]) -> Instruction:
        if operand.shape.dimensions == tuple(dimensions):
            return operand
        return self.add(Opcode.RESHAPE, (operand,), shape=operand.shape.with_dimensions(dimensions))

    def transpose(self, operand: Instruction, permutation: Sequence[int]) -> Instruction:
        if tuple(permutation) == tuple(range(operand.shape.rank)):
            return operand
        shape = operand.shape.with_dimensions([operand.shape.dimensions[p] for p in permutation])
        return self.add(
            Opcode.TRANSPOSE, (operand,), DimensionsAttributes(tuple(permutation)), shape=shape
        )

    def compare(
        self,
        lhs: Instruction,
        rhs: Instruction,
        direction: ComparisonDirection,
        total_order: bool = False,
    ) -> Instruction:
        shape = lhs.shape.with_type(PrimitiveType.PRED)
        return self.add(
            Opcode.COMPARE, (lhs, rhs), CompareAttributes(direction, total_order), shape=shape
        )

    def tuple(self, elements: Sequence[Instruction]) -> Instruction:
        return self.add(Opcode.TUPLE, elements, shape=Shape.tuple([e.shape for e in elements]))

    def get_tuple_element(self, operand: Instruction, index: int) -> Instruction:
        return self.add(
            Opcode.GET_TUPLE_ELEMENT,
            (operand,),
            GetTupleElementAttributes(index),
            shape=operand.shape.tuple_shapes[index],
        )

    def build(self, root: Instruction | None = None) -> Computation:
        """Finish: the root is `root` or the last instruction added."""
        if root is None:
            root = self.computation.instructions[-1]
        self.computation.set_root(root)
        return self.computation
