"""The elementary steps: split a loop in two, reorder two loops, say what runs a loop.

    split(i, 32)          for i in range(4):          bind(i, GRID)     for i in grid(4):
                              for i_in in range(32):  bind(i_in, THREAD)    for i_in in threads(32):
                                  if 32*i + i_in < 100:                         if ...

`blocks`, `lanes` and `tiles` are what a CPU's schedule needs as steps of their own.
"""

from __future__ import annotations

from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import If, Kernel, Loop, LoopKind, Statement, Store
from xla_backend.kernels.schedule.copying import live, replace_atoms
from xla_backend.kernels.schedule.splitting import ScheduleError, divide, path_to, replace
from xla_backend.process.light_dataclasses import dataclass


@dataclass(slots=True)
class Split:
    """The loop over groups, the one over the iterations of a group, and what is left over."""

    outer: Loop
    inner: Loop
    rest: list[Statement]


def split(kernel: Kernel, loop: Loop, size: int, *, peeled: bool = False) -> Split:
    """Iterations in groups of `size`. Those after the last whole group are asked for in each round
    (a condition), or with `peeled`, are a loop of their own behind it.

    Raises:
      ScheduleError: the loop carries values, or there is no whole group to peel from.
    """
    if loop.carries:
        raise ScheduleError(f"loop {loop.var.name!r} carries values from round to round")
    var = loop.var
    inner_var = Var(f"{var.name}_in", size, var.depth)
    rest = _peeled(loop, size) if peeled else []
    inner = Loop(
        inner_var,
        loop.body,
        independent=loop.independent,
        may_vectorize=loop.may_vectorize,
    )
    if peeled:
        division = divide(loop, size)
        outer_var, limits = Var(var.name, division.groups, var.depth), division.limits
    else:
        outer_var = Var(var.name, -(-var.extent // size), var.depth)
        limits = tuple((limit + (size - 1)) // size for limit in loop.limits)
    here = Index.of(outer_var) * size + Index.of(inner_var)
    replace_atoms(loop.body, {var: here})
    if not peeled:
        inner.body = _guarded(loop, here, size, inner.body)
    loop.var, loop.limits, loop.body = outer_var, limits, [inner]
    loop.may_vectorize = False
    if rest:
        replace(kernel, loop, [loop, *rest])
    return Split(loop, inner, rest)


def _guarded(loop: Loop, here: Index, size: int, body: list[Statement]) -> list[Statement]:
    if loop.limits:
        for limit in loop.limits:
            over = here - limit
            body = [If(over, min(0, over.bounds[0]), 0, body)]
        return body
    return [If(here, 0, loop.var.extent, body)] if loop.var.extent % size else body


def _peeled(loop: Loop, size: int) -> list[Statement]:
    division = divide(loop, size)
    if not division.groups:
        raise ScheduleError(f"loop {loop.var.name!r} has no whole group of {size} iterations")
    rest = division.rest
    if rest is None:
        return []
    is_known = rest.count.is_constant
    var = Var(loop.var.name, rest.count.constant if is_known else size - 1, loop.var.depth)
    limits = () if is_known else (rest.count,)
    body = live(rest.copy(loop.var, Index.of(var)).block(loop.body))
    after = Loop(
        var,
        body,
        independent=loop.independent,
        may_vectorize=loop.may_vectorize,
        limits=limits,
    )
    return rest.only_here([after])


def reorder(kernel: Kernel, outer: Loop, inner: Loop) -> None:
    """Let the loop directly inside another one go round it.

    Raises:
      ScheduleError: the two are not directly inside each other, or their iterations need an order.
    """
    if outer.body != [inner]:
        raise ScheduleError(
            f"loop {inner.var.name!r} is not all that loop {outer.var.name!r} contains"
        )
    for loop in (outer, inner):
        if not loop.independent or loop.carries:
            raise ScheduleError(f"iterations of loop {loop.var.name!r} need their order")
    if any(limit.coefficient(outer.var) for limit in inner.limits):
        raise ScheduleError(f"rounds of {inner.var.name!r} depend on {outer.var.name!r}")
    replace(kernel, outer, [inner])
    outer.body, inner.body = inner.body, [outer]


def bind(kernel: Kernel, loop: Loop, kind: LoopKind) -> None:
    """Say what runs the iterations of a loop.

    Raises:
      ScheduleError: they need an order that `kind` does not keep, or another place in the kernel.
    """
    name = loop.var.name
    path = path_to(kernel, loop)
    if kind is LoopKind.UNROLLED:
        if loop.limits:
            raise ScheduleError(f"rounds of loop {name!r} are not known")
    elif kind is LoopKind.LANES:
        if not loop.may_vectorize or loop.carries or loop.limits:
            raise ScheduleError(f"loop {name!r} may not run in lanes")
    elif kind is not LoopKind.SERIAL and (not loop.independent or loop.carries):
        raise ScheduleError(f"iterations of loop {name!r} need their order")
    if kind is LoopKind.GRID and (len(path) > 1 or loop.limits):
        raise ScheduleError(f"loop {name!r} is not the whole of a stage")
    stores = any(isinstance(s, Store) for around in path[:-1] for s in around.body)
    if kind is LoopKind.THREAD and stores:
        raise ScheduleError(f"threads of loop {name!r} would not do the stores beside it")
    loop.kind = kind
