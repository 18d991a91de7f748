"""Copies of statements for other values of loop variables, with what those values decide.

A condition on an index that can only come out one way is gone in the copy, and so is what follows
from it: guards that hold, selects, conjunctions, statements whose results nobody uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import QUOTIENTS, Atom, Index, Var
from xla_backend.kernels.ir import (
    ACCESSES,
    BODIES,
    PURE,
    Carry,
    Combiner,
    Compute,
    Constant,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)

_OF_AN_INDEX = (IndexValue, InRange)
_WITH_INDEX = frozenset({Load, Store, IndexValue, InRange, If})


class Copy:
    """Copies statements with indices in place of loop variables.

    `narrowed`: variables that have fewer values, [low, high], in the place of the copy than their
    bounds say.
    """

    def __init__(
        self, vars: Mapping[Var, Index], narrowed: Mapping[Atom, tuple[int, int]] | None = None
    ) -> None:
        self.vars: dict[Var, Index] = dict(vars)
        self.narrowed = narrowed or {}
        self.values: dict[Value, Value] = {}
        self.known: dict[Value, bool] = {}

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            self._statement(s, result)
        return result

    def value(self, value: Value) -> Value:
        """What stands for a value in the copy."""
        return self.values.get(value, value)

    def _new(self, value: Value) -> Value:
        new = self.values[value] = value.like()
        return new

    def index(self, index: Index) -> Index:
        """An index as it is in the copy."""
        return index.replaced(self._atom)

    def _atom(self, atom: object) -> Index | None:
        if isinstance(atom, Var):
            return self.vars.get(atom)
        if isinstance(atom, Value) and atom in self.values:
            return Index.of(self.values[atom])
        return None

    def _bounds(self, index: Index) -> tuple[int, int]:
        if not self.narrowed:
            return index.bounds
        low = high = index.constant
        for atom, c in index.terms.items():
            a, b = self.narrowed.get(atom) or atom.bounds
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return low, high

    def _decided(self, value: Value | None) -> bool | None:
        return None if value is None else self.known.get(value)

    def _statement(self, s: Statement, out: list[Statement]) -> None:
        if isinstance(s, Compute):
            self._compute(s, out)
        elif isinstance(s, Constant):
            out.append(Constant(self._new(s.result), s.value))
        elif isinstance(s, Load):
            truth = self._decided(s.guard)
            if truth is False:
                zero = s.buffer.element_type.numpy_dtype.type(0)
                out.append(Constant(self._new(s.result), zero))
                return
            guard = None if s.guard is None or truth else self.value(s.guard)
            index = self.index(s.index)
            out.append(Load(self._new(s.result), s.buffer, index, guard))
        elif isinstance(s, Store):
            truth = self._decided(s.guard)
            if truth is False:
                return
            guard = None if s.guard is None or truth else self.value(s.guard)
            values = tuple(self.value(v) for v in s.values)
            out.append(Store(s.buffer, self.index(s.index), values, guard))
        elif isinstance(s, IndexValue):
            out.append(IndexValue(self._new(s.result), self.index(s.index)))
        elif isinstance(s, InRange):
            self._in_range(s, out)
        else:
            assert isinstance(s, Loop), f"{type(s).__name__} is not copied"
            out.append(self._inner(s))

    def _in_range(self, s: InRange, out: list[Statement]) -> None:
        index = self.index(s.index)
        low, high = self._bounds(index)
        if s.low <= low and high < s.high:
            self.know(s.result, True, out)
        elif high < s.low or low >= s.high:
            self.know(s.result, False, out)
        else:
            out.append(InRange(self._new(s.result), index, s.low, s.high))

    def know(self, value: Value, truth: bool, out: list[Statement]) -> None:
        """The value of a condition in the copy."""
        self.known[value] = truth
        out.append(Constant(self._new(value), value.type.numpy_dtype.type(truth)))

    def _same(self, value: Value, other: Value) -> None:
        self.values[value] = self.value(other)
        if other in self.known:
            self.known[value] = self.known[other]

    def _compute(self, s: Compute, out: list[Statement]) -> None:
        if self.known and self._follows(s, out):
            return
        value = self.values.get
        operands = tuple([value(o, o) for o in s.operands])
        out.append(Compute(self._new(s.result), s.opcode, operands, s.attributes))

    def _follows(self, s: Compute, out: list[Statement]) -> bool:
        """Whether what is known of conditions makes an operation unnecessary."""
        known = [self.known.get(o) for o in s.operands]
        if s.opcode is Opcode.SELECT and known[0] is not None:
            self._same(s.result, s.operands[1 if known[0] else 2])
            return True
        if s.result.type is not PrimitiveType.PRED:
            return False
        if s.opcode is Opcode.NOT and known[0] is not None:
            self.know(s.result, not known[0], out)
            return True
        if s.opcode in (Opcode.AND, Opcode.OR) and any(k is not None for k in known):
            decisive = s.opcode is Opcode.OR
            if decisive in known or None not in known:
                self.know(s.result, decisive if decisive in known else not decisive, out)
            else:
                self._same(s.result, s.operands[known.index(None)])
            return True
        return False

    def _inner(self, loop: Loop) -> Loop:
        var = Var(loop.var.name, loop.var.extent, loop.var.depth)
        self.vars[loop.var] = Index.of(var)
        new = like(loop, var)
        new.limits = tuple(self.index(limit) for limit in loop.limits)
        inits = [self.value(c.init) for c in loop.carries]
        new.carries = [
            Carry(self._new(c.phi), init, self._new(c.result), identity=c.identity)
            for c, init in zip(loop.carries, inits)
        ]
        new.body = self.block(loop.body)
        new.elements = tuple(self.value(v) for v in loop.elements)
        for old, copy in zip(loop.carries, new.carries):
            copy.next = None if old.next is None else self.value(old.next)
        return new


def interleaved(statements: Sequence[Statement], copies: Sequence[Copy]) -> list[Statement]:
    """Statements as each of the copies has them: one statement of all copies after the other, so
    that loads of all come before what is done with them."""
    return [made for s in statements for copy in copies for made in copy.block([s])]


def like(loop: Loop, var: Var) -> Loop:
    """A loop with the same facts, without limits and a body."""
    return Loop(
        var,
        combiner=loop.combiner,
        independent=loop.independent,
        may_vectorize=loop.may_vectorize,
        kind=loop.kind,
    )


def combined(
    combiner: Combiner, lhs: Sequence[Value], rhs: Sequence[Value], out: list[Statement]
) -> list[Value]:
    """The results of a combiner."""
    copy = Copy({})
    copy.values.update(zip([*combiner.lhs, *combiner.rhs], [*lhs, *rhs]))
    out += copy.block(combiner.body)
    return [copy.value(v) for v in combiner.results]


def replace_atoms(statements: Sequence[Statement], atoms: dict[Atom, Index]) -> None:
    """Put indices in place of loop variables in the statements themselves."""
    # Statements of a body often share their index. (What is kept here keeps its id.)
    _replace(statements, atoms.get, {})


def _replace(
    statements: Sequence[Statement],
    of: Callable[[Atom], Index | None],
    known: dict[int, tuple[Index, Index]],
) -> None:
    for s in statements:
        kind = type(s)
        if kind in _WITH_INDEX:
            old = s.index  # type: ignore[attr-defined]
            found = known.get(id(old))
            if found is None:
                found = known[id(old)] = (old, old.replaced(of))
            s.index = found[1]  # type: ignore[attr-defined]
        elif isinstance(s, Loop) and s.limits:
            s.limits = tuple([limit.replaced(of) for limit in s.limits])
        if isinstance(s, BODIES):
            _replace(s.body, of, known)


def operands_of(s: Statement) -> Sequence[Value]:
    """The values that a statement uses itself; its body's are their own."""
    if isinstance(s, Compute):
        return s.operands
    if isinstance(s, ACCESSES):
        found = _values_of(s.index)
        if s.guard is not None:
            found.append(s.guard)
        if isinstance(s, Store):
            found += s.values
        return found
    if isinstance(s, _OF_AN_INDEX):
        return _values_of(s.index)
    if not isinstance(s, BODIES):
        return ()
    found = []
    for carry in s.carries:
        found.append(carry.init)
        if carry.next is not None:
            found.append(carry.next)
    if isinstance(s, Loop):
        found += s.elements
        if s.combination is not None:
            found += s.combination.values
            found += s.combination.inits
    return found


def _values_of(index: Index) -> list[Value]:
    found: list[Value] = []
    for atom in index.terms:
        if isinstance(atom, QUOTIENTS):
            found += _values_of(atom.index)
        elif isinstance(atom, Value):
            found.append(atom)
    return found


def live(statements: list[Statement], kept: Sequence[Value] = ()) -> list[Statement]:
    """Without statements whose results nobody uses; `kept` are used elsewhere."""
    while True:
        used = set(kept)
        every = walk(statements)
        for s in every:
            used.update(operands_of(s))
        if all(s.result in used for s in every if isinstance(s, PURE)):
            return statements
        statements = _filtered(statements, used)


def _filtered(statements: Sequence[Statement], used: set[Value]) -> list[Statement]:
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, BODIES):
            s.body = _filtered(s.body, used)
        elif isinstance(s, PURE) and s.result not in used:
            continue
        result.append(s)
    return result
