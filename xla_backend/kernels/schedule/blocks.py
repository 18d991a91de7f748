"""A grid loop around a stage: blocks of iterations that may run on any thread.

for i in range(1000):            for block in grid(3):
    out[i] = -p[i]        ->         for i in range(min(384, 1000 - 384*block)):
                                         out[384*block + i] = -p[384*block + i]
"""

from __future__ import annotations

from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.ir import Kernel, Loop, LoopKind, Statement, Store
from xla_backend.kernels.schedule.copying import replace_atoms
from xla_backend.kernels.schedule.splitting import ScheduleError, path_to


def bind_to_grid(kernel: Kernel, loop: Loop, chunk: int) -> Loop:
    """Cut a loop into blocks of `chunk` iterations and put a grid loop over the blocks around its
    whole stage; returns that.

    Each block repeats what the loops around do, so these, like the loop itself, must be independent
    and do nothing but contain each other.

    Raises:
      ScheduleError: they are not.
    """
    path = path_to(kernel, loop)
    for n, around in enumerate(path):
        if not around.independent or around.carries or around.limits:
            raise ScheduleError(f"iterations of loop {around.var.name!r} need each other")
        if n and any(s is not around and not _harmless(s) for s in path[n - 1].body):
            raise ScheduleError(f"loop {path[n - 1].var.name!r} does more than contain a loop")
    extent = loop.var.extent
    blocks = -(-extent // chunk)
    block = Var("block", blocks, 0)
    inner = Var(loop.var.name, chunk, loop.var.depth)
    replace_atoms(loop.body, {loop.var: Index.of(block) * chunk + Index.of(inner)})
    loop.var = inner
    if extent % chunk:
        loop.limits = (constant(extent) - Index.of(block) * chunk,)
    grid = Loop(block, [path[0]], independent=True, kind=LoopKind.GRID)
    kernel.stages[kernel.stages.index(path[0])] = grid
    return grid


def _harmless(s: Statement) -> bool:
    return not isinstance(s, Loop | Store)
