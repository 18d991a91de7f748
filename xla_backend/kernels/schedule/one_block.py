"""Independent loops inside loops that are not, by the threads of one block.

    for i in range(8):                     for block in grid(1):
        for j in range(100):                   for thread in threads(128):
            out[j] = out[j] + p[...]   ->          for i in range(8):
                                                       if thread < 100:
                                                           out[thread] = out[thread] + p[...]
                                                       barrier()

All threads go through what needs an order together, and each computes the values there for itself;
what is stored there is stored by one of them. The loops that do not need an order are divided
between them. A block waits for all of its threads before it writes what they may have read, and
after that; what one iteration of a divided loop reads where it writes is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.index import Atom, Index, Var, constant
from xla_backend.kernels.ir import (
    PURE,
    Barrier,
    Buffer,
    If,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
)
from xla_backend.kernels.schedule.collapsing import collapse, nest_of
from xla_backend.kernels.schedule.copying import replace_atoms
from xla_backend.kernels.schedule.dependence import overwrites, written
from xla_backend.kernels.schedule.splitting import ScheduleError


def shared_loops(statements: Sequence[Statement]) -> list[Loop]:
    """The outermost loops among these and inside them whose iterations need no order."""
    found: list[Loop] = []
    for s in statements:
        if isinstance(s, Loop):
            found += [s] if nest_of(s) else shared_loops(s.body)
    return found


def divide_among_threads(
    kernel: Kernel, stages: Sequence[Statement], around: Sequence[Loop], threads: int
) -> Loop:
    """Run stages that stand beside each other by the threads of a block; returns the grid loop.
    `around`: independent loops directly inside each other, the first of which is the one stage;
    there is a block for each of their iterations then.

    Raises:
      ScheduleError: something besides loops, stores and values is there.
    """
    block = Var("block", 1, 0)
    body = list(stages)
    if around:
        one = collapse(kernel, around)
        stages, body = [one], one.body
        block.extent = one.var.extent
        here = Index.of(block) if block.extent > 1 else constant(0)
        atoms: dict[Atom, Index] = {one.var: here}
        replace_atoms(body, atoms)
    for loop in shared_loops(body):
        flat = collapse(kernel, nest_of(loop))
        body = [flat if s is loop else s for s in body]
    thread = Var("thread", threads, 1)
    inside = _Divider(thread).block(body)
    if isinstance(inside[-1], Barrier):
        inside.pop()
    inner = Loop(thread, inside, independent=True, kind=LoopKind.THREAD)
    grid = Loop(block, [inner], independent=True, kind=LoopKind.GRID)
    at = kernel.stages.index(stages[0])
    kernel.stages[at : at + len(stages)] = [grid]
    return grid


class _Divider:
    def __init__(self, thread: Var) -> None:
        self.thread = thread
        # What threads may have read since they were last together.
        self.pending: set[Buffer] = set()

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, Load):
                self.pending.add(s.buffer)
            if isinstance(s, PURE):
                result.append(s)
            elif isinstance(s, Store):
                self._write([s], [If(Index.of(self.thread), 0, 1, [s])], result)
            elif isinstance(s, Loop) and nest_of(s):
                self._write(s.body, [self._divided(s)], result)
            elif isinstance(s, Loop):
                # A round begins where another one ended.
                self.pending |= _read_by_all(s.body)
                s.body = self.block(s.body)
                result.append(s)
            else:
                raise ScheduleError(f"threads cannot go through {type(s).__name__} together")
        return result

    def _write(
        self, what: Sequence[Statement], how: Sequence[Statement], out: list[Statement]
    ) -> None:
        if overwrites(written(what), self.pending):
            out.append(Barrier())
        out += [*how, Barrier()]
        self.pending.clear()

    def _divided(self, loop: Loop) -> Statement:
        """Iterations by the thread, as many times as it takes."""
        count, threads = loop.var.extent, self.thread.extent
        here = Index.of(self.thread)
        rounds = -(-count // threads)
        turn = Var("turn", rounds, self.thread.depth + 1)
        if rounds > 1:
            here = here + Index.of(turn) * threads
        atoms: dict[Atom, Index] = {loop.var: here}
        replace_atoms(loop.body, atoms)
        inside: list[Statement] = loop.body
        if here.bounds[1] >= count:
            inside = [If(here, 0, count, inside)]
        if rounds > 1:
            return Loop(turn, inside, independent=True)
        return inside[0] if len(inside) == 1 else Loop(turn, inside, independent=True)


def _read_by_all(statements: Sequence[Statement]) -> set[Buffer]:
    """What all threads read, each for itself."""
    found: set[Buffer] = set()
    for s in statements:
        if isinstance(s, Load):
            found.add(s.buffer)
        elif isinstance(s, Loop) and not nest_of(s):
            found |= _read_by_all(s.body)
    return found
