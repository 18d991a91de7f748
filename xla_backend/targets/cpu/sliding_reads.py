"""Neighbours in memory that a loop of vectors reads, as stencils do: what a round reads last, the
next one begins with.

    for j in range(7):
        for lane in lanes(32):
            v0 = p[32*j + lane]
            v1 = p[32*j + lane + 1]
            v2 = p[32*j + lane + 2]

Only what reads farthest ahead goes to memory, and its vector is carried to the next round; the
others are lanes of the two. A load of 64 bytes that does not begin at a multiple of them is in two
lines of the cache and takes as long as two loads, and of neighbours only one may begin there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import QUOTIENTS, Atom, FloorDiv, Index, Var
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Compute,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
)
from xla_backend.kernels.schedule.dependence import mentions, results_of, written
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, memory_type, register_type
from xla_backend.llvm.writer import FunctionWriter

# Registers as long as a line: shorter ones are seldom in two.
_LINE_BITS = 512
# In fewer rounds what the first one begins with takes as long as is gained.
_FEWEST_ROUNDS = 3
# Of arrays that take half of the first cache or more: from there two lines are hardly slower.
_FEWEST_BYTES = 1 << 14
# Of more, vectors of this round and the one before do not stay in registers.
_MOST_WINDOWS = 4
# Cycles of an access in two lines, and instructions of an extreme of floats: it is by sign and NaN.
_ACCESS_CYCLES = 2
_EXTREME_CYCLES = 4


class Window(NamedTuple):
    """Loads of neighbours.

    Fields:
      behind: for each load how many elements it is behind `last`.
      first, last: the loads that are farthest behind and farthest ahead.
    """

    behind: dict[Load, int]
    first: Load
    last: Load

    def start(self, w: FunctionWriter, ty: str, pointer: str, lanes: int) -> str:
        """What a round begins with that has none before it; `pointer`: where it reads farthest
        behind."""
        unused = lanes - self.behind[self.first]
        picks = [max(lane - unused, -1) for lane in range(lanes)]
        return w.shuffle(ty, w.load(ty, pointer), "poison", picks)

    def loaded(
        self, w: FunctionWriter, ty: str, before: str, ahead: str, lanes: int
    ) -> dict[Load, str]:
        """What the loads of a round get, of the vector of the round before and its own."""
        found = {0: ahead}
        for distance in self.behind.values():
            if distance not in found:
                picks = range(lanes - distance, 2 * lanes - distance)
                found[distance] = w.shuffle(ty, before, ahead, picks)
        return {s: found[distance] for s, distance in self.behind.items()}


def windows(loop: Loop, target: TargetInfo) -> list[Window]:
    """Those of a loop of whole vectors, of arrays that it does not write; none where memory is not
    what it waits for."""
    few = loop.var.extent < _FEWEST_ROUNDS or loop.limits
    if few or loop.carries or len(loop.body) != 1 or target.vector_bits != _LINE_BITS:
        return []
    (inner,) = loop.body
    if not isinstance(inner, Loop) or inner.kind is not LoopKind.LANES:
        return []
    changed = written(inner.body)
    computed = {value for s in inner.body for value in results_of(s)}
    rows: dict[tuple[Buffer, Index], list[Load]] = {}
    for s in inner.body:
        if not isinstance(s, Load) or s.buffer in changed or mentions(s.index, computed):
            continue
        if _slides(s, loop.var, inner.var):
            rows.setdefault((s.buffer, Index(s.index.terms)), []).append(s)
    found = [window for loads in rows.values() for window in _windows(loads)]
    worth = 0 < len(found) <= _MOST_WINDOWS and _waits_for_memory(inner.body, found)
    return found if worth else []


def _slides(s: Load, rounds: Var, lane: Var) -> bool:
    """Whether a load reads whole registers side by side, and a round what is behind the round
    before, or jumps."""
    type = s.buffer.element_type
    stored, terms = memory_type(type), s.index.terms
    return (
        s.guard is None
        and s.buffer.role is not BufferRole.REGISTERS
        and stored == register_type(type)
        and s.buffer.size * type.byte_size >= _FEWEST_BYTES
        and lane.extent * bits_of(stored) >= _LINE_BITS
        and terms.get(lane) == 1
        and terms.get(rounds) == lane.extent
        and not any(isinstance(a, QUOTIENTS) and mentions(a.index, (lane,)) for a in terms)
        and all(_never_falls(atom, rounds) for atom in _jumps(s.index, rounds))
    )


def jump(sliding: Sequence[Window], rounds: Var) -> Index | None:
    """What is 0 in rounds that go on behind the one before; None: all do. (The last one may begin
    earlier, so that it is whole, too.)"""
    jumps = {atom for window in sliding for atom in _jumps(window.last.index, rounds)}
    return Index(dict.fromkeys(jumps, 1)) if jumps else None


def _jumps(index: Index, rounds: Var) -> list[Atom]:
    """What else depends on the round."""
    return [a for a in index.terms if isinstance(a, QUOTIENTS) and mentions(a.index, (rounds,))]


def _never_falls(atom: Atom, rounds: Var) -> bool:
    """Whether it is 0, if at all, from the first round to some other."""
    return (
        isinstance(atom, FloorDiv)
        and atom.index.coefficient(rounds) > 0
        and all(a is rounds or not mentions(Index.of(a), (rounds,)) for a in atom.index.terms)
    )


def _windows(loads: list[Load]) -> list[Window]:
    """Loads of a row whose elements a register holds, put together."""
    found: list[list[Load]] = []
    register = _LINE_BITS // bits_of(memory_type(loads[0].buffer.element_type))
    for s in sorted(loads, key=lambda s: s.index.constant):
        if found and s.index.constant - found[-1][0].index.constant <= register:
            found[-1].append(s)
        else:
            found.append([s])
    return [
        Window({s: near[-1].index.constant - s.index.constant for s in near}, near[0], near[-1])
        for near in found
        if near[0].index.constant != near[-1].index.constant
    ]


def _waits_for_memory(body: Sequence[Statement], found: Sequence[Window]) -> bool:
    """Whether a body's accesses, were they all in two lines, take longer than its arithmetic and
    what is added to it."""
    accesses, work = 0.0, 0.0
    for s in body:
        if isinstance(s, Load | Store):
            accesses += _ACCESS_CYCLES * s.buffer.element_type.byte_size
        elif isinstance(s, Compute):
            work += _cycles(s.opcode, s.result.type) * bits_of(register_type(s.result.type)) / 8
    for window in found:
        moved = len(set(window.behind.values())) - 1
        work += moved * window.last.buffer.element_type.byte_size
    return work <= accesses


def _cycles(opcode: Opcode, type: PrimitiveType) -> int:
    extreme = opcode in (Opcode.MAXIMUM, Opcode.MINIMUM) and type.is_floating
    return _EXTREME_CYCLES if extreme else opcode.cycles
