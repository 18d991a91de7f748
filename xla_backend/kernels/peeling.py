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
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import FloorDiv, Index, Mod, Var, constant
from xla_backend.kernels.ir import (
    Carry,
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
    walk,
)

# Nests of fewer rounds gain less than the additional code takes to compile.
_WORTH_ROUNDS = 1 << 13
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
    was. Nests of fewer `rounds` of the innermost body stay."""
    stages: list[Statement] = []
    changed = False
    constants = {s.result: s for s in walk(kernel.stages) if isinstance(s, Constant)}
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


def _rounds(loop: Loop) -> int:
    return loop.var.extent * max([1, *(_rounds(s) for s in loop.body if isinstance(s, Loop))])


def _size(stage: Loop) -> int:
    return sum(1 for _ in walk([stage]))


class _Peeler:
    """Splits the loops of one stage."""

    def __init__(self, constants: Mapping[Value, Constant]) -> None:
        self.constants = constants
        self.changed = False
        self.room = (_MAX_GROWTH - 1) * _MAX_STATEMENTS

    def pieces(self, loop: Loop, *, outermost: bool) -> list[Statement]:
        """The loop, in pieces; the loops inside large pieces likewise."""
        innermost = not any(isinstance(s, Loop) for s in loop.body)
        if loop.carries or (innermost and not outermost):
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
            piece = _Copy(loop, first, last, self.constants).loop()
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


class _Copy:
    """A loop again, for the values [first, last) of its variable, with what those decide."""

    def __init__(
        self, loop: Loop, first: int, last: int, constants: Mapping[Value, Constant]
    ) -> None:
        self.source, self.first, self.last = loop, first, last
        self.constants = constants
        self.var = Var(loop.var.name, last - first, loop.var.depth)
        here = Index.of(self.var) if last - first > 1 else constant(0)
        self.vars: dict[Var, Index] = {loop.var: here + first}
        self.values: dict[Value, Value] = {}
        self.known: dict[Value, bool] = {}
        self.positions: dict[Value, int] = {}

    def loop(self) -> Loop:
        new = self._like(self.source, self.var)
        new.body = _live(self._block(self.source.body))
        return new

    def _like(self, loop: Loop, var: Var) -> Loop:
        return Loop(
            var,
            combiner=loop.combiner,
            keeps_lanes=loop.keeps_lanes,
            independent=loop.independent,
            may_vectorize=loop.may_vectorize,
        )

    def _block(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            self._statement(s, result)
        return result

    def _value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def _new(self, value: Value) -> Value:
        new = Value(value.type, value.depth, value.number, value.bounds)
        self.values[value] = new
        return new

    def _index(self, index: Index) -> Index:
        total = constant(index.constant)
        for atom, c in index.terms.items():
            if isinstance(atom, Var):
                part = self.vars.get(atom) or Index.of(atom)
            elif isinstance(atom, FloorDiv):
                part = self._index(atom.index) // atom.divisor
            elif isinstance(atom, Mod):
                part = self._index(atom.index) % atom.divisor
            else:
                part = Index.of(self._value(atom))
            total = total + part * c
        return total

    def _decided(self, value: Value | None) -> bool | None:
        return None if value is None else self.known.get(value)

    def _statement(self, s: Statement, out: list[Statement]) -> None:
        if isinstance(s, Constant):
            out.append(Constant(self._new(s.result), s.value))
        elif isinstance(s, Load):
            truth = self._decided(s.guard)
            if truth is False:
                zero = s.buffer.element_type.numpy_dtype.type(0)
                out.append(Constant(self._new(s.result), zero))
                return
            guard = None if s.guard is None or truth else self._value(s.guard)
            index = self._index(s.index)
            out.append(Load(self._new(s.result), s.buffer, index, guard))
        elif isinstance(s, Store):
            truth = self._decided(s.guard)
            if truth is False:
                return
            guard = None if s.guard is None or truth else self._value(s.guard)
            values = tuple(self._value(v) for v in s.values)
            out.append(Store(s.buffer, self._index(s.index), values, guard))
        elif isinstance(s, IndexValue):
            if s.index.terms == {self.source.var: 1} and _exact(s):
                self.positions[s.result] = s.index.constant
            out.append(IndexValue(self._new(s.result), self._index(s.index)))
        elif isinstance(s, InRange):
            index = self._index(s.index)
            low, high = index.bounds
            if s.low <= low and high < s.high:
                self._know(s.result, True, out)
            elif high < s.low or low >= s.high:
                self._know(s.result, False, out)
            else:
                out.append(InRange(self._new(s.result), index, s.low, s.high))
        elif isinstance(s, Compute):
            self._compute(s, out)
        else:
            assert isinstance(s, Loop)
            out.append(self._inner(s))

    def _know(self, value: Value, truth: bool, out: list[Statement]) -> None:
        self.known[value] = truth
        out.append(Constant(self._new(value), value.type.numpy_dtype.type(truth)))

    def _compute(self, s: Compute, out: list[Statement]) -> None:
        found = _comparison(s, self.positions, self.constants)
        if found is not None:
            edge, below = found
            if self.last <= edge or self.first >= edge:
                self._know(s.result, (self.last <= edge) == below, out)
                return
        known = [self.known.get(o) for o in s.operands]
        if s.opcode is Opcode.SELECT and known[0] is not None:
            chosen = s.operands[1 if known[0] else 2]
            self.values[s.result] = self._value(chosen)
            if chosen in self.known:
                self.known[s.result] = self.known[chosen]
            return
        is_condition = s.result.type is PrimitiveType.PRED
        if s.opcode is Opcode.NOT and known[0] is not None:
            self._know(s.result, not known[0], out)
            return
        if is_condition and s.opcode in (Opcode.AND, Opcode.OR) and known != [None, None]:
            decisive = s.opcode is Opcode.OR
            if decisive in known or None not in known:
                self._know(s.result, decisive if decisive in known else not decisive, out)
            else:
                self.values[s.result] = self._value(s.operands[known.index(None)])
            return
        operands = tuple(self._value(o) for o in s.operands)
        out.append(Compute(self._new(s.result), s.opcode, operands, s.attributes))

    def _inner(self, loop: Loop) -> Loop:
        var = Var(loop.var.name, loop.var.extent, loop.var.depth)
        self.vars[loop.var] = Index.of(var)
        new = self._like(loop, var)
        inits = [self._value(c.init) for c in loop.carries]
        new.carries = [
            Carry(self._new(c.phi), init, self._new(c.result), identity=c.identity)
            for c, init in zip(loop.carries, inits)
        ]
        new.body = self._block(loop.body)
        for old, copy in zip(loop.carries, new.carries):
            copy.next = None if old.next is None else self._value(old.next)
        return new


def _live(statements: list[Statement]) -> list[Statement]:
    """Without statements whose results nobody uses."""
    used: set[Value] = set()
    _collect(statements, used)
    while True:
        kept = _filtered(statements, used)
        now: set[Value] = set()
        _collect(kept, now)
        if now == used:
            return kept
        statements, used = kept, now


def _collect(statements: Sequence[Statement], used: set[Value]) -> None:
    for s in walk(list(statements)):
        if isinstance(s, Compute):
            used.update(s.operands)
        elif isinstance(s, Load | Store):
            _collect_index(s.index, used)
            if s.guard is not None:
                used.add(s.guard)
            if isinstance(s, Store):
                used.update(s.values)
        elif isinstance(s, IndexValue | InRange):
            _collect_index(s.index, used)
        elif isinstance(s, Loop):
            for carry in s.carries:
                used.add(carry.init)
                if carry.next is not None:
                    used.add(carry.next)


def _collect_index(index: Index, used: set[Value]) -> None:
    for atom in index.terms:
        if isinstance(atom, FloorDiv | Mod):
            _collect_index(atom.index, used)
        elif isinstance(atom, Value):
            used.add(atom)


def _filtered(statements: Sequence[Statement], used: set[Value]) -> list[Statement]:
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, Loop):
            s.body = _filtered(s.body, used)
            result.append(s)
        elif isinstance(s, Store) or s.result in used:  # type: ignore[attr-defined]
            result.append(s)
    return result
