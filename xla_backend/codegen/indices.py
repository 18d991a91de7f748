"""What indices tell of the arithmetic that computes them: its width, and what loops count in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from xla_backend.kernels.index import QUOTIENTS, Index, Var
from xla_backend.kernels.ir import (
    HANDOVERS,
    AsyncCopy,
    Atomic,
    AwaitArrivals,
    BoxCopy,
    Compute,
    ExpectBytes,
    GroupProduct,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    MatrixLoad,
    Move,
    Statement,
    Store,
    group_indices,
    walk,
)

# Half of what 32 bits hold: nothing that is added up on the way overflows either.
_LIMIT = (2**31 - 1) // 2


def reach(index: Index) -> tuple[int, int]:
    """The smallest and the largest number that computing an index may come by, that of its
    quotients and remainders among them."""
    low = high = index.constant
    for atom, c in index.terms.items():
        a, b = atom.bounds
        if isinstance(atom, QUOTIENTS):
            inner_low, inner_high = reach(atom.index)
            a, b = min(a, inner_low), max(b, inner_high)
        low += min(c * a, c * b)
        high += max(c * a, c * b)
    return low, high


def is_small(index: Index) -> bool:
    """Whether 32 bits hold an index and its parts, with room for a vector more."""
    low, high = reach(index)
    return low > -_LIMIT and high < _LIMIT


def index_element(index: Index) -> str:
    """The integer that holds an index, its parts, and all lanes past the end of a loop."""
    return "i32" if is_small(index) else "i64"


def is_narrow(statements: Sequence[Statement]) -> bool:
    """Whether 32 bits hold every index and every loop variable of some statements."""
    return all(_is_small_sum(index) for index in _indices(statements))


def _is_small_sum(index: Index) -> bool:
    """As `is_small`, also for what is added up in any order."""
    low = high = 0
    for atom, c in index.terms.items():
        if isinstance(atom, QUOTIENTS) and not _is_small_sum(atom.index):
            return False
        a, b = atom.bounds
        low += min(0, c * a, c * b)
        high += max(0, c * a, c * b)
    return max(high, -low) + abs(index.constant) < _LIMIT


_AT_ONE_PLACE = (Load, Store, Atomic, MatrixLoad, IndexValue, InRange, If, *HANDOVERS)


def _indices(statements: Sequence[Statement]) -> Iterator[Index]:
    for s in walk(list(statements)):
        if isinstance(s, _AT_ONE_PLACE):
            yield s.index
            if isinstance(s, InRange | If):
                yield s.index - s.low
                yield Index({}, s.high - s.low)
        elif isinstance(s, Move | AsyncCopy):
            yield s.index
            yield s.target_index
        elif isinstance(s, _OF_GROUPS):
            yield from group_indices(s)
        elif isinstance(s, Loop):
            yield Index.of(s.var) + 1
            if s.limits:
                step = step_of(s)
                yield from (limit * step for limit in s.limits)


_OF_GROUPS = (ExpectBytes, AwaitArrivals, BoxCopy, GroupProduct)
_INDEXED = (
    *(Load, Store, Move, AsyncCopy, Atomic, MatrixLoad),
    *(IndexValue, InRange, If, *HANDOVERS),
)


def step_of(loop: Loop) -> int:
    """The largest number that every use of a loop's variable is a multiple of: what the code
    counts in, so that it need not multiply."""
    step = 0
    for s in walk(loop.body):
        if s.__class__ is Compute:  # most are
            continue
        if isinstance(s, _INDEXED):
            step = _common(s.index, loop.var, step)
            if isinstance(s, Move | AsyncCopy):
                step = _common(s.target_index, loop.var, step)
        elif isinstance(s, _OF_GROUPS):
            for index in group_indices(s):
                step = _common(index, loop.var, step)
        elif isinstance(s, Loop):
            for limit in s.limits:
                step = _common(limit, loop.var, step)
        if step == 1:
            break
    return step or 1


def _common(index: Index, var: Var, step: int) -> int:
    for atom, c in index.terms.items():
        if atom is var:
            step = gcd(step, c)
        elif isinstance(atom, QUOTIENTS):
            step = _common(atom.index, var, step)
    return step
