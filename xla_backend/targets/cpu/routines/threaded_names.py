"""How the handlers and runners of threaded code are called, where these have what they are given,
and in which form values are in slots."""

from __future__ import annotations

from functools import cache

from xla_backend.hlo.types import PrimitiveType as P

PREFIX = "pyjax_threaded_"
BLOCK, ENTRY, RETURN = f"{PREFIX}block", f"{PREFIX}entry", f"{PREFIX}return"
# Puts a number into a slot.
CONSTANT = f"{PREFIX}constant"
# What a table exports: the subroutine of the program, and the word that is the address of optimised
# code, once there is any.
PROGRAM, OPTIMISED = "pyjax_program", "pyjax_optimised"
# Of the entry on disk with the code of a program's `entry`.
THUNK = "threaded thunk"
# Integers that routines give the kernels that they call.
CALLED_PARAMETERS = range(1, 9)
# Where the arguments of runners are in frames.
CONTEXT, NUMBER = 0, 8
OWN, PARAMETERS = 8, 16
ARGUMENTS, OUTPUTS, ARENA, STATUS = 0, 8, 16, 24
ENTRY_BYTES = 32
# The status of a program that is to be run anew, by its optimised code.
ANEW = -(1 << 31)

# Handlers for vectors take so many lanes at once, or half of them if an element has 64 bits, and
# run as often as their last operand says. Slots of vectors have room for a multiple of that, and
# what is computed in lanes that the vector does not have, means nothing.
LANES = 16
WIDE_LANES = 8
_WIDE = 8


def called(parameters: int) -> str:
    """The runner of kernels that routines call with so many integers."""
    return f"{PREFIX}called{parameters}"


@cache
def element_bytes(t: P) -> int:
    """The bytes of an element in a slot; 0 of a bit of a mask."""
    if t is P.PRED:
        return 0
    if t.is_floating:
        return 8 if t is P.F64 else 4
    return max(8, t.bits) // 8


@cache
def value_bytes(t: P, lanes: int) -> int:
    """The bytes of the slot of a value."""
    if lanes == 1:
        return 8
    whole = -(-lanes // LANES) * LANES
    return max(8, whole * element_bytes(t) or whole // 8)


@cache
def lanes_at_once(*types: P) -> int:
    """How many lanes a handler takes at once that has to do with elements of these types."""
    return WIDE_LANES if any(element_bytes(t) == _WIDE for t in types) else LANES
