"""Loops over the elements of rows that are shorter than a vector and lie one behind the other, with
a row in each lane: what all rounds read is one stretch of memory.

    for lane in lanes(16):
        for j in range(8):
            v = p[8*lane + j]

Or the elements of a row are loads of their own, as of `x[..., 0]` to `x[..., 7]`.

The stretch is loaded at once, and comes apart in registers: even elements from odd ones, or every
third, fifth or seventh from the others, and these again, until each register has one column. That
is a shuffle for each load and doubling, where every lane would go to memory for itself.
"""

from __future__ import annotations

from collections.abc import Collection

from xla_backend.kernels.index import QUOTIENTS, Index, Var
from xla_backend.kernels.ir import Buffer, BufferRole, Load, Loop, Statement, Store, walk
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, memory_type, vector
from xla_backend.llvm.writer import FunctionWriter

# Where vectors of 32 bits have so many lanes there are 32 registers, elsewhere 16.
_LANES_OF_MANY_REGISTERS = 16
_SHORTEST, _LONGEST = 4, 16
_MOST_LOADS = 4
# Shuffles for each load, of which more take as long as the gather.
_MOST_SHUFFLES = 7


def row_reads(loop: Loop, lane: Var) -> list[Load]:
    """The loads of a loop that read the elements of a row one after another, neighbouring lanes
    neighbouring rows."""
    if loop.limits:
        return []
    found = [
        s
        for s in _plain_loads(loop.body)
        if row_length(s.index, lane) == loop.var.extent and s.index.coefficient(loop.var) == 1
    ]
    return found if len(found) <= _MOST_LOADS else []


def _plain_loads(body: list[Statement]) -> list[Load]:
    """Loads without conditions of arrays that the body does not write."""
    written = {s.buffer for s in walk(body) if isinstance(s, Store)}
    return [
        s
        for s in body
        if isinstance(s, Load)
        and s.guard is None
        and s.buffer.role is not BufferRole.REGISTERS
        and s.buffer not in written
    ]


def whole_row_loads(
    body: list[Statement], lane: Var, lanes: int, target: TargetInfo
) -> list[dict[int, list[Load]]]:
    """Loads side by side that read the first and the last element of a row and at least half of
    all, neighbouring lanes neighbouring rows: of each row the loads by element."""
    places: dict[tuple[Buffer, Index], list[tuple[int, Load]]] = {}
    for s in _plain_loads(body):
        length = s.index.coefficient(lane)
        known = not any(_may_depend(atom, (lane,)) for atom in s.index.terms if atom is not lane)
        if known and shuffles(length, target.lanes(32)):
            start = (s.buffer, Index(s.index.terms))
            places.setdefault(start, []).append((s.index.constant, s))
    found = []
    for (buffer, index), loads in places.items():
        length, first = index.coefficient(lane), min(place for place, _ in loads)
        row: dict[int, list[Load]] = {}
        for place, s in loads:
            row.setdefault(place - first, []).append(s)
        bits = bits_of(memory_type(buffer.element_type)) * length * lanes
        if max(row) == length - 1 and 2 * len(row) >= length and bits <= _register_bits(target):
            found.append(row)
    return found


def row_length(index: Index, lane: Var) -> int:
    """How many elements lie between neighbouring lanes, all of which a loop reads one after
    another; 0 if none does so, or they are not so many that they come apart in halves."""
    length = index.coefficient(lane)
    if not shuffles(length, _LANES_OF_MANY_REGISTERS):
        return 0
    others = [atom for atom in index.terms if atom is not lane]
    steps = [atom for atom in others if isinstance(atom, Var) and index.coefficient(atom) == 1]
    if len(steps) != 1 or steps[0].extent != length:
        return 0
    fixed = (atom for atom in others if atom is not steps[0])
    return 0 if any(_may_depend(atom, (lane, steps[0])) for atom in fixed) else length


def _may_depend(atom: object, variables: Collection[Var]) -> bool:
    """Whether a part of an index may differ with these."""
    if isinstance(atom, QUOTIENTS):
        return any(_may_depend(inner, variables) for inner in atom.index.terms)
    return not isinstance(atom, Var) or atom in variables


def shuffles(length: int, lanes: int) -> int:
    """How many shuffles a load of rows of this length is, where vectors of 32 bits have so many
    lanes; 0 where the lanes are to read for themselves."""
    if not _SHORTEST <= length <= _LONGEST:
        return 0
    found, rest = 0, length
    while rest > 1:
        factor = _least_factor(rest)
        found, rest = found + factor - 1, rest // factor
    # One instruction takes any elements of two registers only where these are the longest ones.
    any_elements = lanes == _LANES_OF_MANY_REGISTERS or not length & (length - 1)
    return found if any_elements and found <= _MOST_SHUFFLES else 0


def _least_factor(number: int) -> int:
    return next(k for k in range(2, number + 1) if number % k == 0)


def lanes_that_fit(loop: Loop, reads: list[Load], target: TargetInfo) -> int:
    """How many rows' elements the registers of the machine hold."""
    if not shuffles(loop.var.extent, target.lanes(32)):
        return 0
    size = max(bits_of(memory_type(s.result.type)) for s in reads) * loop.var.extent * len(reads)
    return _register_bits(target) // size


def _register_bits(target: TargetInfo) -> int:
    """Of all registers together."""
    registers = 32 if target.lanes(32) == _LANES_OF_MANY_REGISTERS else 16
    return registers * 32 * target.lanes(32)


def columns(w: FunctionWriter, s: Load, pointer: str, lanes: int, length: int) -> list[str]:
    """What a load reads in each round, in so many lanes, as it is in memory."""
    stored = memory_type(s.result.type)
    ty = vector(stored, lanes)
    rows = [w.load(ty, w.gep(stored, pointer, lanes * i)) for i in range(length)]
    parts = {0: rows}  # by its first column what has every 1st, then every 2nd, 4th ... element
    while len(rows) > 1:
        step, distance = _least_factor(len(rows)), len(parts)
        parts = {
            first + distance * k: _every(w, ty, part, lanes, step, k)
            for first, part in parts.items()
            for k in range(step)
        }
        rows = parts[0]
    return [parts[column][0] for column in range(length)]


def _every(
    w: FunctionWriter, ty: str, registers: list[str], lanes: int, step: int, first: int
) -> list[str]:
    """Every so many-th element of a stretch in registers, from the first on."""
    groups = (registers[at : at + step] for at in range(0, len(registers), step))
    return [_picked(w, ty, group, lanes, first) for group in groups]


def _picked(w: FunctionWriter, ty: str, registers: list[str], lanes: int, first: int) -> str:
    """Of what n registers hold one after the other, every n-th element."""
    step = len(registers)
    places = [divmod(first + step * lane, lanes) for lane in range(lanes)]
    result = registers[0]
    for number in range(1, step):
        # What is there already stays in its lanes.
        picks = [
            lanes + place
            if register == number
            else -1
            if register > number
            else place
            if number == 1
            else lane
            for lane, (register, place) in enumerate(places)
        ]
        result = w.shuffle(ty, result, registers[number], picks)
    return result
