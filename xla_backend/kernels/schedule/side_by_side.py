"""Stages that need nothing of each other as one grid.

    for block in grid(2):                  for block in grid(5):
        for thread in threads(128):            for thread in threads(128):
            out[128*block + thread] = ...          if block < 2:
    for block in grid(3):            ->                out[128*block + thread] = ...
        for thread in threads(128):                if 2 <= block:
            out[128*block + ... + 256] =               out[128*block + thread] = ...

The parts of a concatenation, and outputs of several shapes, are such stages. One launch costs less
than several, and their blocks run at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xla_backend.kernels.index import Atom, Index, Var
from xla_backend.kernels.ir import (
    Atomic,
    Barrier,
    If,
    Kernel,
    Loop,
    LoopKind,
    Move,
    Statement,
    Store,
    Transpose,
    walk,
)
from xla_backend.kernels.schedule.copying import replace_atoms
from xla_backend.kernels.schedule.dependence import overwrites, read, written
from xla_backend.kernels.schedule.splitting import ScheduleError


def need_no_order(one: Loop, other: Loop) -> bool:
    """Whether two stages may run at the same time: neither reads or writes what the other
    writes."""
    stages = [one], [other]
    if any(isinstance(s, _OTHER_WRITES) for stage in stages for s in walk([*stage])):
        return False
    if any(overwrites(written(this), read(that)) for this, that in (stages, stages[::-1])):
        return False
    pairs = product(_stores(one), _stores(other))
    return all(a.buffer is not b.buffer or _apart(a, b) for a, b in pairs)


_OTHER_WRITES = (Atomic, Move, Transpose)


def _stores(stage: Loop) -> list[Store]:
    return [s for s in walk([stage]) if isinstance(s, Store)]


def _apart(a: Store, b: Store) -> bool:
    """Whether two statements never store to the same element: all elements of one lie before those
    of the other, or do so within rows."""
    rows = {abs(c) for s in (a, b) for c in s.index.terms.values() if abs(c) > 1}
    return any(_apart_in_rows(a, b, row) for row in (None, *rows))


def _apart_in_rows(a: Store, b: Store, row: int | None) -> bool:
    spans = []
    for s in (a, b):
        terms = {t: c for t, c in s.index.terms.items() if row is None or c % row}
        low, high = Index(terms, s.index.constant).bounds
        high += len(s.values)
        if row is not None and not 0 <= low < high <= row:
            return False
        spans.append((low, high))
    (low_a, high_a), (low_b, high_b) = spans
    return high_a <= low_b or high_b <= low_a


def side_by_side(kernel: Kernel, grids: Sequence[Loop]) -> Loop:
    """One grid of stages whose blocks have the same number of threads; returns its loop. It takes
    the place of the last of them.

    Raises:
      ScheduleError: blocks differ in size, or threads come to barriers.
    """
    bodies = [_threads(grid) for grid in grids]
    sizes = {threads.var.extent for threads in bodies}
    if len(sizes) > 1:
        raise ScheduleError(f"stages have blocks of {sorted(sizes)} threads")
    depth = grids[0].var.depth
    block = Var(grids[0].var.name, sum(grid.var.extent for grid in grids), depth)
    thread = Var(bodies[0].var.name, sizes.pop(), depth + 1)
    first = 0
    parts: list[Statement] = []
    for grid, threads in zip(grids, bodies):
        body = [*(s for s in grid.body if s is not threads), *threads.body]
        if any(isinstance(s, Barrier) for s in walk(body)):
            raise ScheduleError(f"threads of {grid.var.name!r} come to a barrier")
        here = Index.of(block) - first
        atoms: dict[Atom, Index] = {grid.var: here, threads.var: Index.of(thread)}
        replace_atoms(body, atoms)
        parts.append(If(Index.of(block), first, first + grid.var.extent, body))
        first += grid.var.extent
    inside = Loop(thread, parts, independent=True, kind=LoopKind.THREAD)
    merged = Loop(block, [inside], independent=True, kind=LoopKind.GRID)
    kernel.stages[kernel.stages.index(grids[-1])] = merged
    for grid in grids[:-1]:
        kernel.stages.remove(grid)
    return merged


def _threads(grid: Loop) -> Loop:
    (threads,) = (s for s in grid.body if isinstance(s, Loop))
    return threads
