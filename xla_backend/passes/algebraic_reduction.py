"""Reductions that are not: of broadcasts, of reshapes, over one element."""

from __future__ import annotations

import math

import numpy as np

from xla_backend.hlo.attributes import ConstantAttributes, DimensionsAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import IDEMPOTENT, binary_reducer, dims_of, drop_ones


def _reduce_of_reshape(node: Instruction) -> Instruction | None:
    """reduce(reshape(x)) -> reduce(x), where the reshape only adds or drops sizes of 1."""
    inner = node.operands[0]
    if node.shape.is_tuple or inner.opcode is not Opcode.RESHAPE:
        return None
    x = inner.operands[0]
    if drop_ones(x.shape.dimensions) != drop_ones(inner.shape.dimensions):
        return None
    reduced = set(dims_of(node))
    # Larger dimensions keep their order: the k-th of one is the k-th of the other.
    inner_large = [i for i, d in enumerate(inner.shape.dimensions) if d != 1]
    x_large = [i for i, d in enumerate(x.shape.dimensions) if d != 1]
    dims = tuple(b for a, b in zip(inner_large, x_large) if a in reduced)
    return _reduce(node, x, dims) if dims else None


def _reduce_over_ones(node: Instruction) -> Instruction | None:
    """Dimensions of size 1 are not reduced but reshaped away, which is free."""
    if node.shape.is_tuple:
        return None
    x = node.operands[0]
    dims = tuple(d for d in dims_of(node) if x.shape.dimensions[d] != 1)
    return _reduce(node, x, dims) if 0 < len(dims) < len(dims_of(node)) else None


def _reduce(node: Instruction, x: Instruction, dims: tuple[int, ...]) -> Instruction:
    """The reduce `node`, of `x` over `dims`."""
    kept = [d for i, d in enumerate(x.shape.dimensions) if i not in dims]
    b = Emit(node)
    result = b.add(
        Opcode.REDUCE,
        (x, node.operands[1]),
        DimensionsAttributes(dims),
        node.called,
        shape=node.shape.with_dimensions(kept),
    )
    return b.reshape(result, node.shape.dimensions)


def _reduce_of_broadcast(node: Instruction) -> Instruction | None:
    """The maximum of equal elements is any of them; the sum of n equal integers is n times one."""
    inner = node.operands[0]
    if node.shape.is_tuple or inner.opcode is not Opcode.BROADCAST:
        return None
    mapping, reduced = dims_of(inner), dims_of(node)
    if any(d in reduced for d in mapping) or node.called[0].root is None:
        return None
    copies = math.prod(inner.shape.dimensions[d] for d in reduced)
    opcode = binary_reducer(node.called[0])
    adds = opcode is Opcode.ADD and node.shape.element_type.is_integral
    if copies == 0 or opcode is None or not (adds or opcode in IDEMPOTENT):
        return None
    b = Emit(node)
    kept = [i for i in range(inner.shape.rank) if i not in reduced]
    x = b.broadcast(inner.operands[0], node.shape.dimensions, [kept.index(d) for d in mapping])
    if adds:
        x = b.binary(Opcode.MULTIPLY, x, b.splat(node.shape, copies))
    init = b.broadcast(node.operands[1], node.shape.dimensions, ())
    return b.add(opcode, (init, x), node.called[0].root.attributes, shape=node.shape)


def _get_dimension_size(node: Instruction) -> Instruction | None:
    """Sizes are static here."""
    (d,) = dims_of(node)
    literal = Literal(np.asarray(node.operands[0].shape.dimensions[d], np.int32))
    return Emit(node).add(Opcode.CONSTANT, (), ConstantAttributes(literal), shape=literal.shape)


class AlgebraicReductionSimplifier(RuleTablePass):
    """Reductions over copies or single elements become arithmetic.

    Why: arithmetic fuses with its neighbours; a reduce is a kernel of its own.
    Needs: nothing.
    Leaves: no reduce over a dimension of size 1, no maximum over copies.
    """

    name = "algebraic-reduction"
    rules = {
        Opcode.REDUCE: (_reduce_of_reshape, _reduce_over_ones, _reduce_of_broadcast),
        Opcode.GET_DIMENSION_SIZE: (_get_dimension_size,),
    }
