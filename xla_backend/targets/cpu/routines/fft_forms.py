"""Which part of a Fourier transform's routine a program needs: it knows the length and how the
numbers lie, so that one way through memory and the passes of a few radices are enough code.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from xla_backend.targets.cpu.routines.fft_plan import (
    RADICES,
    convolution_length,
    factors,
    large_prime,
)

# Radices that lengths have most often, by the name of such a form. A power of two has one of the
# first three.
RADIX_SETS: Mapping[str, tuple[int, ...]] = {
    "eights": (8,), "fours": (8, 4), "twos": (8, 2), "small": (8, 4, 2, 3, 5),
    "sevens": (8, 4, 2, 3, 5, 7),
}  # fmt: skip
# One of these and Rader's pass, whose convolution is of such a length, too.
CONVOLVED, CONVOLUTION = "convolved", "sevens"
OTHERS = "any"
# Numbers of a problem lie one behind the other, or as the same ones of all problems do.
ROWS, COLUMNS = "rows", "columns"
_ROTATED = "rotated"


class Form(NamedTuple):
    """What a routine is for. Everything, unless it says otherwise.

    Attributes:
      radices: the name of a set of `RADIX_SETS`, CONVOLVED, or OTHERS, which is any.
      read, written: how the operand and the result lie, ROWS or COLUMNS; None: any.
      rotated: whether results are multiplied by roots; None: it depends.
    """

    radices: str = OTHERS
    read: str | None = None
    written: str | None = None
    rotated: bool | None = None

    @property
    def suffix(self) -> str:
        """What a routine's name ends in."""
        if self == ANY:
            return ""
        words = [self.radices, self.read, self.written, *([_ROTATED] if self.rotated else ())]
        return f".{'_'.join(str(word) for word in words)}"


ANY = Form()
FORMS = [
    Form(*words)
    for words in itertools.product(
        (*RADIX_SETS, CONVOLVED, OTHERS), (ROWS, COLUMNS), (ROWS, COLUMNS), (False, True)
    )
]


def form_of(operands: Mapping[str, Any]) -> Form:
    """The form for the operands of a routine, by the names of its parameters."""
    read, written = (
        _lies(operands[f"{side}_inner"], operands[f"{side}_step"]) for side in ("in", "out")
    )
    if read is None or written is None:
        return ANY
    return Form(_radices_of(operands["n"]), read, written, operands["rotations"] is not None)


def _radices_of(n: int) -> str:
    """The name of the least set with the passes of a length."""
    found, prime = set(factors(n) or RADICES), large_prime(n)
    if prime is None:
        return next((name for name, each in RADIX_SETS.items() if found <= {*each}), OTHERS)
    found = found - {prime} | set(factors(convolution_length(prime)) or ())
    return CONVOLVED if found <= {*RADIX_SETS[CONVOLUTION]} else OTHERS


def _lies(inner: int, step: int) -> str | None:
    if (inner == 1) == (step == 1):
        return None
    return COLUMNS if inner == 1 else ROWS
