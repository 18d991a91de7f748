"""A nest of independent loops as one loop over all of its iterations.

    for i in range(4):                      for i in range(400):
        v0 = p0[i]                              v0 = p0[i // 100]
        for j in range(100):         ->         out[i] = v0 * p1[i]
            out[100*i + j] = v0 * p1[100*i + j]

What an outer loop computes moves into the one loop. Indices simplify: those that walk through an
array in the order of the nest are the new variable itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from xla_backend.kernels.index import Atom, Index, Var, constant, delinearize
from xla_backend.kernels.ir import PURE, Buffer, Kernel, Load, Loop, Statement
from xla_backend.kernels.schedule.copying import Copy, interleaved, replace_atoms
from xla_backend.kernels.schedule.dependence import divided, written
from xla_backend.kernels.schedule.splitting import ScheduleError, replace


def nest_of(stage: Loop) -> list[Loop]:
    """The loops of a stage that `collapse` takes, from the outermost inwards: independent ones, of
    which each contains the next and otherwise computes values only. Empty if the stage itself is
    none."""
    nest: list[Loop] = []
    loop = stage
    while loop.independent and not loop.carries and not loop.limits:
        nest.append(loop)
        inner = _only_loop(loop)
        if inner is None:
            break
        loop = inner
    return nest


def _only_loop(loop: Loop) -> Loop | None:
    body = loop.body
    inner = body[-1] if body else None
    if not isinstance(inner, Loop):
        return None
    read: list[Buffer] = []
    for s in body[:-1]:
        if not isinstance(s, PURE):
            return None
        if isinstance(s, Load):
            read.append(s.buffer)
    return inner if not read or written([inner]).isdisjoint(read) else None


def collapse(kernel: Kernel, loops: Sequence[Loop], unrolled: Loop | None = None) -> Loop:
    """Make one loop of these, of which each is directly inside the one before it. All rounds of
    `unrolled`, one of them, are part of an iteration then, and it does not count.

    Raises:
      ScheduleError: iterations of a loop need their order, or a loop does more than contain the
        next.
    """
    (new,) = regroup(kernel, loops, [[loop for loop in loops if loop is not unrolled]])
    if unrolled is not None:
        same, others = divided(new.body, unrolled.var)
        copies = [Copy({unrolled.var: constant(n)}) for n in range(unrolled.var.extent)]
        new.body = [*same, *interleaved(others, copies)]
    return new


def regroup(kernel: Kernel, loops: Sequence[Loop], groups: Sequence[Sequence[Loop]]) -> list[Loop]:
    """Make a loop of each group of these loops, of which each is directly inside the one before it;
    returns the new nest. The first of a group is the slowest.

    Raises:
      ScheduleError: iterations of a loop need their order, or a loop does more than contain the
        next.
    """
    for loop in loops:
        if not loop.independent or loop.carries or loop.limits:
            raise ScheduleError(f"iterations of loop {loop.var.name!r} need their order")
    for outer, inside in pairwise(loops):
        if _only_loop(outer) is not inside:
            raise ScheduleError(f"loop {outer.var.name!r} does more than contain a loop")
    body: list[Statement] = [s for loop in loops[:-1] for s in loop.body[:-1]] + loops[-1].body
    atoms: dict[Atom, Index] = {}
    nest: list[Loop] = []
    for depth, group in enumerate(groups, loops[0].var.depth):
        extents = [loop.var.extent for loop in group]
        var = Var(group[0].var.name if group else loops[0].var.name, prod(extents), depth)
        places = delinearize(Index.of(var), extents)
        atoms.update(zip((loop.var for loop in group), places))
        nest.append(Loop(var, independent=True, may_vectorize=True))
    replace_atoms(body, atoms)
    for new in reversed(nest):
        new.body, body = body, [new]
    replace(kernel, loops[0], body)
    return nest
