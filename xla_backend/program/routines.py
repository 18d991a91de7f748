"""What a library routine promises, stated once: its operands, and the same work in NumPy.

A target's library is a mapping from name to `Routine`. The verifier checks calls against it, and
the stepper runs `reference` in place of native code: it takes the operands in order, with flat
arrays for memory (of the array's elements from the operand's address on), and writes into them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType


class Kind(enum.Enum):
    """What an operand is, and for memory what the routine does with it."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"  # reads and writes
    WORK = "work"  # memory for the routine's own use
    NUMBER = "number"
    NUMBERS = "numbers"  # an array of them
    KERNEL = "kernel"  # the reference gets a function of arrays and, by name, of parameters


# Named tuples, as a library has a thousand routines.
class Parameter(NamedTuple):
    """One operand. `type` is that of the elements; None: bytes. An optional one may be None.
    For an `origin` the address is that of an element inside its array, with others before it: the
    reference gets the pair (array, index)."""

    name: str
    kind: Kind
    type: PrimitiveType | None = None
    optional: bool = False
    origin: bool = False


class Routine(NamedTuple):
    """Fields:
    stops: it looks at signals, and leaves early when a program is to end.
    steady: the cycles of its steps are a good estimate; those of others only say when to look
      at signals.
    in_place: what is written and what is read, by name, that may be the same array.
    """

    name: str
    parameters: tuple[Parameter, ...]
    reference: Callable[..., None]
    stops: bool = False
    steady: bool = False
    in_place: tuple[tuple[str, str], ...] = ()
