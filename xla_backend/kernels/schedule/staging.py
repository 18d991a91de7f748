"""A part of an array through memory that is nearer.

for i in grid(8):                      for i in grid(8):
    for k in range(16):       ->           for k in range(16):
        ... = p[16*i + k]                      staged[k] = p[16*i + k]
                                           barrier()
                                           for k in range(16):
                                               ... = staged[k]
"""

from __future__ import annotations

from math import prod

from xla_backend.kernels.index import QUOTIENTS, Atom, Index, Var, linearize
from xla_backend.kernels.ir import (
    Barrier,
    Buffer,
    BufferRole,
    Kernel,
    Load,
    Loop,
    Move,
    Statement,
    Store,
    walk,
)
from xla_backend.kernels.schedule.splitting import ScheduleError, path_to


def stage(kernel: Kernel, loop: Loop, source: Buffer, role: BufferRole) -> tuple[Buffer, Loop]:
    """At the start of each round of `loop`, copy what the round reads of `source` into a buffer of
    shared or local memory, and read it there; returns the buffer and the (outermost) loop that
    copies, which may be split and bound like others. Shared memory is between two barriers.

    Raises:
      ScheduleError: the loop writes `source`, or reads it at several indices or at computed ones.
    """
    loads = [s for s in walk(loop.body) if isinstance(s, Load) and s.buffer is source]
    if any(isinstance(s, Store) and s.buffer is source for s in walk(loop.body)):
        raise ScheduleError(f"{source.name} is written inside loop {loop.var.name!r}")
    if not loads or any(s.index != loads[0].index or s.guard is not None for s in loads):
        raise ScheduleError(f"loop {loop.var.name!r} reads {source.name} at several indices")
    index = loads[0].index
    fixed = {around.var for around in path_to(kernel, loop)}
    inner: list[Var] = []
    for atom in index.terms:
        if isinstance(atom, Var) and atom not in fixed:
            inner.append(atom)
        elif not isinstance(atom, Var) and _reaches(atom, fixed):
            raise ScheduleError(f"{source.name}[{index}] is not a sum of loop variables")
    inner.sort(key=lambda var: -abs(index.coefficient(var)))
    if not inner:
        raise ScheduleError(f"a round of loop {loop.var.name!r} reads one element of {source.name}")
    extents = [var.extent for var in inner]
    number = sum(1 for b in kernel.buffers if b.name.startswith("staged"))
    staged = Buffer(f"staged{number}", source.element_type, prod(extents), role)
    kernel.buffers.append(staged)
    depth = loop.var.depth + 1
    copies = [Var(f"{v.name}_copy", v.extent, depth + n) for n, v in enumerate(inner)]
    replaced: dict[Atom, Index] = {v: Index.of(copy) for v, copy in zip(inner, copies)}
    place = linearize([Index.of(copy) for copy in copies], extents)
    body: list[Statement] = [Move(staged, place, source, index.replaced(replaced.get))]
    for copy in reversed(copies):
        around = Loop(copy, body, independent=True, may_vectorize=copy is copies[-1])
        body = [around]
    for load in loads:
        load.buffer = staged
        load.index = linearize([Index.of(var) for var in inner], extents)
    between: list[Statement] = [Barrier()] if role is BufferRole.SHARED else []
    loop.body = [around, *between, *loop.body, *between]
    return staged, around


def _reaches(atom: object, fixed: set[Var]) -> bool:
    """Whether an atom of an index depends on anything but loops around."""
    if isinstance(atom, QUOTIENTS):
        return any(_reaches(a, fixed) for a in atom.index.terms)
    return atom not in fixed
