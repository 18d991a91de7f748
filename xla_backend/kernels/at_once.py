"""What the interpreter runs in lockstep beside threads and lanes: many blocks of a grid, and rounds
of serial loops as if they were threads."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.ir import (
    HANDOVERS,
    AsyncCopy,
    AsyncGroup,
    AsyncWait,
    Atomic,
    AwaitArrivals,
    Barrier,
    BoxCopy,
    Buffer,
    BufferRole,
    ExpectBytes,
    GroupProduct,
    GroupWait,
    If,
    Kernel,
    Loop,
    LoopKind,
    MatrixLoad,
    MatrixTile,
    PrepareArrivals,
    Shuffle,
    Statement,
    accessed,
    walk,
)

# Loops of fewer rounds leave it to the loops inside.
_WORTH_ROUNDS = 8
# More rounds take memory, and are not much faster.
MOST_AT_ONCE = 1 << 12
# So do more threads of all blocks together, and more elements of all their shared memory.
_MOST_THREADS = 1 << 16
_MOST_SHARED = 1 << 20
_COOPERATIVE = (
    *(Atomic, Barrier, MatrixLoad, MatrixTile, Shuffle),
    *(AsyncCopy, AsyncGroup, AsyncWait, *HANDOVERS),
    *(PrepareArrivals, ExpectBytes, BoxCopy, AwaitArrivals, GroupProduct, GroupWait),
)


def blocks_at_once(kernel: Kernel, grid: Loop) -> int:
    """How many blocks of a grid to run at once."""
    shared = sum(b.size for b in kernel.buffers if b.role is BufferRole.SHARED)
    most = min(_MOST_THREADS // _width(kernel, grid.body), _MOST_SHARED // max(shared, 1))
    return max(min(most, grid.var.extent), 1)


def _width(kernel: Kernel, statements: Sequence[Statement]) -> int:
    """The most iterations of nested loops among statements that run in lockstep."""
    widest = 1
    for s in statements:
        if isinstance(s, If):
            widest = max(widest, _width(kernel, s.body))
        elif isinstance(s, Loop):
            inside = _width(kernel, s.body)
            if s.kind in (LoopKind.THREAD, LoopKind.LANES):
                inside *= s.var.extent
            elif own_buffers(kernel, s) is not None:
                inside *= min(s.var.extent, MOST_AT_ONCE)
            widest = max(widest, inside)
    return widest


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
    own = {b for s in inside for b in accessed(s) if not b.role.is_global}
    if not own:
        return []
    around = set(walk(kernel.stages)) - set(inside)
    shared = {b for s in around for b in accessed(s)}
    if not own.isdisjoint(shared) or any(b.role is BufferRole.SHARED for b in own):
        return None
    return [b for b in kernel.buffers if b in own]
