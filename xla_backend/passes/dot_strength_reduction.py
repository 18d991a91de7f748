"""Dots that are cheaper as arithmetic: outer products, and inner products of vectors."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes, dot_sizes, operand_dimensions
from xla_backend.passes.emit import Emit, adopt

# Types in which a reduce adds as a dot does: the products need no wider type.
_SUMMABLE = frozenset({PrimitiveType.F32, PrimitiveType.F64, PrimitiveType.S32, PrimitiveType.U32})


def _outer_product(node: Instruction) -> Instruction | None:
    """A product contracted over one element is a multiply."""
    a = dot_attributes(node)
    lhs, rhs = node.operands
    if any(lhs.shape.dimensions[d] != 1 for d in a.lhs_contracting):
        return None
    batch = len(a.lhs_batch)
    lhs_free = lhs.shape.rank - batch - len(a.lhs_contracting)
    operands = (
        (lhs, a.lhs_contracting, a.lhs_batch, batch),
        (rhs, a.rhs_contracting, a.rhs_batch, batch + lhs_free),
    )
    places = []
    for x, contracting, batches, first in operands:
        left = [d for d in range(x.shape.rank) if d not in contracting]
        free = [d for d in left if d not in batches]
        place = [batches.index(d) if d in batches else first + free.index(d) for d in left]
        if place != sorted(place):
            return None
        places.append(place)
    b = Emit(node)
    sides = []
    for (x, contracting, _, _), place in zip(operands, places):
        x = b.reshape(x, [n for d, n in enumerate(x.shape.dimensions) if d not in contracting])
        x = b.convert(x, node.shape.element_type)
        if place != list(range(node.shape.rank)):
            x = b.broadcast(x, node.shape.dimensions, place)
        sides.append(x)
    return b.binary(Opcode.MULTIPLY, *sides)


def _inner_products(node: Instruction) -> Instruction | None:
    """Vectors times vectors: the sum of a product, which fuses with what computes the vectors."""
    sizes = dot_sizes(node)
    type = node.shape.element_type
    if sizes.m != 1 or sizes.n != 1 or 0 in sizes or type not in _SUMMABLE:
        return None
    types = [operand.shape.element_type for operand in node.operands]
    if any(t is not type and not (t.is_integral and type.is_integral) for t in types):
        return None
    b = Emit(node)
    sides = []
    for x, groups in zip(node.operands, operand_dimensions(node)):
        dims = [x.shape.dimensions[d] for d in (*groups.batch, *groups.contracting)]
        order = (*groups.batch, *groups.free, *groups.contracting)
        if order != tuple(range(x.shape.rank)):
            x = b.transpose(x, order)
        sides.append(b.convert(b.reshape(x, dims), type))
    batches = len(dot_attributes(node).lhs_batch)
    product = b.binary(Opcode.MULTIPLY, *sides)
    total = b.reduce_sum(product, range(batches, product.shape.rank))
    return b.reshape(total, node.shape.dimensions)


class DotStrengthReduction(RuleTablePass):
    """Outer products -> multiply, inner products of vectors -> reduce of a multiply.

    Why: arithmetic fuses with its neighbours and runs in vector lanes and on all threads; a
    library call for a handful of operations is mostly the call.
    Needs: nothing.
    Leaves: no dot over one element with its batch dimensions in front, and no f32, f64 or 32-bit
    integer dot without free dimensions.
    """

    name = "dot-strength-reduction"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_outer_product, _inner_products)}

    def run_on_computation(self, computation: Computation) -> bool:
        changed = super().run_on_computation(computation)
        if changed:
            adopt(computation)
        return changed
