"""Which handlers of threaded code there are for memory: what writes instructions must know, and
needs no writer of LLVM for."""

from __future__ import annotations

from functools import cache

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.targets.cpu.routines.threaded_names import LANES, element_bytes

ELEMENT_BYTES = (1, 2, 4, 8)
# Vectors of neighbours of so many lanes are moved by a handler of their own.
DIRECT_LANES = (2, 4, 8, 16, 32, 64, 128, 256)
# Values of these types are loaded and stored in one instruction, though slots have them in another
# form than memory.
CONVERTED = (P.PRED, P.BF16)
# What elements of memory are updated with, lane after lane, and their types, by which instructions
# are called.
UPDATES = (Opcode.ADD, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM)
UPDATED = (P.F32, P.F64, P.S32, P.S64, P.U32, P.U64)
# Operations of which one operand may be neighbours in memory, by type.
_ARITHMETIC = (Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM)
OPERANDS_IN_MEMORY = {
    P.F32: (*_ARITHMETIC, Opcode.DIVIDE),
    P.F64: (*_ARITHMETIC, Opcode.DIVIDE),
    P.S32: _ARITHMETIC,
}
# Bytes of elements and rows of square tiles; a row is a register at most.
TILES = tuple((size, rows) for rows in (8, 16, 32) for size in ELEMENT_BYTES if rows * size <= 64)


@cache
def is_as_in_memory(t: P) -> bool:
    """Whether an element is in a slot what it is in memory. The upper bits of a stored integer of
    less than a byte mean nothing."""
    return t.bits >= 8 and element_bytes(t) == t.byte_size


@cache
def stored_bytes(size: int, lanes: int) -> int:
    """The bytes of the slot of elements of `size` bytes as they are in memory."""
    return 8 if lanes == 1 else size * LANES * -(-lanes // LANES)
