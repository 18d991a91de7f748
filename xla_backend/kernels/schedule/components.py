"""Loops over complex numbers whose two components are computed alike, as loops over real ones.

    for i in range(1000):                         for i in range(2000):
        v0 = p0[2*i]                                  v0 = p0[i]
        v1 = p0[2*i + 1]                              v1 = -v0
        v2 = -v0                          ->          out[i] = v1
        v3 = -v1
        out[2*i : 2*i + 2] = v2, v3

Sums, differences, choices and moves of complex numbers are such loops. Lanes would take the two
components of neighbours apart in registers, and put them together again to store them; and there is
half of the code this way. Each component is computed by the same operations as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import (
    ACCESSES,
    BODIES,
    PURE,
    Carry,
    Combiner,
    Compute,
    Constant,
    If,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import live
from xla_backend.kernels.schedule.dependence import (
    indices_of,
    mentions,
    quotients,
    varies,
)

_KNOWN = (*PURE, Store, Loop)


def join_components(kernel: Kernel) -> bool:
    """Make loops over reals of those over complex numbers whose components are computed alike. True
    iff there were any."""
    changed = False
    outside: dict[Value, Statement] = {}
    for stage in kernel.stages:
        if isinstance(stage, Constant):
            outside[stage.result] = stage
    for stage in kernel.stages:
        if isinstance(stage, Loop) and _stores_complex(stage):
            loop = next(filter(_is_over_all, _loops(stage)), None)
            changed |= loop is not None and _Pairs(loop, outside).join()
    return changed


def _stores_complex(block: Loop | If) -> bool:
    for s in block.body:
        if _is_complex(s) or (isinstance(s, BODIES) and _stores_complex(s)):
            return True
    return False


def _is_complex(s: Statement) -> bool:
    return isinstance(s, Store) and len(s.values) == 2


def _loops(stage: Loop) -> Iterator[Loop]:
    return (s for s in walk([stage]) if isinstance(s, Loop))


def _is_over_all(loop: Loop) -> bool:
    """Whether the iterations of a loop are neighbouring complex numbers for all that it stores."""
    if loop.carries or not loop.independent:
        return False
    stored = [s for s in walk(loop.body) if isinstance(s, Store)]
    if not all(_is_complex(s) and _is_neighbour(s.index, loop.var) for s in stored):
        return False
    return bool(stored) and all(isinstance(s, _KNOWN) for s in walk(loop.body))


def _is_neighbour(index: Index, var: Var) -> bool:
    """Whether the next iteration's index is two further on, whatever else it depends on."""
    inside = any(mentions(a.index, {var}) for a in quotients(index))
    return index.coefficient(var) == 2 and not inside


class _Pairs:
    """The values of a loop's body that are the two components of a complex number."""

    def __init__(self, loop: Loop, outside: Mapping[Value, Statement]) -> None:
        self.loop = loop
        self.second: dict[Value, Value] = {}  # by the first component
        self._same: set[Value] = set()  # that both components are computed from
        self._pending: list[tuple[Value, Value]] = []
        self._made = dict(outside)
        self._carried: dict[Value, tuple[Loop, Carry]] = {}
        for s in walk(loop.body):
            if isinstance(s, PURE):
                self._made[s.result] = s
            elif isinstance(s, Loop):
                self._carried.update({v: (s, c) for c in s.carries for v in (c.phi, c.result)})
                if s.combiner is not None:
                    self._made.update({m.result: m for m in s.combiner.body if isinstance(m, PURE)})

    def join(self) -> bool:
        """Keep the first component of each pair, in a loop over both. False if anything in the loop
        is not one of two that are computed alike: then nothing has changed."""
        loop = self.loop
        stores = [s for s in walk(loop.body) if isinstance(s, Store)]
        self._pending = [(s.values[0], s.values[1]) for s in stores]
        if not self._are_alike() or not self._are_all():
            return False
        both = Var(loop.var.name, 2 * loop.var.extent, loop.var.depth)
        for s in walk(loop.body):
            if isinstance(s, ACCESSES) and s.index.coefficient(loop.var):
                s.index = s.index - Index.of(loop.var) * 2 + Index.of(both)
            if isinstance(s, Store):
                s.values = s.values[:1]
            elif isinstance(s, Loop):
                self._halve(s)
        loop.limits = tuple(limit * 2 for limit in loop.limits)
        loop.var = both
        loop.body = live(loop.body)
        return True

    def _are_alike(self) -> bool:
        """Whether all pairs are computed by the same operations from components of the same complex
        numbers, and from values that are the same for both."""
        while self._pending:
            first, second = self._pending.pop()
            if first is second:
                self._same.add(first)
            elif first not in self.second:
                self.second[first] = second
                if not self._alike(first, second):
                    return False
            elif self.second[first] is not second:
                return False
        return True

    def _alike(self, first: Value, second: Value) -> bool:
        """Whether two values are alike, if those are that they come from."""
        if first in self._carried and second in self._carried:
            return self._alike_carried(first, second)
        a, b = self._made.get(first), self._made.get(second)
        if isinstance(a, Load) and isinstance(b, Load):
            near = a.buffer is b.buffer and b.index == a.index + 1 and a.guard is b.guard
            return near and _is_neighbour(a.index, self.loop.var)
        if isinstance(a, Compute) and isinstance(b, Compute):
            self._pending += zip(a.operands, b.operands)
            same = a.opcode is b.opcode and a.attributes == b.attributes
            return same and len(a.operands) == len(b.operands)
        if isinstance(a, Constant) and isinstance(b, Constant):
            return _same_bits(a.value, b.value)
        return False

    def _alike_carried(self, first: Value, second: Value) -> bool:
        (inner, a), (other, b) = self._carried[first], self._carried[second]
        if inner is not other or (first is a.phi) is not (second is b.phi):
            return False
        if a.next is None or b.next is None or not _same_bits(a.identity, b.identity):
            return False
        self._pending += [(a.phi, b.phi), (a.result, b.result), (a.init, b.init), (a.next, b.next)]
        combiner = inner.combiner
        if combiner is not None:
            m, n = inner.carries.index(a), inner.carries.index(b)
            for values in (combiner.lhs, combiner.rhs):
                self.second[values[m]] = values[n]
            self._pending.append((combiner.results[m], combiner.results[n]))
        return True

    def _are_all(self) -> bool:
        """Whether everything in the loop belongs to pairs, of which no value has two places, or is
        the same in all iterations."""
        seconds = set(self.second.values())
        paired = seconds | set(self.second)
        if len(paired) < 2 * len(self.second) or not paired.isdisjoint(self._same):
            return False
        varying: set[object] = {self.loop.var, *paired}
        return all(self._fits(s, paired, varying) for s in walk(self.loop.body))

    def _fits(self, s: Statement, paired: set[Value], varying: set[object]) -> bool:
        if isinstance(s, Loop):
            carried = [v for c in s.carries for v in (c.phi, c.result)]
            fixed = not any(mentions(limit, varying) for limit in s.limits)
            return fixed and paired.issuperset([*carried, *s.elements])
        if isinstance(s, ACCESSES) and s.guard in paired:
            return False
        if isinstance(s, Store) or (isinstance(s, PURE) and s.result in paired):
            return not any(mentions(index, paired) for index in indices_of(s))
        return not varies(s, varying)

    def _halve(self, inner: Loop) -> None:
        """Without what the second components are carried in."""
        kept = [n for n, c in enumerate(inner.carries) if c.phi in self.second]
        inner.carries = [inner.carries[n] for n in kept]
        inner.elements = tuple(v for v in inner.elements if v in self.second)
        old = inner.combiner
        if old is not None:
            lhs, rhs, results = ([v[n] for n in kept] for v in (old.lhs, old.rhs, old.results))
            body = live(list(old.body), results)
            inner.combiner = Combiner(lhs, rhs, body, results, old.commutes)


def _same_bits(a: object, b: object) -> bool:
    """Of two constants; None is one."""
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and (a is b if x.dtype == object else x.tobytes() == y.tobytes())
