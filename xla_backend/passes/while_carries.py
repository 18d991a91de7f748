"""Edits of a loop's state that several passes share."""

from __future__ import annotations

from xla_backend.hlo.attributes import GetTupleElementAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape


def is_plain(loop: Instruction) -> bool:
    """The state is a flat tuple of arrays, built before the loop, taken apart in sight."""
    condition, body = loop.called
    root = body.root
    if root is None or root.opcode is not Opcode.TUPLE or loop.is_root:
        return False
    if loop.operands[0].opcode is not Opcode.TUPLE:
        return False
    if not all(s.is_array for s in loop.shape.tuple_shapes):
        return False
    users = (*loop.users, *condition.parameters[0].users, *body.parameters[0].users)
    return all(u.opcode is Opcode.GET_TUPLE_ELEMENT for u in users)


def add_carries(loop: Instruction, values: list[Instruction]) -> list[Instruction]:
    """Append carries with these initial values to a plain loop, handed on unchanged.

    Returns:
      The carries in the body. The body's root names them last, in order.
    """
    computation = loop.parent
    condition, body = loop.called
    parameter, root, initial = body.parameters[0], body.root, loop.operands[0]
    assert computation is not None and root is not None
    starts = [*initial.operands, *values]
    shape = Shape.tuple([v.shape for v in starts])
    start = Instruction(Opcode.TUPLE, shape, starts, metadata=initial.metadata)
    computation.replace_operand(loop, 0, computation.add(start))
    computation.remove_if_dead(initial)
    loop.shape = condition.parameters[0].shape = parameter.shape = shape
    first = len(root.operands)
    elements = [
        body.add(
            Instruction(
                Opcode.GET_TUPLE_ELEMENT,
                value.shape,
                (parameter,),
                GetTupleElementAttributes(number),
            )
        )
        for number, value in enumerate(values, first)
    ]
    results = [*root.operands, *elements]
    body.set_root(body.add(Instruction(Opcode.TUPLE, shape, results, metadata=root.metadata)))
    body.remove(root)
    return elements
