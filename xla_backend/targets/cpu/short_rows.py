"""Nests whose innermost loop is shorter than a vector: small matrices, elements that are repeated
a few times, coordinates. Together with loops around it, it is one loop that fills vectors, if what
it reads is found faster so.

    for i in range(1000):
        v0 = p0[i]                              for i in range(4000):
        for j in range(4):             ->           v0 = p0[i // 4]
            out[4*i + j] = v0                       out[i] = v0
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.kernels.ir import Kernel, Loop, Statement
from xla_backend.kernels.schedule.collapsing import collapse, nest_of
from xla_backend.kernels.schedule.copying import Copy


def join_short_rows(
    kernel: Kernel, lanes_of: Callable[[Loop], int], cost: Callable[[Loop], float]
) -> bool:
    """Make one loop of the innermost ones of each stage, as many as fill a vector, where that costs
    less. True iff any was."""
    return _joined_in(kernel.stages, kernel.name, lanes_of, cost)


def _joined_in(
    block: list[Statement],
    name: str,
    lanes_of: Callable[[Loop], int],
    cost: Callable[[Loop], float],
) -> bool:
    changed = False
    for i, stage in enumerate(block):
        if not isinstance(stage, Loop):
            continue
        nest = nest_of(stage)
        if nest and sum(isinstance(s, Loop) for s in nest[-1].body) > 1:
            # It was cut into pieces, which are nests of their own.
            changed |= _joined_in(nest[-1].body, name, lanes_of, cost)
            continue
        new = joined(stage, name, lanes_of)
        if new is not None and cost(new) < cost(stage):
            block[i] = new
            changed = True
    return changed


def joined(stage: Loop, name: str, lanes_of: Callable[[Loop], int]) -> Loop | None:
    """A nest with as many of its innermost loops in one as fill a vector; None if the last one
    does."""
    count = _short_loops(stage, lanes_of)
    if not count:
        return None
    kernel = Kernel(name, stages=Copy({}).block([stage]))
    (copy,) = kernel.stages
    assert isinstance(copy, Loop)
    collapse(kernel, nest_of(copy)[-count:])
    (new,) = kernel.stages
    assert isinstance(new, Loop)
    return new


def _short_loops(stage: Loop, lanes_of: Callable[[Loop], int]) -> int:
    """How many loops at the end of a nest fill a vector together, if the last does not."""
    nest = nest_of(stage)
    if len(nest) < 2 or not nest[-1].may_vectorize:
        return 0
    lanes = lanes_of(stage)  # for which all statements are looked at
    if nest[-1].var.extent >= lanes:
        return 0
    size = 1
    for count, loop in enumerate(reversed(nest), 1):
        size *= loop.var.extent
        if size >= lanes or count == len(nest):
            return count if count > 1 else 0
    return 0
