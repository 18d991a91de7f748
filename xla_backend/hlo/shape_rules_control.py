"""Shape rules of tuples, of opcodes that call computations, and of custom calls."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import (
    ConditionalAttributes,
    CustomCallAttributes,
    GetTupleElementAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import PRED, S32, U32, Rule, RuleContext


def _get_tuple_element(c: RuleContext) -> Shape:
    c.require_arity(1)
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, GetTupleElementAttributes)
    # get_tuple_element_c2
    c.require(operand.is_tuple, "the operand must be a tuple")
    # get_tuple_element_c1
    c.require(
        0 <= a.index < len(operand.tuple_shapes),
        f"index {a.index} is out of range for {len(operand.tuple_shapes)} members",
    )
    return operand.tuple_shapes[a.index]


def _tuple(c: RuleContext) -> Shape:
    return Shape.tuple(c.shapes)


def _while(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_called(2)
    init = c.shapes[0]
    # while_c1
    c.require_signature(c.called[0], [init], PRED, "condition")
    # while_c2
    c.require_signature(c.called[1], [init], init, "body")
    return init


def _conditional(c: RuleContext) -> Shape:
    a = c.attributes
    assert isinstance(a, ConditionalAttributes)
    # conditional_c1
    c.require(len(c.called) >= 1, "needs at least one branch")
    c.require_called(len(c.called))
    # conditional_c2
    c.require(
        len(c.shapes) == len(c.called) + 1,
        f"{len(c.called)} branches need {len(c.called)} operands after the selector",
    )
    if a.is_indexed:
        # conditional_c3
        c.require(c.shapes[0].compatible(S32), f"the branch index must be s32[], is {c.shapes[0]}")
    else:
        # conditional_c4
        c.require(c.shapes[0].compatible(PRED), f"the predicate must be pred[], is {c.shapes[0]}")
        # conditional_c5
        c.require(len(c.called) == 2, "a predicate chooses between exactly 2 branches")
    result = c.called[0].program_shape[1]
    for i, (branch, operand) in enumerate(zip(c.called, c.shapes[1:])):
        # conditional_c6, conditional_c7
        c.require_signature(branch, [operand], result, f"branch {i}")
    return result


def _call(c: RuleContext) -> Shape:
    c.require_called(1)
    # call_c1, fusion_c1
    return c.require_signature(c.called[0], c.shapes, None, "callee")


def _same(c: RuleContext) -> Shape:
    c.require_arity(1)
    return c.shapes[0]


def _custom_call(c: RuleContext) -> Shape:
    given, a = c.require_given(), c.attributes
    assert isinstance(a, CustomCallAttributes)
    if a.operand_layouts is not None:
        # custom_call_c1
        c.require(
            len(a.operand_layouts) == len(c.shapes),
            f"operand_layout_constraints has {len(a.operand_layouts)} shapes, there are "
            f"{len(c.shapes)} operands",
        )
        for i, (layout, shape) in enumerate(zip(a.operand_layouts, c.shapes)):
            # custom_call_c2
            c.require(
                layout.compatible(shape),
                f"operand_layout_constraints says {layout} of operand {i}, which is {shape}",
            )
    for output, number, index in a.output_to_operand_aliasing:
        # custom_call_c3
        c.require(0 <= number < len(c.shapes), f"output_to_operand_aliasing names operand {number}")
        target, source = given.member(output), c.shapes[number].member(index)
        # custom_call_c4
        c.require(
            target is not None and source is not None and target.compatible(source),
            f"output_to_operand_aliasing joins {source} (operand {number}) and {target}",
        )
    return given


def _fixed(shape: Shape) -> Callable[[RuleContext], Shape]:
    return lambda c: shape


CONTROL_RULES: dict[Opcode, Rule] = {
    Opcode.PARTITION_ID: _fixed(U32),
    Opcode.REPLICA_ID: _fixed(U32),
    Opcode.GET_TUPLE_ELEMENT: _get_tuple_element,
    Opcode.TUPLE: _tuple,
    Opcode.OPT_BARRIER: _same,
    Opcode.DOMAIN: _same,
    Opcode.WHILE: _while,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CALL: _call,
    Opcode.FUSION: _call,
    Opcode.CUSTOM_CALL: _custom_call,
}
