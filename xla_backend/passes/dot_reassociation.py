"""(A B) C -> A (B C), where that takes far fewer multiplications."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import DotAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes
from xla_backend.passes.emit import Emit

_TYPES = frozenset({PrimitiveType.F32, PrimitiveType.F64})
# The product of three matrices changes in its last bits: only for a gain worth it.
_LEAST_GAIN = 2.0


def _is_plain(dot: Instruction) -> bool:
    """A product of two matrices."""
    a = dot_attributes(dot)
    ranks = [operand.shape.rank for operand in dot.operands]
    types = {n.shape.element_type for n in (dot, *dot.operands)}
    return (
        ranks == [2, 2] and len(a.lhs_contracting) == 1 and len(types & _TYPES) == len(types) == 1
    )


def _reassociated(node: Instruction) -> Instruction | None:
    if node.opcode is not Opcode.DOT or not _is_plain(node):
        return None
    numbers = dot_attributes(node)
    contracting = (numbers.lhs_contracting[0], numbers.rhs_contracting[0])
    for side, inner in enumerate(node.operands):
        single = list(inner.users) == [node] and node.operands[1 - side] is not inner
        if inner.opcode is Opcode.DOT and single and _is_plain(inner):
            found = _regrouped(node, inner, side, contracting)
            if found is not None:
                return found
    return None


def _regrouped(
    node: Instruction, inner: Instruction, side: int, contracting: tuple[int, int]
) -> Instruction | None:
    """`inner` is operand `side` of `node`. Its operand that the sum runs over (`near`) goes to the
    third matrix, the other one (`far`) to their product."""
    third, third_dim = node.operands[1 - side], contracting[1 - side]
    a = dot_attributes(inner)
    owner = contracting[side]  # dimension 0 of a product is its lhs's, dimension 1 its rhs's
    near, far = inner.operands[owner], inner.operands[1 - owner]
    sums = (a.lhs_contracting[0], a.rhs_contracting[0])
    near_sum, far_sum = sums[owner], sums[1 - owner]
    k, n = near.shape.dimensions[near_sum], near.shape.dimensions[1 - near_sum]
    m = far.shape.dimensions[1 - far_sum]
    p = third.shape.dimensions[1 - third_dim]
    before, after = m * k * n + m * n * p, k * n * p + m * k * p
    if before < _LEAST_GAIN * after or math.prod((k, n, m, p)) == 0:
        return None
    b = Emit(node)
    if side == 0:
        pair = _product(b, node, (near, 1 - near_sum), (third, third_dim), (k, p))
        return _product(b, node, (far, far_sum), (pair, 0), (m, p))
    pair = _product(b, node, (third, third_dim), (near, 1 - near_sum), (p, k))
    return _product(b, node, (pair, 1), (far, far_sum), (p, m))


def _product(
    b: Emit,
    like: Instruction,
    lhs: tuple[Instruction, int],
    rhs: tuple[Instruction, int],
    dims: tuple[int, int],
) -> Instruction:
    """Two matrices, each with the dimension that is summed over."""
    a = dot_attributes(like)
    numbers = DotAttributes((lhs[1],), (rhs[1],), (), (), a.precision, a.algorithm)
    return b.add(Opcode.DOT, (lhs[0], rhs[0]), numbers, shape=like.shape.with_dimensions(dims))


class DotReassociation(RuleTablePass):
    """dot(dot(a, b), c) -> dot(a, dot(b, c)), in either order, for at least half the work.

    Why: u v^T w, or a low-rank update applied to vectors, written from left to right.
    Needs: transposes folded into dots. Changes rounding: for the highest level only.
    Leaves: no product of three f32 or f64 matrices whose other grouping takes less than half.
    """

    name = "dot-reassociation"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_reassociated,)}
