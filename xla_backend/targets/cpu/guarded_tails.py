"""The statements at the end of a body that only a store under a guard needs."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.ir import (
    Compute,
    Constant,
    IndexValue,
    InRange,
    Load,
    Statement,
    Store,
    Value,
)
from xla_backend.process.light_dataclasses import dataclass

_VALUES = (Compute, Constant, IndexValue, InRange, Load)


@dataclass(frozen=True)
class GuardedTail:
    """`start`: the number of the first statement that nothing needs where the guard is false."""

    guard: Value
    start: int


def guarded_tail(body: Sequence[Statement]) -> GuardedTail | None:
    """The tail of a body without carried values whose stores are all under the guard of its last
    one; None where there are other statements behind that which computes the guard."""
    last = body[-1]
    if not isinstance(last, Store) or last.guard is None:
        return None
    guard = last.guard
    for number in range(len(body) - 1, -1, -1):
        s = body[number]
        if isinstance(s, _VALUES):
            if s.result is guard:
                return GuardedTail(guard, number + 1)
        elif not isinstance(s, Store) or s.guard is not guard:
            return None
    return None  # the guard comes from outside of the body
