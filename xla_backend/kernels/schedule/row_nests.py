"""Nests that work row by row: what is done once for each row, and the walks over its elements.

    for i in range(64):                kept: a round is a row
        scale = s[i]
        acc = 0
        for j in range(512):           a walk that reduces
            acc = acc + p[512*i + j]
        mean = acc * scale
        for j in range(512):           a walk that stores
            out[512*i + j] = p[512*i + j] - mean

A lone reduction is the case of one walk and one store. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xla_backend.kernels.index import Atom, Index, Var, delinearize
from xla_backend.kernels.ir import (
    ACCESSES,
    PURE,
    Buffer,
    BufferRole,
    Carry,
    Combiner,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import operands_of
from xla_backend.kernels.schedule.dependence import results_of
from xla_backend.process.light_dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Walk:
    """Loops directly inside each other over the elements of a row. They reduce (hand on carried
    values) or are independent."""

    loops: list[Loop]
    body: list[Statement]  # what all of them do, in the innermost one

    @property
    def extents(self) -> list[int]:
        return [loop.var.extent for loop in self.loops]

    @property
    def count(self) -> int:
        """Elements of a row."""
        return prod(self.extents)

    @property
    def reduces(self) -> bool:
        return bool(self.loops[0].carries)

    @property
    def combiner(self) -> Combiner | None:
        """How partial results are combined; None where they must not be formed."""
        return self.loops[-1].combiner

    @property
    def may_be_shared(self) -> bool:
        """Whether elements may be taken by several threads."""
        return not self.reduces or self.combiner is not None

    @property
    def in_order(self) -> bool:
        """Whether partial results may be formed of neighbouring elements only."""
        return self.combiner is not None and not self.combiner.commutes

    @property
    def from_first(self) -> bool:
        """Whether partial results start from their first element: nothing else is known to leave
        all others as they are."""
        return self.reduces and not self.loops[-1].may_vectorize

    @property
    def inits(self) -> list[Value]:
        return [c.init for c in self.loops[0].carries]

    @property
    def results(self) -> list[Value]:
        return [c.result for c in self.loops[0].carries]

    @property
    def inner_carries(self) -> list[Carry]:
        """What the body sees, and what it hands on."""
        return self.loops[-1].carries

    def at(self, position: Index) -> dict[Var, Index]:
        """The variables of the loops at a position in the row."""
        places = delinearize(position, self.extents)
        return {loop.var: place for loop, place in zip(self.loops, places)}

    def accesses(self) -> Iterator[Load | Store]:
        for s in walk(self.body):
            if isinstance(s, ACCESSES):
                yield s

    def place_of(self, access: Load | Store, position: Var) -> Index:
        """The index of an access in terms of the position in the row: the same for two walks that
        access an element in the same round."""
        atoms: dict[Atom, Index] = dict(self.at(Index.of(position)).items())
        return access.index.replaced(atoms.get)


_PURE_OR_LOOP = (*PURE, Loop)
_KNOWN = (*PURE, Store, Walk, Loop)


@dataclass(eq=False, slots=True)
class RowNest:
    """A stage of a kernel. `kept` has its loops over rows from the outermost inwards, `lead` what
    they do before the innermost, and `steps` what that does in order."""

    kept: list[Loop]
    lead: list[Statement]
    steps: list[Statement | Walk]

    @property
    def extents(self) -> list[int]:
        return [loop.var.extent for loop in self.kept]

    @property
    def rows(self) -> int:
        return prod(self.extents)

    @property
    def walks(self) -> list[Walk]:
        return [s for s in self.steps if isinstance(s, Walk)]

    @property
    def row_length(self) -> int:
        return max(w.count for w in self.walks)

    @property
    def reduces(self) -> bool:
        """Whether any walk does."""
        return any(w.reduces for w in self.walks)

    @property
    def may_be_shared(self) -> bool:
        """Whether several threads may work on a row."""
        return all(w.may_be_shared for w in self.walks)

    @property
    def in_order(self) -> bool:
        """Whether threads take neighbouring elements."""
        return any(w.in_order for w in self.walks)

    def for_walks(self) -> list[Statement | Walk]:
        """The walks, and what they need of the other steps."""
        found: list[Statement | Walk] = []
        used: set[Value] = set()
        for step in reversed([*self.lead, *self.steps]):
            if isinstance(step, Walk):
                inside: list[Statement] = [step.loops[0]]
            elif used.isdisjoint(results_of(step)):
                continue
            else:
                inside = [step]
            found.append(step)
            used.update(v for s in walk(inside) for v in operands_of(s))
        return found[::-1]

    def for_rows(self) -> list[Statement]:
        """The other steps: what becomes of the results of a row."""
        needed = set(self.for_walks())
        steps = [*self.lead, *self.steps]
        return [s for s in steps if not isinstance(s, Walk) and s not in needed]

    def keeps(self) -> dict[Buffer, list[tuple[Walk, Load | Store]]]:
        """Local memory in which walks keep elements for each other, and how they access it."""
        found: dict[Buffer, list[tuple[Walk, Load | Store]]] = {}
        for w in self.walks:
            for s in w.accesses():
                if s.buffer.role is BufferRole.LOCAL:
                    found.setdefault(s.buffer, []).append((w, s))
        return found

    def exchanged(self) -> list[Buffer]:
        """Local memory in which threads that have the same elements in every walk would look for
        those of others."""
        position = walked_at(self.walks)
        return [
            buffer
            for buffer, accesses in self.keeps().items()
            if len({w.place_of(s, position) for w, s in accesses}) > 1
            or any(w.count != position.extent for w, _ in accesses)
        ]


def row_nest_of(stage: Statement) -> RowNest | None:
    """The parts of a stage that works row by row; None if it is of another form."""
    kept: list[Loop] = []
    lead: list[Statement] = []
    loop = stage
    while True:
        if not isinstance(loop, Loop) or not _is_plain(loop) or loop.limits:
            return None
        kept.append(loop)
        inner = _only_loop(loop)
        if inner is None or not _is_plain(inner):
            break
        lead += [s for s in loop.body if s is not inner]
        loop = inner
    steps: list[Statement | Walk] = []
    for s in kept[-1].body:
        if not isinstance(s, Loop):
            steps.append(s)
            continue
        found = _walk_of(s)
        if found is not None:
            steps.append(found)
        elif all(isinstance(inside, _PURE_OR_LOOP) for inside in walk([s])):
            steps.append(s)  # each thread may do it again
        else:
            return None
    known = all(isinstance(s, _KNOWN) for s in steps)
    nest = RowNest(kept, lead, steps)
    return nest if known and nest.walks else None


def _is_plain(loop: Loop) -> bool:
    """Whether the rounds of a loop may be done by anybody."""
    return loop.independent and not loop.carries and loop.kind is LoopKind.SERIAL


def _only_loop(loop: Loop) -> Loop | None:
    """The loop inside, if beside it there are pure statements only."""
    others = [s for s in loop.body if not isinstance(s, PURE)]
    if len(others) == 1 and isinstance(others[0], Loop):
        return others[0]
    return None


def _walk_of(loop: Loop) -> Walk | None:
    loops, body = [loop], []
    while True:
        outer = loops[-1]
        inner = _only_loop(outer)
        if inner is None or inner.limits or not _continues(outer, inner):
            break
        body += [s for s in outer.body if s is not inner]
        loops.append(inner)
    if not loop.carries and not all(_is_plain(each) for each in loops):
        return None
    if len(loops) > 1 and loop.limits:
        return None
    found = Walk(loops, [*body, *loops[-1].body])
    stores = any(isinstance(s, Store) for s in found.body)
    inside = all(_stores_nothing(s) for s in found.body if not isinstance(s, Store))
    return found if inside and (stores or found.reduces) else None


def _continues(outer: Loop, inner: Loop) -> bool:
    """Whether the inner loop goes on with what the outer one does, and with nothing else."""
    if not outer.carries:
        return _is_plain(inner)
    handed = [c.init for c in inner.carries] == [c.phi for c in outer.carries]
    back = [c.next for c in outer.carries] == [c.result for c in inner.carries]
    return handed and back


def _stores_nothing(s: Statement) -> bool:
    return all(isinstance(inside, _PURE_OR_LOOP) for inside in walk([s]))


def walked_at(walks: Sequence[Walk]) -> Var:
    """A variable for the position in a row, to compare accesses of walks of one length."""
    return Var("position", walks[0].count, 0)
