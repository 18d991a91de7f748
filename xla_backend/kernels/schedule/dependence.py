"""What statements and indices depend on: which of them vary with a loop, which a value needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xla_backend.kernels.index import QUOTIENTS, Atom, FloorDiv, Index, Mod
from xla_backend.kernels.ir import (
    BODIES,
    INDEXED,
    PURE,
    Buffer,
    BufferRole,
    If,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.schedule.copying import operands_of

_WITH_INDEX = (*INDEXED, If)


def mentions(index: Index, atoms: Collection[object]) -> bool:
    """Whether an index depends on one of some atoms, also inside a quotient."""
    for a in index.terms:
        if mentions(a.index, atoms) if isinstance(a, QUOTIENTS) else a in atoms:
            return True
    return False


def quotients(index: Index) -> Iterator[FloorDiv | Mod]:
    """The quotients and remainders in an index."""
    return (a for a in index.terms if isinstance(a, QUOTIENTS))


def varies(s: Statement, atoms: Collection[object]) -> bool:
    """Whether a statement, or one inside it, depends on variables or values among `atoms`."""
    for inner in walk([s]):
        for index in indices_of(inner):
            if mentions(index, atoms):
                return True
        for value in operands_of(inner):
            if value in atoms:
                return True
    return False


def indices_of(s: Statement) -> Sequence[Index]:
    """The indices that a statement itself speaks of."""
    if isinstance(s, _WITH_INDEX):
        return (s.index,)
    return s.limits if isinstance(s, Loop) else ()


def divided(statements: Sequence[Statement], var: Atom) -> tuple[list[Statement], list[Statement]]:
    """(those that compute the same in all iterations over `var`, the others), in order. Only pure
    statements are the same: what is stored is stored each time, and a load must not see it."""
    atoms: set[object] = {var}
    stored = written(statements)
    same: list[Statement] = []
    others: list[Statement] = []
    for s in statements:
        is_fixed = isinstance(s, PURE) and not varies(s, atoms)
        if is_fixed and not (isinstance(s, Load) and s.buffer in stored):
            same.append(s)
            continue
        others.append(s)
        atoms.update(results_of(s))
    return same, others


def results_of(s: Statement) -> Iterator[Value]:
    """The values that the statements after this one may use."""
    if isinstance(s, PURE):
        yield s.result
    elif isinstance(s, BODIES):
        yield from (carry.result for carry in s.carries)
        if isinstance(s, Loop) and s.combination is not None:
            yield from s.combination.results


def needed(statements: Sequence[Statement], values: Iterable[Value]) -> list[Statement] | None:
    """The statements among these that some values come from, in order; None if one of them does
    more than compute a value."""
    wanted = set(values)
    found: list[Statement] = []
    for s in reversed(statements):
        if wanted.isdisjoint(results_of(s)):
            continue
        if not isinstance(s, PURE):
            return None
        wanted.update(operands_of(s))
        found.append(s)
    return found[::-1]


def read(statements: Sequence[Statement]) -> set[Buffer]:
    """The buffers that statements load from."""
    return {s.buffer for s in walk(statements) if isinstance(s, Load)}


def written(statements: Sequence[Statement]) -> set[Buffer]:
    """The buffers that statements store to."""
    return {s.buffer for s in walk(statements) if isinstance(s, Store)}


def overwrites(stored: Collection[Buffer], before: Collection[Buffer]) -> bool:
    """Whether what is stored may be in the memory of buffers that were read before. That of an
    operand may be an output's too, if they have the same size: buffer assignment sees to it only
    that the nest of the output reads an element before it writes it."""
    return any(
        a is b
        or (
            (a.role, b.role) == (BufferRole.OUTPUT, BufferRole.OPERAND)
            and a.size * a.element_type.byte_size == b.size * b.element_type.byte_size
        )
        for a in stored
        for b in before
    )
