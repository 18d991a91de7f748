"""Transposes of operands and results of dots, folded into the dimension numbers."""

from __future__ import annotations

from xla_backend.hlo.attributes import DotAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import dims_of


def _transposed_operand(node: Instruction) -> Instruction | None:
    """dot(transpose(x), y): the dot's dimension numbers say the same, if the free dimensions keep
    their order."""
    a = dot_attributes(node)
    lhs, rhs = node.operands
    left = _untransposed(lhs, a.lhs_contracting, a.lhs_batch)
    right = _untransposed(rhs, a.rhs_contracting, a.rhs_batch)
    if left is None and right is None:
        return None
    x, x_contracting, x_batch = left or (lhs, a.lhs_contracting, a.lhs_batch)
    y, y_contracting, y_batch = right or (rhs, a.rhs_contracting, a.rhs_batch)
    numbers = DotAttributes(
        x_contracting, y_contracting, x_batch, y_batch, a.precision, a.algorithm
    )
    return Emit(node).add(Opcode.DOT, (x, y), numbers, shape=node.shape)


def _untransposed(
    x: Instruction, contracting: tuple[int, ...], batch: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...], tuple[int, ...]] | None:
    if x.opcode is not Opcode.TRANSPOSE:
        return None
    p = dims_of(x)
    free = [p[d] for d in range(len(p)) if d not in contracting and d not in batch]
    if free != sorted(free):
        return None
    return x.operands[0], tuple(p[d] for d in contracting), tuple(p[d] for d in batch)


def _transpose_of_dot(node: Instruction) -> Instruction | None:
    """transpose(dot(a, b)) that swaps a's and b's dimensions -> dot(b, a)."""
    inner = node.operands[0]
    if inner.opcode is not Opcode.DOT or len(inner.users) != 1:
        return None
    a = dot_attributes(inner)
    batch = len(a.lhs_batch)
    lhs, rhs = inner.operands
    lhs_free = lhs.shape.rank - batch - len(a.lhs_contracting)
    rank = inner.shape.rank
    swapped = (*range(batch), *range(batch + lhs_free, rank), *range(batch, batch + lhs_free))
    if dims_of(node) != swapped:
        return None
    numbers = DotAttributes(
        a.rhs_contracting,
        a.lhs_contracting,
        a.rhs_batch,
        a.lhs_batch,
        a.precision[::-1],
        a.algorithm,
    )
    return Emit(node).add(Opcode.DOT, (rhs, lhs), numbers, shape=node.shape)


class TransposeFolding(RuleTablePass):
    """Let dots read transposed arrays where they lie.

    Why: a transpose is a pass over memory; a product takes any strides for the same price.
    Needs: chains of transposes merged.
    Leaves: no dot operand that is a transpose with its free dimensions in order, and no transpose
    that swaps the two sides of a dot's result.
    """

    name = "transpose-folding"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_transposed_operand,), Opcode.TRANSPOSE: (_transpose_of_dot,)}
