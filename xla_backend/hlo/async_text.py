"""Asynchronous operations in HLO text: `negate-start(p)` for async-start of a one-line computation.

An async-start calls a computation; where that is a single operation on the parameters, the text
names the operation itself, and so do the -update and -done that follow. No computation is printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import Attributes, ParameterAttributes, RawAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import BY_TEXT, Opcode
from xla_backend.hlo.shape import Shape

EXECUTION_THREAD = "async_execution_thread"
_STAGES = {
    "start": Opcode.ASYNC_START,
    "update": Opcode.ASYNC_UPDATE,
    "done": Opcode.ASYNC_DONE,
}
_STAGE_TEXT = {opcode: text for text, opcode in _STAGES.items()}
_CHAINED = (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE)
_NEVER_WRAPPED = (Opcode.PARAMETER, Opcode.CONSTANT, *_STAGE_TEXT)


def split_async(text: str) -> tuple[Opcode, Opcode] | None:
    """`negate-start` as (async-start, negate); None if the text has another form."""
    base, _, stage = text.rpartition("-")
    wrapped = BY_TEXT.get(base)
    if stage not in _STAGES or wrapped is None or wrapped in _NEVER_WRAPPED:
        return None
    return _STAGES[stage], wrapped


def is_start_shape(shape: Shape, operands: int) -> bool:
    """Whether a shape has the form ((operands...), result, state...)."""
    members = shape.tuple_shapes
    return (
        shape.is_tuple
        and len(members) >= 2
        and members[0].is_tuple
        and len(members[0].tuple_shapes) == operands
    )


def wrap_operation(
    opcode: Opcode, shape: Shape, operands: Sequence[Instruction], attributes: Attributes
) -> Computation:
    """A computation of one operation on parameters shaped like `operands`."""
    computation = Computation(f"wrapped_{opcode.value.replace('-', '_')}")
    parameters = [
        computation.add(
            Instruction(Opcode.PARAMETER, o.shape, (), ParameterAttributes(i)), f"param_{i}"
        )
        for i, o in enumerate(operands)
    ]
    root = Instruction(opcode, shape, parameters, attributes)
    computation.set_root(computation.add(root))
    return computation


def start_attributes(thread: str | None) -> RawAttributes:
    """Attributes of an async-start; `thread` is quoted text."""
    return RawAttributes(((EXECUTION_THREAD, thread),) if thread else ())


def start_of(node: Instruction) -> Instruction | None:
    """The async-start that an asynchronous operation belongs to."""
    while node.opcode in _CHAINED and node.operands:
        node = node.operands[0]
    return node if node.opcode is Opcode.ASYNC_START else None


def wrapped_operation(node: Instruction) -> Instruction | None:
    """The operation that stands for an asynchronous one in the text; None if its computation is
    more than one operation on the parameters in order."""
    if node.opcode not in _STAGE_TEXT:
        return None
    start = start_of(node)
    if start is None or len(start.called) != 1:
        return None
    computation = start.called[0]
    root = computation.root
    if root is None or root.opcode in _NEVER_WRAPPED:
        return None
    if root.operands != computation.parameters or len(computation) != len(root.operands) + 1:
        return None
    return root


def async_opcode_text(stage: Opcode, wrapped: Opcode) -> str:
    """`negate-start`."""
    return f"{wrapped.value}-{_STAGE_TEXT[stage]}"
