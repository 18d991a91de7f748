"""Loops over the elements of rows that are shorter than a vector and lie one behind the other, with
a row in each lane: what all rounds read is one stretch of memory.

    for lane in lanes(16):
        for j in range(8):
            v = p[8*lane + j]

Or the elements of a row are loads of their own, as of `x[..., 0]` to `x[..., 7]`.

The stretch is loaded at once, and comes apart in registers: even elements from odd ones, and these
again, until each register has one column. That is a shuffle for each load and doubling, where every
lane would go to memory for itself.
"""

from __future__ import annotations

from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import Buffer, BufferRole, Load, Loop, Statement, Store, walk
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, memory_type, vector
from xla_backend.llvm.writer import FunctionWriter

# Where vectors of 32 bits have so many lanes there are 32 registers, elsewhere 16.
_LANES_OF_MANY_REGISTERS = 16
_SHORTEST, _LONGEST = 4, 16
_MOST_LOADS = 4


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
        known = all(isinstance(atom, Var) for atom in s.index.terms)
        if known and _SHORTEST <= length <= _LONGEST and not length & (length - 1):
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
    if length & (length - 1) or not _SHORTEST <= length <= _LONGEST:
        return 0
    others = [atom for atom in index.terms if atom is not lane]
    steps = [atom for atom in others if isinstance(atom, Var) and index.coefficient(atom) == 1]
    plain = len(steps) == 1 and all(isinstance(atom, Var) for atom in others)
    return length if plain and steps[0].extent == length else 0


def lanes_that_fit(loop: Loop, reads: list[Load], target: TargetInfo) -> int:
    """How many rows' elements the registers of the machine hold."""
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
    parts = [rows]  # every 1st, 2nd, 4th ... element
    while len(parts[0]) > 1:
        parts = [half for part in parts for half in _evens_and_odds(w, ty, part, lanes)]
    return [register for (register,) in _in_order(parts)]


def _evens_and_odds(
    w: FunctionWriter, ty: str, registers: list[str], lanes: int
) -> tuple[list[str], list[str]]:
    pairs = list(zip(registers[::2], registers[1::2]))
    evens, odds = (range(first, 2 * lanes, 2) for first in (0, 1))
    return (
        [w.shuffle(ty, a, b, evens) for a, b in pairs],
        [w.shuffle(ty, a, b, odds) for a, b in pairs],
    )


def _in_order(parts: list[list[str]]) -> list[list[str]]:
    """Element j of the rows is in the place whose number has the bits of j in reverse."""
    bits = len(parts).bit_length() - 1
    places = [int(f"{j:0{bits}b}"[::-1], 2) for j in range(len(parts))]
    return [parts[place] for place in places]
