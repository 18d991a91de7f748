"""Loops whose rounds may be run some at a time, in as many more lanes: round after round they go on
with the next lanes, everywhere.

    for i in range(n):                            for i in range(0, n, 4):
        for lane in lanes(32):                        for lane in lanes(128):
            out[32*i + lane] = f(p[32*i + lane])          out[32*i + lane] = f(p[32*i + lane])

An instruction takes about as long for 128 lanes as for 32 where its work is short, so there are
fewer of them. What rounds carry is put together in their order afterwards (`Fold`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd
from typing import NamedTuple

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import QUOTIENTS, Index, Var
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Compute,
    Constant,
    Contraction,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.targets.cpu.routines.threaded_memory_names import (
    OPERANDS_IN_MEMORY,
    UPDATED,
    UPDATES,
)
from xla_backend.targets.cpu.routines.threaded_names import (
    LANES,
    WIDE_LANES,
    element_bytes,
    lanes_at_once,
)
from xla_backend.targets.cpu.threaded.carried import uses

# Of lanes in which code runs some rounds, and of the slots of all that it computes in them.
MOST_LANES = 512
_MOST_BYTES = 20 << 10
# What an instruction takes beside its work, and that work for some LANES: in units of the latter.
_INSTRUCTION, _WORK = 4, 1
_IN_LANES = (Compute, Constant, Load, IndexValue, InRange)
_FOLDED = frozenset(
    {Opcode.ADD, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.AND, Opcode.OR}
)


class Fold(NamedTuple):
    """How a carried value is put together: `statement` combines what was carried so far with
    `value`, which needs none of that."""

    phi: Value
    statement: Compute
    value: Value


class Update(NamedTuple):
    """What a loop does to elements of memory, one after the other: `store` puts there what `opcode`
    makes of what there was and of `value`. `before`: what the loop does besides."""

    before: list[Statement]
    opcode: Opcode
    value: Value
    store: Store

    def kept(self) -> list[Value]:
        """What it needs of what is before it."""
        found = [v for v in uses(self.store) if v not in self.store.values]
        return [self.value, *found]


class Interior(NamedTuple):
    """Rounds of a loop that are loops in lanes, each of which goes on with the next lanes.

    Fields:
      inner: the loop in lanes.
      first, last: the first one, and the first behind them.
      holding: conditions that hold in all of them, if not in others.
    """

    inner: Loop
    first: int
    last: int
    holding: Collection[Value]


def interior_of(loop: Loop) -> Interior | None:
    """The rounds of a loop that go on with the next lanes, if each is just a loop in lanes."""
    if not loop.body:
        return None
    *before, last = loop.body
    if not isinstance(last, Loop) or last.kind is not LoopKind.LANES or last.combination:
        return None
    if loop.carries or last.carries or not all(isinstance(s, Constant) for s in before):
        return None
    holding: list[InRange] = []
    if not _goes_on(last.body, loop.var, last.var, holding):
        return None
    first, behind = 0, loop.var.extent
    for s in holding:
        begin, end = _rounds_within(s, loop.var)
        first, behind = max(first, begin), min(behind, end)
    if first >= behind or (holding and loop.limits):
        return None
    return Interior(last, first, behind, {s.result for s in holding})


def _rounds_within(s: InRange, var: Var) -> tuple[int, int]:
    """The rounds in which a condition holds whatever else it depends on."""
    c = s.index.coefficient(var)
    low, high = (s.index - Index({var: c})).bounds
    if c < 0:
        return 0, 0
    return -((low - s.low) // c), (s.high - 1 - high) // c + 1


def folds_of(loop: Loop, lanes: Var) -> list[Fold] | None:
    """How all is put together that the rounds of a loop carry in lanes, if that is how they go on
    with the next ones; None if not."""
    if not _goes_on(loop.body, loop.var, lanes):
        return None
    phis = {c.phi for c in loop.carries}
    made = {s.result: s for s in loop.body if isinstance(s, Compute)}
    folds = []
    for c in loop.carries:
        s = made.get(c.next)  # type: ignore[arg-type]
        if s is None or s.opcode not in _FOLDED or c.next in phis:
            return None
        if isinstance(s.attributes, Contraction):
            return None
        values = [o for o in s.operands if o is not c.phi]
        if len(values) != 1 or values[0] in phis or values[0].type is not c.phi.type:
            return None
        if lanes.extent % lanes_at_once(c.phi.type):
            return None
        folds.append(Fold(c.phi, s, values[0]))
    inside = {s.result for s in loop.body if isinstance(s, (Compute, Load, InRange, IndexValue))}
    own = {id(fold.statement) for fold in folds}
    results = {fold.statement.result for fold in folds}
    if any(fold.value not in inside or fold.value in results for fold in folds):
        return None
    others = [each for each in loop.body if id(each) not in own]
    if any(v in phis or v in results for each in others for v in uses(each)):
        return None
    return folds


def update_of(loop: Loop) -> Update | None:
    """What a loop updates, if nothing else in its rounds depends on rounds before."""
    if len(loop.body) < 3 or loop.carries:
        return None
    *before, load, compute, store = loop.body
    if not (isinstance(load, Load) and isinstance(compute, Compute) and isinstance(store, Store)):
        return None
    old, operands = load.result, compute.operands
    if store.values != (compute.result,) or load.buffer is not store.buffer:
        return None
    if load.index != store.index or load.guard is not None:
        return None
    if compute.opcode not in UPDATES or old.type not in UPDATED:
        return None
    if operands[0] is not old or operands[1] is old or isinstance(compute.attributes, Contraction):
        return None
    if not all(isinstance(s, _IN_LANES) for s in before):
        return None
    if any(isinstance(s, Load) and s.buffer is store.buffer for s in before):
        return None
    return Update(before, compute.opcode, operands[1], store)


class Needs(NamedTuple):
    """What statements need.

    Fields:
      last: for each statement the values that nothing uses behind it.
      lane_bytes: of the slots of one lane that are in use at the same time.
      operand_loads: as `loads_of_operands` has them.
    """

    last: list[list[Value]]
    lane_bytes: int
    operand_loads: Collection[Value]


def needs_of(statements: Sequence[Statement], kept: Collection[Value] = ()) -> Needs:
    """What statements need, of which some values are kept for what comes behind them."""
    seen = set(kept)
    last: list[list[Value]] = []
    made: list[list[Value]] = []
    for s in reversed(statements):
        mine = []
        for v in s.operands if s.__class__ is Compute else uses(s):  # type: ignore[attr-defined]
            if v not in seen:
                seen.add(v)
                mine.append(v)
        last.append(mine)
        made.append([s.result] if s.__class__ is Compute else _made(s))  # type: ignore[attr-defined]
    last.reverse()
    inside = {v for values in made for v in values}
    size = most = sum([_bytes(v) for v in seen if v not in inside])
    for values, mine in zip(reversed(made), last):
        for v in values:
            size += _bytes(v)
        if size > most:
            most = size
        for v in mine:
            if v in inside:
                size -= _bytes(v)
    return Needs(last, most, loads_of_operands(statements, kept))


def loads_of_operands(statements: Sequence[Statement], kept: Collection[Value]) -> set[Value]:
    """What is loaded only for one operation that can read it where it is, and that is still there
    then. Of each operation it is one operand at most."""
    counts: dict[Value, int] = dict.fromkeys(kept, 1)
    for s in statements:
        for v in s.operands if s.__class__ is Compute else uses(s):  # type: ignore[attr-defined]
            counts[v] = counts.get(v, 0) + 1
    found: set[Value] = set()
    loaded: set[Value] = set()
    for s in statements:
        if isinstance(s, Load):
            if counts.get(s.result) == 1 and s.buffer.role is not BufferRole.REGISTERS:
                loaded.add(s.result)
        elif isinstance(s, Compute):
            opcodes = OPERANDS_IN_MEMORY.get(s.result.type, ())
            if s.opcode in opcodes and not isinstance(s.attributes, Contraction):
                found.update([o for o in s.operands if o in loaded][-1:])
        elif not isinstance(s, _IN_LANES):
            loaded.clear()
    return found


def rounds_at_once(lane_bytes: int, lanes: int, rounds: int) -> int:
    """How many of so many rounds, each of so many lanes, are best run at once."""
    most = min(MOST_LANES, _MOST_BYTES // max(1, lane_bytes))
    unit = LANES // gcd(LANES, lanes)
    best, least = 1, _time(lanes, rounds, 1)
    for at_once in range(max(2, unit), min(rounds, most // lanes) + 1, unit):
        time = _time(lanes, rounds, at_once)
        if time < least:
            best, least = at_once, time
    return best


def _time(lanes: int, rounds: int, at_once: int) -> int:
    """What an instruction takes in all rounds, if so many are run at once."""
    together, left = divmod(rounds, at_once)
    work = -(-lanes // LANES) * _WORK
    return together * (_INSTRUCTION + at_once * work) + left * (_INSTRUCTION + work)


def outside_values(statements: Sequence[Statement]) -> set[Value]:
    """What statements read that they do not compute."""
    inside = {v for s in statements for v in _made(s)}
    return {v for s in statements for v in uses(s)} - inside


def _made(s: Statement) -> list[Value]:
    """The values that a statement computes, or those inside it."""
    if s.__class__ is not Loop and s.__class__ is not If:
        return [s.result] if hasattr(s, "result") else []
    found = [v for c in s.carries for v in (c.phi, c.result)]  # type: ignore[attr-defined]
    for inner in s.body:  # type: ignore[attr-defined]
        found += _made(inner)
    return found


def _bytes(value: Value) -> int:
    return element_bytes(value.type) or 1


def _goes_on(
    body: Sequence[Statement], var: Var, lanes: Var, holding: list[InRange] | None = None
) -> bool:
    """Whether each round of a loop does in its lanes what one with more lanes would do, where
    conditions on the number of the round hold, which are added to `holding`; None: there may be
    none."""
    if lanes.extent % WIDE_LANES:
        return False
    loaded: dict[Buffer, set[Index]] = {}
    stored: dict[Buffer, Index] = {}
    for s in walk(body):
        if isinstance(s, (Compute, Constant)):
            continue
        if isinstance(s, Loop):
            if s.kind is LoopKind.LANES or not all(_is_next(x, var, lanes) for x in s.limits):
                return False
            continue
        if not isinstance(s, (Load, Store, IndexValue, InRange, If)):
            return False
        if not _is_next(s.index, var, lanes):
            if holding is None or not isinstance(s, InRange) or not _is_of_rounds(s, var, lanes):
                return False
            holding.append(s)
        if isinstance(s, Load | Store):
            if s.buffer.role is BufferRole.REGISTERS:
                return False
            if isinstance(s, Load):
                loaded.setdefault(s.buffer, set()).add(s.index)
            elif s.buffer in stored or not s.index.coefficient(lanes) or len(s.values) > 1:
                return False
            else:
                stored[s.buffer] = s.index
    return all(loaded.get(buffer, {index}) == {index} for buffer, index in stored.items())


def _is_of_rounds(s: InRange, var: Var, lanes: Var) -> bool:
    """Whether a condition is the same in all lanes, and how it depends on the round is known."""
    return all(
        atom is var or (atom is not lanes and isinstance(atom, Var)) for atom in s.index.terms
    )


def _is_next(index: Index, var: Var, lanes: Var) -> bool:
    """Whether an index of the next round is that of the next lanes."""
    own = along = 0
    for atom, c in index.terms.items():
        if atom is var:
            own = c
        elif atom is lanes:
            along = c
        elif isinstance(atom, QUOTIENTS) and not _is_next(atom.index, var, lanes):
            return False
    return own == lanes.extent * along


def rounds_inside(statements: Sequence[Statement]) -> int:
    """How often the innermost of statements run."""
    most = 1
    for s in statements:
        if s.__class__ is Loop:
            most = max(most, s.var.extent * rounds_inside(s.body))  # type: ignore[attr-defined]
        elif s.__class__ is If:
            most = max(most, rounds_inside(s.body))  # type: ignore[attr-defined]
    return most
