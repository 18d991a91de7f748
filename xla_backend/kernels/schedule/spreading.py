"""A loop of independent iterations spread over the threads of a grid.

    for i in range(1000):              for block in grid(2):
        out[i] = -p[i]        ->           for thread in threads(128):
                                               if 128*block + thread < 250:
                                                   for lane in lanes(4):
                                                       out[512*block + 4*thread + lane] = -p[...]

A thread does `lanes` neighbouring iterations at once, and that `each` times, a block's width apart,
so that the threads beside each other always access neighbours. Where it does so several times, all
loads come before what is done with them, to have more of them under way. What is left over after
whole vectors is done by threads of their own, one iteration each; blocks that are not whole ask
before each vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.ir import If, Kernel, Loop, LoopKind, Statement
from xla_backend.kernels.schedule.copying import Copy, interleaved, live
from xla_backend.kernels.schedule.dependence import divided
from xla_backend.kernels.schedule.splitting import ScheduleError, replace
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """How many threads a block has, and what each of them does: `each` times `lanes` neighbouring
    iterations."""

    threads: int
    lanes: int = 1
    each: int = 1


def spread(kernel: Kernel, loop: Loop, how: Spread) -> Loop:
    """Run a stage that is one loop by a grid of threads; returns the grid loop.

    Raises:
      ScheduleError: iterations of the loop need their order.
    """
    if not loop.independent or loop.carries or loop.limits:
        raise ScheduleError(f"iterations of loop {loop.var.name!r} need their order")
    if loop not in kernel.stages:
        raise ScheduleError(f"loop {loop.var.name!r} is not the whole of a stage")
    maker = _Spreader(loop, how)
    grid = Loop(maker.block, maker.body(), independent=True, kind=LoopKind.GRID)
    replace(kernel, loop, [grid])
    return grid


class _Spreader:
    def __init__(self, loop: Loop, how: Spread) -> None:
        self.var, self.how = loop.var, how
        self.groups, self.rest = divmod(loop.var.extent, how.lanes)
        depth = loop.var.depth
        # Iterations that are left over have a thread each, behind those of whole vectors.
        wanted = self.groups + self.rest
        self.per_block = how.threads * how.each
        self.block = Var("block", -(-wanted // self.per_block), depth)
        self.thread = Var("thread", how.threads, depth + 1)
        self.same, self.each = divided(loop.body, loop.var)

    def body(self) -> list[Statement]:
        whole = self.groups // self.per_block
        inside: list[Statement] = []
        block = Index.of(self.block) if self.block.extent > 1 else constant(0)
        first = block * self.per_block + Index.of(self.thread)
        if self.how.each == 1:
            inside = self._asked(first)
        else:
            if whole:
                inside += _where(block, 0, whole, self._vectors(self._places(first)))
            if whole < self.block.extent:
                inside += _where(block, whole, self.block.extent, self._one_by_one(first))
        threads = Loop(self.thread, inside, independent=True, kind=LoopKind.THREAD)
        return [*self.same, threads]

    def _places(self, first: Index) -> list[Index]:
        return [first + n * self.how.threads for n in range(self.how.each)]

    def _one_by_one(self, first: Index) -> list[Statement]:
        """The vectors of a thread that may not all be there."""
        turn = Var("turn", self.how.each, self.thread.depth + 1)
        body = self._asked(first + Index.of(turn) * self.how.threads)
        return [Loop(turn, body, independent=True)]

    def _asked(self, group: Index) -> list[Statement]:
        """A vector, or one of the iterations that are left over, if there are so many."""
        result: list[Statement] = []
        if self.groups:
            result += _where(group, 0, self.groups, self._vectors([group]))
        if self.rest:
            here = group + self.groups * (self.how.lanes - 1)
            alone = live(Copy({self.var: here}).block(self.each))
            result += _where(group, self.groups, self.groups + self.rest, alone)
        return result

    def _vectors(self, groups: Sequence[Index]) -> list[Statement]:
        """Vectors of iterations, statement by statement."""
        lanes = self.how.lanes
        lane = Var("lane", lanes, self.thread.depth + 1)
        within = Index.of(lane) if lanes > 1 else constant(0)
        copies = [Copy({self.var: group * lanes + within}) for group in groups]
        body = interleaved(self.each, copies)
        if lanes == 1:
            return body
        return [Loop(lane, body, independent=True, may_vectorize=True, kind=LoopKind.LANES)]


def _where(index: Index, low: int, high: int, body: list[Statement]) -> list[Statement]:
    """A body where low <= index < high, which its bounds may decide."""
    first, last = index.bounds
    if last < low or first >= high:
        return []
    return body if low <= first and last < high else [If(index, low, high, body)]
