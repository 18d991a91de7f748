"""A reduction in parts: partial results of blocks of elements, and then those together.

for i in range(2):                        for part in range(8):
    acc = 0                                   for i in range(2):
    for j in range(80000):                        acc = -0.0
        acc = acc + p[80000*i + j]                for j in range(10000):
    out[i] = acc                  ->                  acc = acc + p[80000*i + 10000*part + j]
                                                  partial0[2*part + i] = acc
                                          for i in range(2):
                                              acc = 0
                                              for part in range(8):
                                                  acc = acc + partial0[2*part + i]
                                              out[i] = acc
"""

from __future__ import annotations

from xla_backend.kernels.index import Index, Var, constant, linearize
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Carry,
    Constant,
    Kernel,
    Load,
    Loop,
    Store,
    Value,
)
from xla_backend.kernels.schedule.copying import Copy, combined, live
from xla_backend.kernels.schedule.row_nests import RowNest, Walk, row_nest_of
from xla_backend.kernels.schedule.splitting import ScheduleError, replace


def reduce_in_parts(kernel: Kernel, stage: Loop, size: int) -> tuple[Loop, Loop]:
    """Cut the one reduction of a nest into parts of `size` elements, the last of which may have
    fewer; returns the stage of the parts and the one that puts them together. Where no neutral
    value is known, parts start from the initial values, which HLO takes to be neutral.

    Raises:
      ScheduleError: the nest does more than one reduction, or one whose order matters.
    """
    nest = row_nest_of(stage)
    if nest is None or len(nest.walks) != 1:
        raise ScheduleError(f"loop {stage.var.name!r} is not that of one reduction")
    (found,) = nest.walks
    if found.combiner is None or any(isinstance(s, Store) for s in found.body):
        raise ScheduleError(f"what loop {stage.var.name!r} reduces has one order only")
    parts = -(-found.count // size)
    memory = [_partial(kernel, c.phi, parts * nest.rows) for c in found.inner_carries]
    first = _parts(nest, found, memory, parts, size)
    top = found.loops[0]
    replace(kernel, top, [_together(nest, found, memory, parts)])
    replace(kernel, stage, live([first, stage]))
    return first, stage


def _partial(kernel: Kernel, value: Value, size: int) -> Buffer:
    number = sum(1 for b in kernel.buffers if b.role is BufferRole.SCRATCH)
    buffer = Buffer(f"partial{number}", value.type, size, BufferRole.SCRATCH, number)
    kernel.buffers.append(buffer)
    return buffer


def _rows(vars: list[Var]) -> Index:
    indices = [Index.of(v) if v.extent > 1 else constant(0) for v in vars]
    return linearize(indices, [v.extent for v in vars])


def _parts(nest: RowNest, found: Walk, memory: list[Buffer], parts: int, size: int) -> Loop:
    """Loops over parts and rows around a loop over the elements of a part."""
    depth = nest.kept[0].var.depth
    part = Var("part", parts, depth)
    rows = [Var(loop.var.name, loop.var.extent, loop.var.depth + 1) for loop in nest.kept]
    element = Var(found.loops[-1].var.name, size, rows[-1].depth + 1)
    copy = Copy({loop.var: Index.of(var) for loop, var in zip(nest.kept, rows)})
    body = copy.block(nest.lead)
    for step in nest.steps:
        if step is found:
            break
        if not isinstance(step, Store | Walk):
            body += copy.block([step])
    start = Index.of(part) * size
    loop = Loop(element, may_vectorize=not found.from_first, combiner=found.combiner)
    if found.count % size:
        loop.limits = (constant(found.count) - start,)
    copy.vars.update(found.at(start + Index.of(element)))
    for outer, inner in zip(found.loops[0].carries, found.inner_carries):
        init = copy.value(outer.init)
        if outer.identity is not None and not found.from_first:
            init = init.like()
            body.append(Constant(init, outer.identity))
        phi = copy.values[inner.phi] = inner.phi.like()
        loop.carries.append(Carry(phi, init, phi.like(), identity=outer.identity))
    loop.body = copy.block(found.body)
    loop.elements = tuple(copy.value(v) for v in found.loops[-1].elements)
    at = Index.of(part) * nest.rows + _rows(rows)
    body.append(loop)
    for carry, inner, buffer in zip(loop.carries, found.inner_carries, memory):
        assert inner.next is not None
        carry.next = copy.value(inner.next)
        body.append(Store(buffer, at, (carry.result,)))
    for var in reversed([part, *rows]):
        body = [Loop(var, body, independent=True)]
    (around,) = body
    assert isinstance(around, Loop)
    return around


def _together(nest: RowNest, found: Walk, memory: list[Buffer], parts: int) -> Loop:
    """What takes the place of the loops over elements: one over parts."""
    top = found.loops[0]
    assert found.combiner is not None
    part = Var("part", parts, top.var.depth)
    at = Index.of(part) * nest.rows + _rows([loop.var for loop in nest.kept])
    loop = Loop(part, may_vectorize=not found.from_first, combiner=found.combiner)
    values = []
    for carry, buffer in zip(top.carries, memory):
        phi, value = carry.phi.like(), carry.phi.like()
        loop.carries.append(Carry(phi, carry.init, carry.result, identity=carry.identity))
        loop.body.append(Load(value, buffer, at))
        values.append(value)
    loop.elements = tuple(values)
    nexts = combined(found.combiner, [c.phi for c in loop.carries], values, loop.body)
    for carry, value in zip(loop.carries, nexts):
        carry.next = value
    return loop
