"""Which serial loops the interpreter may run in lockstep, as if their rounds were threads."""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.kernels.ir import (
    Atomic,
    Barrier,
    Buffer,
    BufferRole,
    Kernel,
    Load,
    Loop,
    LoopKind,
    MatrixTile,
    Move,
    Shuffle,
    Statement,
    Store,
    Transpose,
    walk,
)

# Loops of fewer rounds leave it to the loops inside.
_WORTH_ROUNDS = 8
# More rounds take memory, and are not much faster.
MOST_AT_ONCE = 1 << 12
_COOPERATIVE = (Atomic, Barrier, MatrixTile, Shuffle)


def own_buffers(kernel: Kernel, loop: Loop) -> list[Buffer] | None:
    """The buffers of which each round of a loop needs one of its own; None where the rounds are not
    independent, too few, or threads inside the loop work together."""
    if not loop.independent or loop.carries or loop.var.extent < _WORTH_ROUNDS:
        return None
    inside = list(walk(loop.body))
    if any(isinstance(s, _COOPERATIVE) for s in inside):
        return None
    loops = [s for s in inside if isinstance(s, Loop)]
    if any(s.kind is LoopKind.THREAD for s in loops):
        return None
    # One inside that has more rounds gains more.
    more = [s for s in loops if s.kind is LoopKind.SERIAL and s.var.extent > loop.var.extent]
    if any(own_buffers(kernel, s) is not None for s in more):
        return None
    own = {b for s in inside for b in _accessed(s) if not b.role.is_global}
    if not own:
        return []
    around = set(walk(kernel.stages)) - set(inside)
    shared = {b for s in around for b in _accessed(s)}
    if not own.isdisjoint(shared) or any(b.role is BufferRole.SHARED for b in own):
        return None
    return [b for b in kernel.buffers if b in own]


def _accessed(s: Statement) -> Iterator[Buffer]:
    if isinstance(s, Load | Store | Atomic):
        yield s.buffer
    elif isinstance(s, Move):
        yield from (s.buffer, s.target)
    elif isinstance(s, Transpose):
        yield from (s.source, s.target)
