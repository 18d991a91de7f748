"""Where the buffers of a kernel lie that computes one instruction."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.ir import Buffer, BufferRole
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Slice


def arrays_of(builder: ProgramBuilder, node: Instruction) -> Callable[[Buffer], Slice]:
    """Operand buffers hold the operands of `node`, and output buffers its results, by number."""

    def place(buffer: Buffer) -> Slice:
        if buffer.role is BufferRole.OPERAND:
            return builder.slice(node.operands[buffer.number])
        return builder.slice(node, buffer.number)

    return place
