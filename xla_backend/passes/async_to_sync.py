"""Operations that start, go on and end, as operations that just run."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import CallAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit, rewrite_each

# The opcode a -start half stands for.
_SYNCHRONOUS = {
    Opcode.ALL_REDUCE_START: Opcode.ALL_REDUCE,
    Opcode.ALL_GATHER_START: Opcode.ALL_GATHER,
    Opcode.COLLECTIVE_PERMUTE_START: Opcode.COLLECTIVE_PERMUTE,
}
# Which member of the started tuple the -done half gives; None: all of it.
_RESULT: dict[Opcode, int | None] = {
    Opcode.ALL_REDUCE_DONE: None,
    Opcode.ALL_GATHER_DONE: 1,
    Opcode.COLLECTIVE_PERMUTE_DONE: 1,
    Opcode.COPY_DONE: 0,
    Opcode.ASYNC_DONE: 1,
}


class AsyncToSync(HloPass):
    """x-start -> x and a tuple in the shape of the start; x-done -> its member; updates go.

    Each half is rewritten by itself, so pairs may span a loop.

    Why: one thread runs the entry function; work is spread inside kernels, not between them.
    Needs: nothing.  Leaves: no -start, -update or -done instruction but those of send and recv.
    """

    name = "async-to-sync"

    def run_on_computation(self, computation: Computation) -> bool:
        return rewrite_each(computation, _REWRITES)


def _start(node: Instruction) -> Instruction:
    b = Emit(node)
    opcode = _SYNCHRONOUS[node.opcode]
    if opcode is Opcode.ALL_REDUCE:
        return b.add(opcode, node.operands, node.attributes, node.called, shape=node.shape)
    shape = node.shape.tuple_shapes[1]
    result = b.add(opcode, node.operands, node.attributes, node.called, shape=shape)
    (given, *more) = node.operands
    return _started(b, node, b.tuple([given, *more]) if more else given, result)


def _async_start(node: Instruction) -> Instruction:
    b = Emit(node)
    result = b.add(
        Opcode.CALL,
        node.operands,
        CallAttributes(),
        node.called,
        shape=node.shape.tuple_shapes[1],
    )
    return _started(b, node, b.tuple(node.operands), result)


def _copy_start(node: Instruction) -> Instruction:
    b = Emit(node)
    (operand,) = node.operands
    copy = b.add(Opcode.COPY, (operand,), shape=operand.shape)
    return _started(b, node, copy, operand)


def _started(b: Emit, node: Instruction, *members: Instruction) -> Instruction:
    """The tuple of a -start half; what follows the result is of no meaning."""
    contexts = node.shape.tuple_shapes[len(members) :]
    return b.tuple([*members, *(_nothing(b, shape) for shape in contexts)])


def _nothing(b: Emit, shape: Shape) -> Instruction:
    if shape.is_tuple:
        return b.tuple([_nothing(b, member) for member in shape.tuple_shapes])
    if shape.is_token:
        return b.add(Opcode.AFTER_ALL, (), shape=shape)
    return b.splat(shape, 0)


def _update(node: Instruction) -> Instruction:
    return node.operands[0]


def _done(node: Instruction) -> Instruction:
    member = _RESULT[node.opcode]
    started = node.operands[0]
    return started if member is None else Emit(node).gte(started, member)


_REWRITES: dict[Opcode, Callable[[Instruction], Instruction]] = {
    **dict.fromkeys(_SYNCHRONOUS, _start),
    **dict.fromkeys(_RESULT, _done),
    Opcode.COPY_START: _copy_start,
    Opcode.ASYNC_START: _async_start,
    Opcode.ASYNC_UPDATE: _update,
}
AsyncToSync.opcodes = frozenset(_REWRITES)
