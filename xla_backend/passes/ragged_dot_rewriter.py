"""ragged-dot -> a loop of dots over the groups."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    ComparisonDirection,
    DimensionsAttributes,
    DotAttributes,
    RaggedDotAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_rules_contractions import RaggedMode, ragged_mode, ragged_prefix
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.counted_loop import counted_loop, row, with_row
from xla_backend.passes.emit import Emit, adopt

P = PrimitiveType


class RaggedDotRewriter(HloPass):
    """ragged-dot(lhs, rhs, sizes) -> for each group, a dot of lhs with the other groups' part of
    its ragged dimension set to zero.

    Ragged rows: the dots (each with its group's rhs) are added up. Ragged contracting dimension:
    each is a slice of the result. Ragged batch dimension: every row has its own rhs anyway.

    Why: dots have kernels.  Needs: nothing.  Leaves: no ragged-dot.
    """

    name = "ragged-dot-rewriter"
    opcodes = frozenset({Opcode.RAGGED_DOT})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.RAGGED_DOT)
        for node in nodes:
            computation.replace(node, _rewrite(node))
        if nodes:
            adopt(computation)
        return bool(nodes)


def _rewrite(node: Instruction) -> Instruction:
    a = node.attributes
    assert isinstance(a, RaggedDotAttributes)
    b = Emit(node)
    lhs, rhs, sizes = node.operands
    mode = ragged_mode(a)
    if mode is RaggedMode.BATCH:
        return _dot(b, a, a.rhs_contracting, a.rhs_batch, lhs, rhs, node.shape)
    sizes = b.convert(sizes, P.S32)
    groups = sizes.shape.dimensions[-1]
    start = b.splat(sizes.shape.with_dimensions(sizes.shape.dimensions[:-1]), 0)
    accumulator = node.shape if mode is RaggedMode.CONTRACTING else _wide(node.shape)

    def one_group(
        inner: Emit, group: Instruction, values: list[Instruction]
    ) -> Sequence[Instruction]:
        left, right, counts, begin, total = values
        size = row(inner, counts, group, counts.shape.rank - 1)
        end = inner.binary(Opcode.ADD, begin, size)
        masked = _masked(inner, a, left, begin, end)
        if mode is RaggedMode.CONTRACTING:
            part = node.shape.with_dimensions(node.shape.dimensions[1:])
            product = _dot(inner, a, a.rhs_contracting, a.rhs_batch, masked, right, part)
            total = with_row(inner, total, product, group, 0)
        else:
            (dimension,) = a.rhs_group
            numbers = [
                tuple(d - (d > dimension) for d in dims)
                for dims in (a.rhs_contracting, a.rhs_batch)
            ]
            matrix = row(inner, right, group, dimension)
            product = _dot(inner, a, numbers[0], numbers[1], masked, matrix, total.shape)
            total = inner.binary(Opcode.ADD, total, product)
        return [left, right, counts, end, total]

    values = [lhs, rhs, sizes, start, b.splat(accumulator, 0)]
    result = counted_loop(b, "ragged_dot", groups, values, one_group)[-1]
    return b.convert(result, node.shape.element_type)


def _wide(shape: Shape) -> Shape:
    """The type sums over groups are kept in (each row gets one product and zeros)."""
    element_type = shape.element_type
    return shape.with_type(P.F32) if element_type in (P.F16, P.BF16) else shape


def _dot(
    b: Emit,
    a: RaggedDotAttributes,
    rhs_contracting: tuple[int, ...],
    rhs_batch: tuple[int, ...],
    lhs: Instruction,
    rhs: Instruction,
    shape: Shape,
) -> Instruction:
    attributes = DotAttributes(
        a.lhs_contracting, rhs_contracting, a.lhs_batch, rhs_batch, a.precision, a.algorithm
    )
    return b.add(Opcode.DOT, (lhs, rhs), attributes, shape=shape)


def _masked(
    b: Emit, a: RaggedDotAttributes, lhs: Instruction, begin: Instruction, end: Instruction
) -> Instruction:
    """`lhs` where its ragged index lies in [begin, end), else zero."""
    (ragged,) = a.lhs_ragged
    dims = lhs.shape.dimensions
    prefix = ragged_prefix(a, len(dims)) if begin.shape.rank else []
    position = b.iota(Shape.array(P.S32, dims), ragged)
    first, last = (_spread(b, x, dims, prefix) for x in (begin, end))
    inside = b.binary(
        Opcode.AND,
        b.compare(position, first, ComparisonDirection.GE),
        b.compare(position, last, ComparisonDirection.LT),
    )
    return b.add(Opcode.SELECT, (inside, lhs, b.splat(lhs.shape, 0)), shape=lhs.shape)


def _spread(b: Emit, x: Instruction, dims: tuple[int, ...], where: Sequence[int]) -> Instruction:
    """`x`, whose dimensions are dimensions `where` of `dims`, broadcast to all of them."""
    order = sorted(range(len(where)), key=lambda i: where[i])
    if order != list(range(len(where))):
        shape = x.shape.with_dimensions([x.shape.dimensions[i] for i in order])
        x = b.add(Opcode.TRANSPOSE, (x,), DimensionsAttributes(tuple(order)), shape=shape)
    return b.broadcast(x, dims, sorted(where))
