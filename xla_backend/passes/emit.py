"""Building instructions inside an existing computation, for passes that rewrite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    ConstantAttributes,
    DimensionsAttributes,
    ParameterAttributes,
    SliceAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import NO_METADATA, Computation, Instruction, OpMetadata
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType


class Emit(HloBuilder):
    """A builder that appends to the computation of `like` and stamps its metadata on everything."""

    def __init__(self, like: Instruction) -> None:
        assert like.parent is not None
        self.computation: Computation = like.parent
        self.metadata = like.metadata

    @classmethod
    def into(cls, computation: Computation, metadata: OpMetadata = NO_METADATA) -> Emit:
        """A builder for the body of a new computation."""
        b = Emit.__new__(Emit)
        b.computation, b.metadata = computation, metadata
        return b

    def unary(self, opcode: Opcode, x: Instruction) -> Instruction:
        return self.add(opcode, (x,), shape=x.shape)

    def binary(self, opcode: Opcode, x: Instruction, y: Instruction) -> Instruction:
        """Same-shape arithmetic; no shape inference."""
        return self.add(opcode, (x, y), shape=x.shape)

    def splat(self, shape: Shape, value: object) -> Instruction:
        """A scalar constant broadcast to `shape`."""
        array = np.asarray(value).astype(shape.element_type.numpy_dtype)
        literal = Literal(array)
        scalar = self.add(Opcode.CONSTANT, (), ConstantAttributes(literal), shape=literal.shape)
        return self.broadcast(scalar, shape.dimensions, ()) if shape.dimensions else scalar

    def slice(
        self,
        x: Instruction,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Instruction:
        strides = tuple(strides) if strides is not None else (1,) * len(starts)
        dims = [max(0, -(-(b - a) // s)) for a, b, s in zip(starts, limits, strides)]
        return self.add(
            Opcode.SLICE,
            (x,),
            SliceAttributes(tuple(starts), tuple(limits), strides),
            shape=x.shape.with_dimensions(dims),
        )

    def bitcast_convert(self, x: Instruction, element_type: PrimitiveType) -> Instruction:
        """Same width only."""
        if x.shape.element_type is element_type:
            return x
        return self.add(Opcode.BITCAST_CONVERT, (x,), shape=x.shape.with_type(element_type))

    def concatenate(self, parts: Sequence[Instruction], dimension: int) -> Instruction:
        dims = list(parts[0].shape.dimensions)
        dims[dimension] = sum(p.shape.dimensions[dimension] for p in parts)
        return self.add(
            Opcode.CONCATENATE,
            parts,
            DimensionsAttributes((dimension,)),
            shape=parts[0].shape.with_dimensions(dims),
        )

    def reduce_sum(self, x: Instruction, dimensions: Sequence[int]) -> Instruction:
        kept = [d for i, d in enumerate(x.shape.dimensions) if i not in dimensions]
        element_type = x.shape.element_type
        return self.add(
            Opcode.REDUCE,
            (x, self.splat(Shape.array(element_type), 0)),
            DimensionsAttributes(tuple(dimensions)),
            (binary_computation(Opcode.ADD, element_type),),
            shape=x.shape.with_dimensions(kept),
        )

    def gte(self, x: Instruction, index: int) -> Instruction:
        return self.get_tuple_element(x, index)


def binary_computation(opcode: Opcode, element_type: PrimitiveType) -> Computation:
    """(a, b) -> opcode(a, b) on scalars. The caller's module takes it in after the rewrite (see
    `adopt`)."""
    shape = Shape.array(element_type)
    computation = Computation(f"{opcode.value}_{element_type}")
    a = computation.add(Instruction(Opcode.PARAMETER, shape, (), ParameterAttributes(0), name="a"))
    b = computation.add(Instruction(Opcode.PARAMETER, shape, (), ParameterAttributes(1), name="b"))
    computation.root = computation.add(Instruction(opcode, shape, (a, b)))
    return computation


def adopt(computation: Computation) -> None:
    """Take computations that new instructions call into the module."""
    module = computation.module
    if module is None:
        return
    new = False
    for node in computation.instructions:
        for callee in node.called:
            if callee.module is not module:
                module.add_computation(callee)
                new = True
    if new:
        module.computations = module.post_order()


def rewrite_each(
    computation: Computation, rewrites: Mapping[Opcode, Callable[[Instruction], Instruction]]
) -> bool:
    """Put what `rewrites` makes of them in the place of all instructions of these opcodes, those
    with side effects included. True iff there were any."""
    nodes = computation.post_order(*rewrites)
    for node in nodes:
        computation.replace_uses(node, rewrites[node.opcode](node))
        computation.remove(node)
    return bool(nodes)
