"""Reductions down columns, a few rows at a time: what memory holds is read in long stretches.

    for i in range(3000):                    for part in range(3):
        acc = 0                                  for i in range(1000):
        for j in range(800):                         kept[i] = 0
            acc = acc + p[3000*j + i]            for group in range(100):
        out[i] = acc                  ->             for i in range(1000):
                                                         acc = kept[i]
                                                         for j in range(8):
                                                             acc = acc + p[...]
                                                         kept[i] = acc
                                                 for i in range(1000):
                                                     out[1000*part + i] = kept[i]

Each column is reduced in the order of its rows, as before.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.ir import (
    PURE,
    Buffer,
    BufferRole,
    Carry,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
)
from xla_backend.kernels.schedule.copying import Copy, like, live
from xla_backend.kernels.schedule.splitting import ScheduleError, replace

_SIMPLE = (*PURE, Store)


def rows_of(columns: Loop) -> Loop | None:
    """The one loop in which each iteration of an independent loop reduces, if that and what comes
    of it is all that an iteration does; None otherwise."""
    found: Loop | None = None
    for s in columns.body:
        if isinstance(s, Loop) and s.carries and found is None:
            found = s
        elif not isinstance(s, PURE if found is None else _SIMPLE):
            return None
    plain = columns.independent and not columns.carries and not columns.limits
    if found is None or not plain or found.limits:
        return None
    return found if all(isinstance(s, PURE) for s in found.body) else None


def reduce_in_groups(kernel: Kernel, columns: Loop, width: int, height: int) -> Loop:
    """Reduce down blocks of `width` columns, `height` rows at a time; returns the loop over blocks.
    Of one row at a time there is no loop inside.

    Raises:
      ScheduleError: the loop does more than to reduce down columns.
    """
    rows = rows_of(columns)
    if rows is None:
        raise ScheduleError(f"loop {columns.var.name!r} does not reduce down columns")
    at, depth = columns.body.index(rows), columns.var.depth
    lead, tail = columns.body[:at], columns.body[at + 1 :]
    part = Var("part", -(-columns.var.extent // width), depth)
    group = Var("group", -(-rows.var.extent // height), depth + 1)
    number = sum(b.role is BufferRole.LOCAL for b in kernel.buffers)
    kept = [
        Buffer(f"kept{n}", c.phi.type, width, BufferRole.LOCAL, n)
        for n, c in enumerate(rows.carries, number)
    ]
    kernel.buffers += kept

    def over_columns(inside: int, body: Callable[[Copy, Index], list[Statement]]) -> Loop:
        """A loop over the columns of a block."""
        var = Var(columns.var.name, width, depth + inside)
        copy = Copy({columns.var: Index.of(part) * width + Index.of(var)})
        statements = live([*copy.block(lead), *body(copy, Index.of(var))])
        loop = Loop(var, statements, independent=True, may_vectorize=columns.may_vectorize)
        if columns.var.extent % width:
            loop.limits = (constant(columns.var.extent) - Index.of(part) * width,)
        return loop

    def begin(copy: Copy, here: Index) -> list[Statement]:
        return [Store(b, here, (copy.value(c.init),)) for b, c in zip(kept, rows.carries)]

    def go_on(copy: Copy, here: Index) -> list[Statement]:
        if height == 1:
            return _row(rows, group, kept, here, copy)
        loop = _rows_of_group(rows, group, height, copy)
        loads = [Load(c.init, b, here) for b, c in zip(kept, loop.carries)]
        return [*loads, loop, *(Store(b, here, (c.result,)) for b, c in zip(kept, loop.carries))]

    def end(copy: Copy, here: Index) -> list[Statement]:
        loads = []
        for buffer, carry in zip(kept, rows.carries):
            value = copy.values[carry.result] = carry.result.like()
            loads.append(Load(value, buffer, here))
        return [*loads, *copy.block(tail)]

    groups = Loop(group, [over_columns(2, go_on)])
    body: list[Statement] = [over_columns(1, begin), groups, over_columns(1, end)]
    parts = Loop(part, body, independent=True)
    replace(kernel, columns, [parts])
    return parts


def _row(rows: Loop, row: Var, kept: list[Buffer], here: Index, copy: Copy) -> list[Statement]:
    """One round of a loop, between memory and memory."""
    copy.vars[rows.var] = Index.of(row)
    body: list[Statement] = []
    for buffer, carry in zip(kept, rows.carries):
        value = copy.values[carry.phi] = carry.phi.like()
        body.append(Load(value, buffer, here))
    body += copy.block(rows.body)
    nexts = [copy.value(c.next) for c in rows.carries if c.next is not None]
    return [*body, *(Store(b, here, (value,)) for b, value in zip(kept, nexts))]


def _rows_of_group(rows: Loop, group: Var, height: int, copy: Copy) -> Loop:
    """The rounds of a loop that belong to a group of them, which begin with values of their own."""
    var = Var(rows.var.name, height, group.depth + 2)
    loop = like(rows, var)
    start = Index.of(group) * height
    if rows.var.extent % height:
        loop.limits = (constant(rows.var.extent) - start,)
    copy.vars[rows.var] = start + Index.of(var)
    for c in rows.carries:
        phi = copy.values[c.phi] = c.phi.like()
        loop.carries.append(Carry(phi, c.phi.like(), c.result.like(), identity=c.identity))
    loop.body = copy.block(rows.body)
    loop.elements = tuple(copy.value(v) for v in rows.elements)
    for old, new in zip(rows.carries, loop.carries):
        new.next = None if old.next is None else copy.value(old.next)
    return loop
