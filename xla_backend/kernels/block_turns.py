"""Blocks of a grid that wait for each other, in the interpreter: whose turn it is.

A device holds some blocks at once and begins another one when one of them ends, which it does not
do before. So do blocks here: they take turns at barriers, tickets and signals, and a block that
waits has its next turn when another one has done something. Where all wait, they do so for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from xla_backend.kernels.ir import HANDOVERS, Barrier, Statement, walk
from xla_backend.kernels.races import KernelRunError
from xla_backend.process.light_dataclasses import dataclass, field

# Where a block may leave the turn to another one.
MEETINGS = (Barrier, *HANDOVERS)


class DeadlockError(KernelRunError):
    """Blocks wait for what nobody will do."""


@dataclass(frozen=True, slots=True)
class BlockTurns:
    """How blocks take turns. `held`: how many have begun and not ended, at the most. `choose(n)`:
    which of n blocks that may go on does, where they are in order of their last turns."""

    held: int = 3
    choose: Callable[[int], int] = lambda n: 0


TAKE_TURNS = BlockTurns()


@dataclass(slots=True)
class BlockRun:
    """A block that has begun. `state`: what the interpreter keeps of it; `waits`: for what."""

    number: int
    steps: Iterator[Any] = field(default_factory=lambda: iter(()))
    state: Any = None
    waits: str | None = None


def waits_for_blocks(stage: Statement) -> bool:
    """Whether blocks of a stage know of each other while they run."""
    return any(isinstance(s, HANDOVERS) for s in walk([stage]))


def each_turn(kernel: str, order: Iterable[int], how: BlockTurns) -> Iterator[BlockRun]:
    """The block that goes on, until all have ended: the caller takes `steps` of it until it `waits`
    or may leave the turn, and sets `state` to None where they have come to an end.

    Raises:
      DeadlockError: all blocks that have begun wait.
    """
    coming = iter(order)
    held: list[BlockRun] = []
    while True:
        held += map(BlockRun, islice(coming, how.held - len(held)))
        if not held:
            return
        ready = [block for block in held if block.waits is None]
        if not ready:
            texts = "; ".join(f"block {block.number} at {block.waits}" for block in held)
            raise DeadlockError(
                f"kernel {kernel!r}: {texts}: all blocks that have begun wait, and no other can "
                "begin: wait for blocks with lower tickets only, and signal on every way"
            )
        block = ready[how.choose(len(ready))]
        yield block
        held.remove(block)
        if block.waits is None:
            for other in held:
                other.waits = None
        if block.state is not None:
            held.append(block)
