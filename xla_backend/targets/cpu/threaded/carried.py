"""What loops of threaded code carry, and which of it need not be copied from round to round."""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.kernels.index import FloorDiv, Index, Mod
from xla_backend.kernels.ir import (
    Carry,
    Compute,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    LoopKind,
    Move,
    Statement,
    Store,
    Value,
)

Copy = tuple[int, int, int]  # target, source, bytes


def next_in_place(loop: Loop) -> list[bool]:
    """For each carried value whether its next one can be computed where it is itself: nothing in
    the body reads it later, or in any way but as an operand, or as what an inner loop begins
    with."""
    return [_is_in_place(carry, loop) for carry in loop.carries]


def _is_in_place(carry: Carry, loop: Loop) -> bool:
    phi, following = carry.phi, carry.next
    if any(other.next is phi for other in loop.carries):
        return False
    defined = False
    for s in loop.body:
        if isinstance(s, Compute):
            if defined and phi in s.operands:
                return False
            defined = defined or s.result is following
            continue
        reads = list(uses(s))
        if isinstance(s, Loop | If) and any(c.result is following for c in s.carries):
            if isinstance(s, Loop) and s.kind is not LoopKind.SERIAL:
                return False
            defined = True
            own = [c.init for c in s.carries if c.result is following]
            if reads.count(phi) > (1 if own == [phi] else 0):
                return False
        elif phi in reads:
            return False
    return defined


def uses(s: Statement) -> Iterator[Value]:
    """The values that a statement, or one inside it, reads."""
    if isinstance(s, Compute):
        yield from s.operands
    elif isinstance(s, Loop | If):
        for carry in s.carries:
            yield carry.init
            if carry.next is not None:
                yield carry.next
        for inner in s.body:
            yield from uses(inner)
        if isinstance(s, If):
            yield from _in_index(s.index)
        else:
            for limit in s.limits:
                yield from _in_index(limit)
            if s.combination is not None:
                yield from s.combination.values
                yield from s.combination.inits
    elif isinstance(s, Load | Store):
        yield from _in_index(s.index)
        if s.guard is not None:
            yield s.guard
        if isinstance(s, Store):
            yield from s.values
    elif isinstance(s, IndexValue | InRange):
        yield from _in_index(s.index)
    elif isinstance(s, Move):
        yield from _in_index(s.index)
        yield from _in_index(s.target_index)


def _in_index(index: Index) -> Iterator[Value]:
    for atom in index.terms:
        if isinstance(atom, Value):
            yield atom
        elif isinstance(atom, FloorDiv | Mod):
            yield from _in_index(atom.index)


def in_order(copies: list[Copy]) -> tuple[list[Copy], list[Copy]]:
    """Copies that are to be as if done at the same time: first ones that save what later ones
    overwrite (their targets are still to be given: they are the sources, negative), then all."""
    left = [copy for copy in copies if copy[0] != copy[1]]
    done: list[Copy] = []
    saved: list[Copy] = []
    while left:
        sources = {source for _, source, _ in left}
        free = next((copy for copy in left if copy[0] not in sources), None)
        if free is not None:
            left.remove(free)
            done.append(free)
            continue
        # Only rings are left: what the first one overwrites is saved.
        target = left[0][0]
        size = left[0][2]
        saved.append((-1 - target, target, size))
        left = [(t, -1 - target if s == target else s, n) for t, s, n in left]
    return saved, done
