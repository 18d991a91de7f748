"""Which dimensions of a result have a size known at run time only, from those of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.attributes import DimensionsAttributes, DotAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import RuleContext

Flags = Sequence[bool]
Propagation = Callable[[RuleContext], Flags]


def with_dynamic_dimensions(c: RuleContext, result: Shape) -> Shape:
    """The inferred `result` (of static sizes) with the dynamic dimensions that operands give it."""
    rule = _PROPAGATIONS.get(c.opcode)
    if rule is None:
        return result
    flags = rule(c)
    if result.is_tuple:
        return Shape.tuple([s.with_dynamic(flags) for s in result.tuple_shapes])
    return result.with_dynamic(flags) if result.is_array else result


def _any_operand(c: RuleContext) -> Flags:
    """Position by position: dynamic if it is in any operand; scalars say nothing."""
    flags = [s.dynamic_dimensions for s in c.shapes if s.rank]
    return [any(column) for column in zip(*flags)]


def _first_operand(c: RuleContext) -> Flags:
    return c.shapes[0].dynamic_dimensions


def _dimensions(c: RuleContext) -> tuple[int, ...]:
    assert isinstance(c.attributes, DimensionsAttributes)
    return c.attributes.dimensions


def _transpose(c: RuleContext) -> Flags:
    flags = c.shapes[0].dynamic_dimensions
    return [flags[d] for d in _dimensions(c)]


def _reduce(c: RuleContext) -> Flags:
    dropped = _dimensions(c)
    flags = [s.dynamic_dimensions for s in c.shapes[: len(c.shapes) // 2]]
    return [any(column) for d, column in enumerate(zip(*flags)) if d not in dropped]


def _windows(c: RuleContext) -> Flags:
    flags = [s.dynamic_dimensions for s in c.shapes[: len(c.shapes) // 2]]
    return [any(column) for column in zip(*flags)]


def _dot(c: RuleContext) -> Flags:
    a = c.attributes
    assert isinstance(a, DotAttributes)
    lhs, rhs = c.shapes[0].dynamic_dimensions, c.shapes[1].dynamic_dimensions
    flags = [lhs[i] or rhs[j] for i, j in zip(a.lhs_batch, a.rhs_batch)]
    used = {*a.lhs_batch, *a.lhs_contracting}
    flags += [f for i, f in enumerate(lhs) if i not in used]
    used = {*a.rhs_batch, *a.rhs_contracting}
    return flags + [f for i, f in enumerate(rhs) if i not in used]


_PROPAGATIONS: dict[Opcode, Propagation] = {
    **{op: _any_operand for op in Opcode if op.is_elementwise},
    Opcode.TRANSPOSE: _transpose,
    Opcode.REVERSE: _first_operand,
    Opcode.CONCATENATE: _any_operand,
    Opcode.SLICE: _first_operand,
    Opcode.DYNAMIC_UPDATE_SLICE: _first_operand,
    Opcode.PAD: _first_operand,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _windows,
    Opcode.SELECT_AND_SCATTER: _first_operand,
    Opcode.SCATTER: _first_operand,
    Opcode.SORT: _any_operand,
    Opcode.DOT: _dot,
}
# A bit cast between widths adds or drops a dimension; its shape is given.
del _PROPAGATIONS[Opcode.BITCAST_CONVERT]
