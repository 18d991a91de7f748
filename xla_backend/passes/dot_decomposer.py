"""Dots in the form of matrix products: rows, columns and the sum have one stride each."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import DimensionsAttributes, DotAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import (
    OperandDimensions,
    collapse,
    contraction_order,
    dot_attributes,
    operand_dimensions,
)
from xla_backend.passes.emit import Emit


def _canonical(node: Instruction) -> Instruction | None:
    """Transpose operands whose groups do not collapse to batch, free, contracting dimensions."""
    if node.shape.num_elements == 0:
        return None
    a = dot_attributes(node)
    groups = [
        g._replace(contracting=order)
        for g, order in zip(operand_dimensions(node), contraction_order(node))
    ]
    moves = _moves(node, groups)
    if not any(moves):
        return None
    b = Emit(node)
    lhs, rhs = (
        _in_order(b, x, g) if moved else x for x, g, moved in zip(node.operands, groups, moves)
    )
    (lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting) = (
        _numbers(g) if moved else (g.batch, g.contracting) for g, moved in zip(groups, moves)
    )
    numbers = DotAttributes(
        lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, a.precision, a.algorithm
    )
    return b.add(Opcode.DOT, (lhs, rhs), numbers, shape=node.shape)


def _moves(node: Instruction, groups: Sequence[OperandDimensions]) -> list[bool]:
    """Which operands to transpose. The batch dimensions may form two nested groups, the same for
    both operands."""
    shapes = [operand.shape.dimensions for operand in node.operands]
    moves = [
        any(collapse(dims, part) is None for part in (g.free, g.contracting))
        for dims, g in zip(shapes, groups)
    ]
    choices = []
    for split in range(max(len(groups[0].batch), 1)):
        parts = [(g.batch[:split], g.batch[split:]) for g in groups]
        apart = [
            any(collapse(dims, part) is None for part in pair) for dims, pair in zip(shapes, parts)
        ]
        choices.append([x or y for x, y in zip(moves, apart)])
    return min(choices, key=sum)


def _in_order(b: Emit, x: Instruction, groups: OperandDimensions) -> Instruction:
    """The operand with the dimensions of each group next to each other."""
    order = (*groups.batch, *groups.free, *groups.contracting)
    shape = x.shape.with_dimensions([x.shape.dimensions[d] for d in order])
    return b.add(Opcode.TRANSPOSE, (x,), DimensionsAttributes(order), shape=shape)


def _numbers(groups: OperandDimensions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batch and contracting dimensions of an operand in canonical order."""
    rank = sum(len(group) for group in groups)
    return tuple(range(len(groups.batch))), tuple(range(rank - len(groups.contracting), rank))


class DotDecomposer(RuleTablePass):
    """Make every dot a batch of matrix products with one stride for rows, columns and the sum.

    Why: that is what a GEMM takes. Dimensions that already have a single stride stay where they
    are, transposed or not; the others are transposed, which then fuses with what computes them.
    Needs: transpose folding is done; it would take the transposes out again.
    Leaves: in every dot, free and contracting dimensions collapse to one, and batch dimensions to
    two at most.
    """

    name = "dot-decomposer"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_canonical,)}
