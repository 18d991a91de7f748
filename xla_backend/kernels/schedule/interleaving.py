"""Nests that write every k-th element each, of which k after another write all, as one.

    for i in range(1000):               for i in range(1000):
        v0 = p0[i]                          v0 = p0[i]
        out[2*i] = v0             ->        v1 = p1[i]
    for j in range(1000):                   out[2*i : 2*i + 2] = v0, v1
        v1 = p1[j]
        out[2*j + 1] = v1

Arrays that are stacked along their last dimension are written so, and components of vectors that
are computed apart. Lanes of such a store are put between each other in registers, and go to memory
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.kernels.index import Atom, Index
from xla_backend.kernels.ir import (
    PURE,
    Compute,
    Constant,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
)
from xla_backend.kernels.schedule.collapsing import nest_of
from xla_backend.kernels.schedule.copying import Copy, replace_atoms

# Code for lanes of more arrays takes four times as long to compile.
_MOST_VALUES = 16


def interleave(kernel: Kernel) -> bool:
    """Join the nests of a kernel that fill rows of a few elements together. True iff any were."""
    if sum(isinstance(s, Loop) for s in kernel.stages) < 2:
        return False
    # A constant that only a later nest has lies between it and the one before.
    stages: list[Statement] = [s for s in kernel.stages if isinstance(s, Constant)]
    rest = [s for s in kernel.stages if not isinstance(s, Constant)]
    while rest:
        count = _together(rest)
        if count > 1:
            stages.append(_joined([s for s in rest[:count] if isinstance(s, Loop)]))
        else:
            stages.append(rest[0])
        rest = rest[max(1, count) :]
    changed = len(stages) < len(kernel.stages)
    kernel.stages = stages
    return changed


def _together(stages: Sequence[Statement]) -> int:
    """How many stages from the first on fill rows together; 0 if they do not."""
    first = _store_of(stages[0])
    if first is None:
        return 0
    nest, begin = first
    width = begin.index.coefficient(nest[-1].var)
    extents = [loop.var.extent for loop in nest]
    filled = len(begin.values)
    if not filled < width <= _MOST_VALUES:
        return 0
    for count, stage in enumerate(stages[1:], 1):
        other = _store_of(stage)
        if other is None or [loop.var.extent for loop in other[0]] != extents:
            return 0
        place = other[1].index.replaced(_renamed(other[0], nest).get)
        if other[1].buffer is not begin.buffer or place != begin.index + filled:
            return 0
        filled += len(other[1].values)
        if filled >= width:
            return count + 1 if filled == width and _reads_others(stages[: count + 1]) else 0
    return 0


def _store_of(stage: Statement) -> tuple[list[Loop], Store] | None:
    """The loops of a stage that computes values and stores them at its end, and the store."""
    nest = nest_of(stage) if isinstance(stage, Loop) else []
    if not nest or not nest[-1].may_vectorize:
        return None
    *before, last = nest[-1].body
    if not isinstance(last, Store) or last.guard is not None:
        return None
    return (nest, last) if all(isinstance(s, PURE) for s in before) else None


def _reads_others(stages: Sequence[Statement]) -> bool:
    """Whether no stage reads what one of them stores. (That an operand has the memory of the output
    does no harm: then it is read where it is written, in the same iteration.)"""
    found = [_store_of(stage) for stage in stages]
    for nest, store in (f for f in found if f is not None):
        if any(isinstance(s, Load) and s.buffer is store.buffer for l in nest for s in l.body):
            return False
    return True


def _renamed(nest: Sequence[Loop], other: Sequence[Loop]) -> dict[Atom, Index]:
    return {loop.var: Index.of(o.var) for loop, o in zip(nest, other)}


def _joined(stages: Sequence[Loop]) -> Loop:
    nests = [nest_of(stage) for stage in stages]
    stores: list[Store] = []
    for nest in nests:
        last = nest[-1].body.pop()
        assert isinstance(last, Store)
        stores.append(last)
    first = nests[0]
    for nest in nests[1:]:
        here = _renamed(nest, first)
        for loop, own in zip(nest, first):
            body = _plain(loop.body)
            replace_atoms(body, here)
            own.body[:] = [*_plain(own.body), *body, *_loops(own.body)]
    values = tuple(v for store in stores for v in store.values)
    whole = Store(stores[0].buffer, stores[0].index, values)
    first[-1].body.append(whole)
    seen = _Once()
    for loop in first:
        loop.body[:] = seen.block(loop.body)
    return stages[0]


class _Once(Copy):
    """Copies the bodies of a nest, outermost first, without what was computed or loaded before: the
    components of a vector have much in common. There is one store, at the end."""

    def __init__(self) -> None:
        super().__init__({})
        self._found: dict[tuple[Any, ...], Value] = {}

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, Loop):
                result.append(s)  # its body is next
                continue
            key = self._key(s)
            if key in self._found:
                assert isinstance(s, PURE)
                self.values[s.result] = self._found[key]
                continue
            result += super().block([s])
            if key is not None:
                assert isinstance(s, PURE)
                self._found[key] = self.value(s.result)
        return result

    def _key(self, s: Statement) -> tuple[Any, ...] | None:
        """The same for statements with the same result; None: unknown."""
        if isinstance(s, Load):
            return None if s.guard is not None else ("load", s.buffer, self.index(s.index))
        if isinstance(s, Compute) and s.attributes is None:
            return s.opcode, s.result.type, tuple(self.value(o) for o in s.operands)
        if isinstance(s, Constant):
            return "constant", s.result.type, np.asarray(s.value).tobytes()
        if isinstance(s, IndexValue):
            return "index", s.result.type, self.index(s.index)
        if isinstance(s, InRange):
            return "in", self.index(s.index), s.low, s.high
        return None


def _plain(body: Sequence[Statement]) -> list[Statement]:
    return [s for s in body if not isinstance(s, Loop)]


def _loops(body: Sequence[Statement]) -> list[Statement]:
    return [s for s in body if isinstance(s, Loop)]
