"""CHLO operations to HLO: opcodes where there are some, else decompositions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xla_backend.hlo.attributes import (
    CompareAttributes,
    DotAttributes,
    TopKAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo import special_functions
from xla_backend.stablehlo.expressions import Expression
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import (
    Dims,
    Rule,
    Scope,
    direction_of,
    fields_of,
    integer,
    ints,
    invalid,
    unsupported,
    word,
)
from xla_backend.stablehlo.rules_elementwise import ELEMENTWISE_OPCODES, elementwise
from xla_backend.stablehlo.rules_shape import broadcast_in_dim
from xla_backend.stablehlo.rules_structured import precisions

P = PrimitiveType
Formula = Callable[..., Expression]

_OPCODES = {
    "acos": Opcode.ACOS,
    "acosh": Opcode.ACOSH,
    "asin": Opcode.ASIN,
    "asinh": Opcode.ASINH,
    "atanh": Opcode.ATANH,
    "cosh": Opcode.COSH,
    "erf": Opcode.ERF,
    "mulhi": Opcode.MULHI,
    "sinh": Opcode.SINH,
    "tan": Opcode.TAN,
}


def _formula(function: Formula, compute: PrimitiveType | None) -> Rule:
    """A decomposition for real floats. `compute`: the type it runs in; None: at least f32."""

    def rule(scope: Scope, op: Operation) -> Instruction:
        operands = [Expression(scope.builder, x) for x in scope.operands(op)]
        kind = operands[0].kind
        if not kind.is_floating:
            raise invalid(op, f"operands are floats, got {operands[0].node.shape}")
        wide = compute or (P.F64 if kind is P.F64 else P.F32)
        return function(*[x.convert(wide) for x in operands]).convert(kind).node

    return rule


def _direct(function: Formula) -> Rule:
    """A formula in the operands' own type."""

    def rule(scope: Scope, op: Operation) -> Instruction:
        return function(*[Expression(scope.builder, x) for x in scope.operands(op)]).node

    return rule


def _atan(x: Expression) -> Expression:
    if not x.kind.is_complex:
        return x.apply(Opcode.ATAN2, 1.0)
    # atan(z) = -i atanh(i z)
    turned = (-x.imag()).apply(Opcode.COMPLEX, x.real()).apply(Opcode.ATANH)
    return turned.imag().apply(Opcode.COMPLEX, -turned.real())


def _conj(x: Expression) -> Expression:
    if not x.kind.is_complex:
        return x
    return x.real().apply(Opcode.COMPLEX, -x.imag())


def _constant_like(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    value = op.attributes["value"].value
    return Expression(scope.builder, operand).full(value).node


def _top_k(scope: Scope, op: Operation) -> list[Instruction]:
    attributes = TopKAttributes(integer(op, "k"), op.attributes.get("largest", True))
    return scope.members(scope.builder.add(Opcode.TOPK, scope.operands(op), attributes))


# -- operations that broadcast their operands ------------------------------------------------------


def _broadcast_shape(op: Operation, shapes: list[Dims]) -> Dims:
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    sizes = []
    for column in zip(*padded):
        others = {d for d in column if d != 1}
        if len(others) > 1:
            raise invalid(op, f"shapes {[list(s) for s in shapes]} do not broadcast")
        sizes.append(others.pop() if others else 1)
    return tuple(sizes)


def broadcast_operands(scope: Scope, op: Operation) -> list[Instruction]:
    """Operands of one shape: aligned at the last dimension, or the smaller one's dimensions placed
    at `broadcast_dimensions`."""
    operands = scope.operands(op)
    rank = max(o.shape.rank for o in operands)
    given = op.attributes.get("broadcast_dimensions")
    shapes = []
    for operand in operands:
        dims = operand.shape.dimensions
        if given is not None and len(dims) < rank:
            placed = [1] * rank
            for d, position in zip(dims, ints(op, "broadcast_dimensions")):
                placed[position] = d
            dims = tuple(placed)
        shapes.append(dims)
    target = _broadcast_shape(op, shapes)
    results = []
    for operand, dims in zip(operands, shapes):
        offset = len(target) - len(dims)
        reshaped = scope.builder.reshape(operand, dims)
        positions = tuple(range(offset, len(target)))
        results.append(broadcast_in_dim(scope, op, reshaped, target, positions))
    return results


def _broadcasting(opcode: Opcode) -> Rule:
    def rule(scope: Scope, op: Operation) -> Instruction:
        return scope.add(op, opcode, broadcast_operands(scope, op))

    return rule


def _broadcasting_formula(function: Formula, compute: PrimitiveType | None) -> Rule:
    def rule(scope: Scope, op: Operation) -> Instruction:
        operands = [Expression(scope.builder, x) for x in broadcast_operands(scope, op)]
        kind = operands[0].kind
        wide = compute or kind
        return function(*[x.convert(wide) for x in operands]).convert(kind).node

    return rule


def _broadcast_compare(scope: Scope, op: Operation) -> Instruction:
    attributes = CompareAttributes(
        direction_of(op),
        word(op, "compare_type") == "TOTALORDER",
    )
    return scope.add(op, Opcode.COMPARE, broadcast_operands(scope, op), attributes)


# -- ragged_dot ------------------------------------------------------------------------------------


def _group_masks(
    builder: HloBuilder, sizes: Instruction, rows: int, kind: PrimitiveType
) -> Instruction:
    """[groups, rows]: 1 where the row belongs to the group. Groups follow one another."""
    groups = sizes.shape.dimensions[0]
    wide = builder.convert(sizes, P.S64)
    table = wide.shape.with_dimensions((groups, groups))
    # ends[g] = sum of sizes[0..g], as a product with a triangle of ones
    row = Expression(builder, builder.iota(table, 0))
    column = Expression(builder, builder.iota(table, 1))
    triangle = column.compare("LE", row).convert(P.S64)
    ends = builder.add(Opcode.DOT, [triangle.node, wide], DotAttributes((1,), (0,)))
    grid = wide.shape.with_dimensions((groups, rows))
    number = Expression(builder, builder.iota(grid, 1))
    end = Expression(builder, builder.broadcast(ends, grid.dimensions, (0,)))
    size = Expression(builder, builder.broadcast(wide, grid.dimensions, (0,)))
    inside = number.compare("LT", end) & number.compare("GE", end - size)
    return inside.convert(kind).node


def _ragged_dot(scope: Scope, op: Operation) -> Instruction:
    """Rows of each group times that group's matrix: lhs masked by group, then one product over
    groups and contracting dimensions (or, when the contracting dimension is ragged, one per
    group)."""
    lhs, rhs, sizes = scope.operands(op)
    fields = fields_of(op, "ragged_dot_dimension_numbers")
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    lb, rb, lc, rc = (fields.dims(f"{n}_dimensions") for n in names)
    dimensions = fields.dims("lhs_ragged_dimensions")
    if len(dimensions) != 1 or not 0 <= dimensions[0] < lhs.shape.rank:
        raise invalid(op, f"lhs_ragged_dimensions = {list(dimensions)} is no dimension of the lhs")
    (ragged,) = dimensions
    group = fields.dims("rhs_group_dimensions")
    builder, precision = scope.builder, precisions(op)
    if ragged in lb:
        return scope.add(op, Opcode.DOT, [lhs, rhs], DotAttributes(lc, rc, lb, rb, precision))
    if sizes.shape.rank != 1:
        raise unsupported(op, "group sizes of one dimension are supported")
    masks = _group_masks(builder, sizes, lhs.shape.dimensions[ragged], lhs.shape.element_type)
    dims = (masks.shape.dimensions[0], *lhs.shape.dimensions)
    spread = builder.broadcast(lhs, dims, range(1, len(dims)))
    mask = builder.broadcast(masks, dims, (0, 1 + ragged))
    # Not a product: rows of other groups may hold infinities.
    zero = Expression(builder, spread).full(0)
    chosen = (
        Expression(builder, mask).compare("NE", 0).select(Expression(builder, spread), zero).node
    )
    lb1, lc1 = tuple(d + 1 for d in lb), tuple(d + 1 for d in lc)
    if ragged in lc:
        count = dims[0]
        right = builder.broadcast(rhs, (count, *rhs.shape.dimensions), range(1, rhs.shape.rank + 1))
        attributes = DotAttributes(
            lc1, tuple(d + 1 for d in rc), (0, *lb1), (0, *(d + 1 for d in rb)), precision
        )
        return scope.add(op, Opcode.DOT, [chosen, right], attributes)
    attributes = DotAttributes((0, *lc1), (*group, *rc), lb1, rb, precision)
    return scope.add(op, Opcode.DOT, [chosen, rhs], attributes)


_BROADCASTING = (
    "add and atan2 complex divide maximum minimum multiply or power remainder shift_left "
    "shift_right_arithmetic shift_right_logical subtract xor"
)


def _broadcast_select(scope: Scope, op: Operation) -> Instruction:
    return scope.add(op, Opcode.SELECT, broadcast_operands(scope, op))


RULES: dict[str, Rule] = {
    **{f"chlo.{name}": elementwise(opcode) for name, opcode in _OPCODES.items()},
    **{
        f"chlo.broadcast_{name}": _broadcasting(ELEMENTWISE_OPCODES[name])
        for name in _BROADCASTING.split()
    },
    "chlo.atan": _direct(_atan),
    "chlo.bessel_i1e": _formula(special_functions.bessel_i1e, P.F64),
    "chlo.broadcast_compare": _broadcast_compare,
    "chlo.broadcast_next_after": _broadcasting_formula(special_functions.next_after, None),
    "chlo.broadcast_polygamma": _broadcasting_formula(special_functions.polygamma, P.F64),
    "chlo.broadcast_select": _broadcast_select,
    "chlo.broadcast_zeta": _broadcasting_formula(special_functions.zeta, P.F64),
    "chlo.conj": _direct(_conj),
    "chlo.constant_like": _constant_like,
    "chlo.digamma": _formula(special_functions.digamma, P.F64),
    "chlo.erf_inv": _formula(special_functions.erf_inv, None),
    "chlo.erfc": _formula(special_functions.erfc, None),
    "chlo.is_inf": _direct(lambda x: x.abs().compare("EQ", np.inf)),
    "chlo.is_neg_inf": _direct(lambda x: x.compare("EQ", -np.inf)),
    "chlo.is_pos_inf": _direct(lambda x: x.compare("EQ", np.inf)),
    "chlo.lgamma": _formula(special_functions.lgamma, P.F64),
    "chlo.next_after": _direct(special_functions.next_after),
    "chlo.polygamma": _formula(special_functions.polygamma, P.F64),
    "chlo.ragged_dot": _ragged_dot,
    "chlo.square": _direct(lambda x: x * x),
    "chlo.top_k": _top_k,
    "chlo.zeta": _formula(special_functions.zeta, P.F64),
}
