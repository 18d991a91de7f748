"""Reductions of whole arrays as nests of one row.

    acc = 0                                 for row in range(1):
    for i in range(1000):                       acc = 0
        acc = acc + p[i]                        for i in range(1000):
    total = acc * s                    ->           acc = acc + p[i]
    out0[0] = total                             total = acc * s
    for i in range(10):                         out0[0] = total
        out1[i] = total                         handed0[0] = total
                                            for i in range(10):
                                                v = handed0[0]
                                                out1[i] = v

What a later stage uses goes through memory: stages have no values in common but those that any
thread computes for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xla_backend.kernels.index import ZERO, Var
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
from xla_backend.kernels.schedule.copying import Copy, operands_of
from xla_backend.kernels.schedule.dependence import read, results_of, written


def reduce_as_one_row(kernel: Kernel) -> bool:
    """Put what a kernel reduces outside of all loops into a nest. True iff there is anything, and
    it can be done before other stages use it."""
    inside: list[Statement] = []
    handed: set[Value] = set()
    for s in kernel.stages:
        if isinstance(s, Loop) and s.carries:
            inside.append(s)
            handed.update(c.result for c in s.carries)
        elif isinstance(s, Store):
            inside.append(s)
        elif not isinstance(s, Loop) and handed & {*operands_of(s)}:
            assert isinstance(s, PURE)
            inside.append(s)
            handed.add(s.result)
    if not inside:
        return False
    last = kernel.stages.index(inside[-1])
    users = [n for n, s in enumerate(kernel.stages) if s not in inside and _uses([s]) & handed]
    place = min([last, *users])
    between = [s for s in kernel.stages[place:last] if s not in inside]
    if written(between) & read(inside):
        return False
    needed = _uses(s for s in kernel.stages if s not in inside)
    made = [v for s in inside for v in results_of(s) if v in needed]
    memory = {v: _memory(kernel, v) for v in made}
    stores = [Store(buffer, ZERO, (value,)) for value, buffer in memory.items()]
    nest = Loop(Var("row", 1, 1), [*inside, *stores], independent=True)
    before = [s for s in kernel.stages[:place] if s not in inside]
    after = [s for s in kernel.stages[place:] if s not in inside]
    kernel.stages = [*before, nest, *(_with_loads(s, memory) for s in after)]
    return True


def _uses(statements: Iterable[Statement]) -> set[Value]:
    return {v for s in walk([*statements]) for v in operands_of(s)}


def _memory(kernel: Kernel, value: Value) -> Buffer:
    number = sum(1 for b in kernel.buffers if b.role is BufferRole.SCRATCH)
    buffer = Buffer(f"handed{number}", value.type, 1, BufferRole.SCRATCH, number)
    kernel.buffers.append(buffer)
    return buffer


def _with_loads(stage: Statement, memory: Mapping[Value, Buffer]) -> Statement:
    """A stage that reads what an earlier one has handed on."""
    used = [v for v in memory if v in _uses([stage])]
    if not used:
        return stage
    assert isinstance(stage, Loop)
    copy = Copy({})
    loads: list[Statement] = []
    for value in used:
        new = copy.values[value] = value.like()
        loads.append(Load(new, memory[value], ZERO))
    (again,) = copy.block([stage])
    assert isinstance(again, Loop)
    again.body = [*loads, *again.body]
    return again
