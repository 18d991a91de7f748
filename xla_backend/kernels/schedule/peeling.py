"""Splits loops where a condition on their variable changes, so that most pieces test nothing.

    for i in range(100):                  for i in range(1):
        v0 = 1 <= i < 100                     out[0] = p[99]
        v1 = p[i - 1] if v0 else 0   ->   for i in range(99):
        v2 = v1 if v0 else p[99]              v1 = p[i]
        out[i] = v2                           out[i + 1] = v1

Rolled, padded and concatenated arrays, and comparisons of an iota, test a range per element. The
pieces run in order and each does what the loop did for its values, so results keep their bits.
Innermost loops in which a schedule splits its vectors itself are left to it, unless they are a
whole stage, whose pieces may then be split over threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from xla_backend.hlo.attributes import ComparisonDirection
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.ir import (
    Compute,
    Constant,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Statement,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import Copy, like, live

# Nests of less work, in rounds of the innermost body that do nothing but move an element, gain less
# than the additional code takes to compile.
_WORTH_ROUNDS = 1 << 13
# Cycles of arithmetic that take as long as such a round.
_CYCLES_OF_A_ROUND = 4
# Cycles of a load under a condition: a masked one, or one at an address that is chosen first.
_GUARDED_LOAD = 4
# A piece is kept apart if it is at least this part of the loop; others are joined with neighbours.
_LARGE_PIECE = 8
_MAX_PIECES = 5
# Statements of a nest before, and at most after, it is split.
_MAX_STATEMENTS = 200
_MAX_GROWTH = 5

_COMPARISONS = {
    ComparisonDirection.LT: 0,
    ComparisonDirection.GE: 0,
    ComparisonDirection.LE: 1,
    ComparisonDirection.GT: 1,
}


def peel(kernel: Kernel, rounds: int = _WORTH_ROUNDS) -> bool:
    """Split the loops of a kernel where that leaves large pieces without conditions. True iff any
    was. Nests of less work than so many `rounds` of a light innermost body stay."""
    stages: list[Statement] = []
    changed = False
    every = walk(kernel.stages)
    if {InRange, IndexValue}.isdisjoint(map(type, every)):
        return False  # conditions on loops' variables come from these
    constants = {s.result: s for s in every if isinstance(s, Constant)}
    for stage in kernel.stages:
        if isinstance(stage, Loop) and _worth_it(stage, rounds):
            peeler = _Peeler(constants)
            stages += peeler.pieces(stage, outermost=True)
            changed |= peeler.changed
        else:
            stages.append(stage)
    kernel.stages = stages
    return changed


def _worth_it(stage: Loop, rounds: int) -> bool:
    return _rounds(stage) >= rounds and _size(stage) <= _MAX_STATEMENTS


def _rounds(loop: Loop) -> float:
    """Rounds of the innermost body, those of heavy ones counted as several."""
    inner = [_rounds(s) for s in loop.body if isinstance(s, Loop)]
    work = sum(s.opcode.cycles for s in loop.body if isinstance(s, Compute))
    work += _GUARDED_LOAD * sum(1 for s in loop.body if isinstance(s, Load) and s.guard is not None)
    return loop.var.extent * max([1, work / _CYCLES_OF_A_ROUND, *inner])


def _size(stage: Loop) -> int:
    return len(walk([stage]))


class _Peeler:
    """Splits the loops of one stage."""

    def __init__(self, constants: Mapping[Value, Constant]) -> None:
        self.constants = constants
        self.changed = False
        self.room = (_MAX_GROWTH - 1) * _MAX_STATEMENTS

    def pieces(self, loop: Loop, *, outermost: bool) -> list[Statement]:
        """The loop, in pieces; the loops inside large pieces likewise."""
        innermost = not any(isinstance(s, Loop) for s in loop.body)
        if loop.carries or loop.limits or (innermost and not outermost):
            return [loop]
        edges = _edges(loop, self.constants)
        cuts = _cuts(edges, loop.var.extent)
        grows = (len(cuts) - 2) * _size(loop)
        if len(cuts) == 2 or grows > self.room:
            return [self._inside(loop)]
        self.room -= grows
        self.changed = True
        result: list[Statement] = []
        for first, last in pairwise(cuts):
            piece = _Piece(loop, first, last, self.constants).loop()
            large = (last - first) * _LARGE_PIECE >= loop.var.extent
            result.append(self._inside(piece) if large else piece)
        return result

    def _inside(self, loop: Loop) -> Loop:
        body: list[Statement] = []
        for s in loop.body:
            if isinstance(s, Loop):
                body += self.pieces(s, outermost=False)
            else:
                body.append(s)
        loop.body = body
        return loop


def _edges(loop: Loop, constants: Mapping[Value, Constant]) -> set[int]:
    """Values of the loop's variable from which on a condition in its body comes out differently."""
    var = loop.var
    edges: set[int] = set()
    positions: dict[Value, int] = {}
    for s in walk(loop.body):
        if isinstance(s, InRange) and s.index.terms == {var: 1}:
            edges |= {s.low - s.index.constant, s.high - s.index.constant}
        elif isinstance(s, IndexValue) and s.index.terms == {var: 1} and _exact(s):
            positions[s.result] = s.index.constant
        elif isinstance(s, Compute):
            found = _comparison(s, positions, constants)
            if found is not None:
                edges.add(found[0])
    return {e for e in edges if 0 < e < var.extent}


def _exact(s: IndexValue) -> bool:
    """Whether the index is its value in the result's type."""
    type = s.result.type
    if not type.is_integral:
        return False
    low, high = s.index.bounds
    bits = type.bits - (1 if type.is_signed_integral else 0)
    return high < 1 << bits and low >= (-(1 << bits) if type.is_signed_integral else 0)


def _comparison(
    s: Compute, positions: Mapping[Value, int], constants: Mapping[Value, Constant]
) -> tuple[int, bool] | None:
    """(e, below) if the statement asks whether the variable is less than e (below), or at least
    e."""
    if s.opcode is not Opcode.COMPARE:
        return None
    x, y = s.operands
    direction = s.attributes.direction
    if direction not in _COMPARISONS:
        return None
    if x in positions and y in constants:
        offset, bound = positions[x], int(constants[y].value)
        below = direction in (ComparisonDirection.LT, ComparisonDirection.LE)
        return bound - offset + _COMPARISONS[direction], below
    if y in positions and x in constants:
        # k < i is i >= k + 1; k <= i is i >= k.
        offset, bound = positions[y], int(constants[x].value)
        below = direction in (ComparisonDirection.GT, ComparisonDirection.GE)
        strict = direction in (ComparisonDirection.LT, ComparisonDirection.GE)
        return bound - offset + (1 if strict else 0), below
    return None


def _cuts(edges: set[int], extent: int) -> list[int]:
    """Where to cut a loop: around every large piece; small ones beside each other stay one."""
    every = [0, *sorted(edges), extent]
    large = [last - first >= max(1, extent // _LARGE_PIECE) for first, last in pairwise(every)]
    kept = [every[0]]
    for i in range(1, len(every) - 1):
        if large[i - 1] or large[i]:
            kept.append(every[i])
    kept.append(extent)
    if len(kept) - 1 <= _MAX_PIECES:
        return kept
    first, last = max(pairwise(every), key=lambda piece: piece[1] - piece[0])
    return sorted({0, first, last, extent})


class _Piece(Copy):
    """A loop again, for the values [first, last) of its variable, with what those decide."""

    def __init__(
        self, loop: Loop, first: int, last: int, constants: Mapping[Value, Constant]
    ) -> None:
        self.source, self.first, self.last = loop, first, last
        self.constants = constants
        self.var = Var(loop.var.name, last - first, loop.var.depth)
        here = Index.of(self.var) if last - first > 1 else constant(0)
        super().__init__({loop.var: here + first})
        self.positions: dict[Value, int] = {}

    def loop(self) -> Loop:
        new = like(self.source, self.var)
        new.body = live(self.block(self.source.body))
        return new

    def _statement(self, s: Statement, out: list[Statement]) -> None:
        if isinstance(s, IndexValue) and s.index.terms == {self.source.var: 1} and _exact(s):
            self.positions[s.result] = s.index.constant
        found = _comparison(s, self.positions, self.constants) if isinstance(s, Compute) else None
        if found is not None and (self.last <= found[0] or self.first >= found[0]):
            assert isinstance(s, Compute)
            self.know(s.result, (self.last <= found[0]) == found[1], out)
            return
        super()._statement(s, out)


def cut(loop: Loop, places: Sequence[int], constants: Mapping[Value, Constant]) -> list[Loop]:
    """The loop in pieces that begin at 0 and at these values of its variable."""
    every = [0, *places, loop.var.extent]
    return [_Piece(loop, first, last, constants).loop() for first, last in pairwise(every)]
