"""What each row computes for itself, for a block of rows at a time: in a loop of its own, which may
run in lanes where the rows do not.

    for i in range(6400):                    for part in range(100):
        v0 = clamp(0, p0[i], 99)                 for i in range(64):
        for j in range(4):                           kept[i] = clamp(0, p0[64*part + i], 99)
            out[4*i + j] = p1[4*v0 + j]          for i in range(64):
                                      ->             v0 = kept[i]
                                                     for j in range(4):
                                                         out[256*part + 4*i + j] = p1[4*v0 + j]
"""

from __future__ import annotations

from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.ir import (
    PURE,
    Buffer,
    BufferRole,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import Copy, live, operands_of
from xla_backend.kernels.schedule.dependence import divided, written
from xla_backend.kernels.schedule.splitting import ScheduleError, replace


def values_of_rows(rows: Loop) -> list[Value]:
    """What differs between the iterations of an independent loop, and is computed before the one
    loop that each ends with, and used there; nothing for other loops."""
    if not rows.body or not rows.independent or rows.carries or rows.limits:
        return []
    *lead, inner = rows.body
    if not isinstance(inner, Loop) or not all(isinstance(s, PURE) for s in lead):
        return []
    stored = written([inner])
    if any(isinstance(s, Load) and s.buffer in stored for s in lead):
        return []
    inside = walk([inner])
    if any(isinstance(s, Loop) and s.limits for s in inside):
        return []
    used = {value for s in inside for value in operands_of(s)}
    _, own = divided(lead, rows.var)
    return [s.result for s in own if isinstance(s, PURE) and s.result in used]


def compute_ahead(kernel: Kernel, rows: Loop, count: int) -> Loop:
    """Compute the values of `count` rows at a time before these rows; returns the loop over blocks
    of them.

    Raises:
      ScheduleError: rows have no values of their own that a loop uses.
    """
    values = values_of_rows(rows)
    if not values:
        raise ScheduleError(f"iterations of {rows.var.name!r} compute nothing for a loop")
    *lead, inner = rows.body
    same, _ = divided(lead, rows.var)
    part = Var("part", -(-rows.var.extent // count), rows.var.depth)
    number = sum(b.role is BufferRole.LOCAL for b in kernel.buffers)
    kept = [
        Buffer(f"kept{n}", v.type, count, BufferRole.LOCAL, n) for n, v in enumerate(values, number)
    ]
    kernel.buffers += kept

    def over_rows(var: Var, body: list[Statement], in_lanes: bool) -> Loop:
        loop = Loop(var, live(body), independent=True, may_vectorize=in_lanes)
        if rows.var.extent % count:
            loop.limits = (constant(rows.var.extent) - Index.of(part) * count,)
        return loop

    def copied() -> tuple[Copy, Var]:
        var = Var(rows.var.name, count, rows.var.depth + 1)
        return Copy({rows.var: Index.of(part) * count + Index.of(var)}), var

    copy, var = copied()
    body = copy.block(lead)
    body += [Store(b, Index.of(var), (copy.value(v),)) for b, v in zip(kept, values)]
    ahead = over_rows(var, body, True)
    copy, var = copied()
    body = copy.block(same)
    for buffer, value in zip(kept, values):
        copy.values[value] = value.like()
        body.append(Load(copy.values[value], buffer, Index.of(var)))
    body += copy.block([inner])
    then = over_rows(var, body, rows.may_vectorize)
    parts = Loop(part, [ahead, then], independent=True)
    replace(kernel, rows, [parts])
    return parts
