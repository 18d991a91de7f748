"""Kernels over arrays that are registers: a load is a shuffle of lanes, a store puts lanes into the
register.

All loops are unrolled but the one in lanes, so that which element a lane has is known. One element
that is written at a place found at run time is put there by a comparison of numbers of lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.kernels.index import QUOTIENTS, FloorDiv, Index, Var
from xla_backend.kernels.ir import (
    ACCESSES,
    Buffer,
    BufferRole,
    Compute,
    Constant,
    If,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
    Value,
)
from xla_backend.llvm.types import const, element, lanes, register_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.program.ir import launched_buffers
from xla_backend.targets.cpu.emitter import KernelEmitter
from xla_backend.targets.cpu.guarded_tails import GuardedTail
from xla_backend.targets.cpu.held_registers import Register
from xla_backend.targets.cpu.short_row_reads import lanes_that_fit, row_reads

# Statements of a kernel with its loops unrolled.
_MOST_STATEMENTS = 256
# Elements whose numbers are compared with that of one which is written: in one register.
_MOST_COMPARED = 16
_UNROLLED = (LoopKind.SERIAL, LoopKind.UNROLLED)


# -- which buffers can be registers ----------------------------------------------------------------


class Buffers(NamedTuple):
    """Of the launched buffers of a kernel those that can be registers, and among these those that
    need a vector, for lanes or for a place that is known at run time only."""

    known: frozenset[Buffer] = frozenset()
    vectors: frozenset[Buffer] = frozenset()


def buffers_in_registers(kernel: Kernel) -> Buffers:
    """Those whose elements are known where they are read and written; none if the kernel has code
    that cannot be unrolled."""
    buffers = launched_buffers(kernel)
    if any(b.role is BufferRole.SCRATCH for b in buffers):
        return Buffers()
    if kernel.parameters or not 0 < _unrolled(kernel.stages) <= _MOST_STATEMENTS:
        return Buffers()
    elsewhere: set[Buffer] = set()
    vectors: set[Buffer] = set()
    if not _is_straight(kernel.stages, False, elsewhere, vectors):
        return Buffers()
    return Buffers(frozenset(buffers) - elsewhere, frozenset(vectors))


def _unrolled(statements: Sequence[Statement]) -> int:
    """How many statements there are with loops unrolled."""
    count = 0
    for s in statements:
        if isinstance(s, Loop):
            times = s.var.extent if s.kind in _UNROLLED else 1
            count += times * _unrolled(s.body)
        elif isinstance(s, If):
            count += _unrolled(s.body)
        else:
            count += 1
    return count


def _is_straight(
    statements: Sequence[Statement], in_lanes: bool, elsewhere: set[Buffer], vectors: set[Buffer]
) -> bool:
    """Whether what runs is known beforehand; adds the buffers that must be memory, and those that
    need vectors."""
    for s in statements:
        if isinstance(s, ACCESSES):
            if not _is_known(s, in_lanes):
                elsewhere.add(s.buffer)
            if in_lanes or not _is_static(s.index):
                vectors.add(s.buffer)
        elif isinstance(s, Loop):
            lanes_loop = s.kind is LoopKind.LANES
            if s.limits or not (lanes_loop or s.kind in _UNROLLED) or (lanes_loop and in_lanes):
                return False
            if not _is_straight(s.body, in_lanes or lanes_loop, elsewhere, vectors):
                return False
        elif isinstance(s, If):
            if not _is_static(s.index) or not _is_straight(s.body, in_lanes, elsewhere, vectors):
                return False
        elif not isinstance(s, Compute | Constant | IndexValue | InRange):
            return False
    return True


def _is_known(s: Load | Store, in_lanes: bool) -> bool:
    """Whether an access is at a known place, or writes one element of a few. (One that is read at a
    place known at run time only would go through memory each time.)"""
    if isinstance(s, Store) and s.guard is not None and in_lanes:
        return False
    if _is_static(s.index):
        return True
    return (
        isinstance(s, Store)
        and s.buffer.size <= _MOST_COMPARED
        and not in_lanes
        and all(isinstance(atom, Value) or _is_static(Index.of(atom)) for atom in s.index.terms)
    )


def _is_static(index: Index) -> bool:
    """Whether an index is known once loops are unrolled."""
    return all(
        isinstance(a, Var) or (isinstance(a, QUOTIENTS) and _is_static(a.index))
        for a in index.terms
    )


# -- emitting --------------------------------------------------------------------------------------


class HeldKernelEmitter(KernelEmitter):
    """Emits a kernel of which some buffers are registers."""

    def __init__(
        self, w: FunctionWriter, pointers: dict[Buffer, str], held: dict[Buffer, Register]
    ) -> None:
        super().__init__(w, pointers)
        self._held = held
        self._on: list[bool] | None = None  # lanes in use; None: all

    # -- control -----------------------------------------------------------------------------------

    def serial_loop(self, loop: Loop) -> None:
        reads = [] if self.vector_var is None else row_reads(loop, self.vector_var)
        reads = [s for s in reads if s.buffer not in self._held]
        if reads and self.mask is None and self.lanes <= lanes_that_fit(loop, reads, self.w.target):
            texts = self._by_columns(loop, reads)
        else:
            texts = self.texts([c.init for c in loop.carries])
            for i in range(loop.var.extent):
                self.vars[loop.var] = str(i)
                texts = self._round(loop.carries, texts, loop.body)
        self.bind_texts([c.result for c in loop.carries], texts)

    def guarded_tail(self, body: Sequence[Statement]) -> GuardedTail | None:
        """None: what is stored to registers is chosen by the guard, and read after it."""
        return None

    def in_memory(self, body: list[Statement]) -> list[Statement]:
        return [s for s in body if not isinstance(s, Load) or s.buffer not in self._held]

    def _if(self, s: If) -> None:
        inside = [s.low <= place < s.high for place in self._places(s.index)]
        if self.vector_var is not None and self.varies(s.index) and not all(inside):
            outer = self._on
            self._on = inside if outer is None else [a and b for a, b in zip(inside, outer)]
            self.if_in_lanes(s)
            self._on = outer
            return
        inits = self.texts([c.init for c in s.carries])
        texts = self.arm(s, inits) if inside[0] else inits
        self.bind_texts([c.result for c in s.carries], texts)

    def _places(self, index: Index) -> list[int]:
        """What is known of an index, for each lane."""
        return [self._place(index, lane) for lane in range(self.lanes)]

    def _place(self, index: Index, lane: int) -> int:
        total = index.constant
        for atom, c in index.terms.items():
            if atom is self.vector_var:
                total += c * lane
            elif isinstance(atom, Var):
                total += c * int(self.vars[atom])
            elif isinstance(atom, QUOTIENTS):
                inner = self._place(atom.index, lane)
                quotient = isinstance(atom, FloorDiv)
                total += c * (inner // atom.divisor if quotient else inner % atom.divisor)
        return total

    # -- accesses ----------------------------------------------------------------------------------

    def load(self, s: Load) -> None:
        register = self._held.get(s.buffer)
        if register is None:
            super().load(s)
            return
        w, n, guard = self.w, 1, s.guard
        if self.varies(s.index) or (guard is not None and self.is_vector(guard)):
            n = self.lanes
        # Lanes that are not in use get any element, or what lies behind the last one.
        last = lanes(register.type) - 1
        text = self._picked(register, [min(max(p, 0), last) for p in self._places(s.index)[:n]])
        if guard is not None:
            ty = vector(register_type(s.result.type), n)
            text = w.select(self.get(guard, n), ty, text, const(ty, 0))
        self.bind(s.result, text, n)

    def _picked(self, register: Register, places: list[int]) -> str:
        w, ty = self.w, register.type
        if len(places) == 1:
            return register.element(w, places[0])
        if len(set(places)) == 1:
            return w.splat(vector(element(ty), len(places)), register.element(w, places[0]))
        held = register.vector(w)
        if places == list(range(lanes(ty))):
            return held
        return w.shuffle(ty, held, "poison", places)

    def store(self, s: Store) -> None:
        register = self._held.get(s.buffer)
        if register is None:
            super().store(s)
            return
        w, guard = self.w, s.guard
        if guard is not None:
            before = register.vector(w)
        apart = self.varies(s.index) or any(map(self.is_vector, s.values))
        n = self.lanes if apart else 1
        for i, value in enumerate(s.values):
            text = self.get(value, n)
            if _is_static(s.index):
                self._put(register, text, [p + i for p in self._places(s.index)[:n]])
            else:
                self._put_at(register, text, self.uniform(s.index + i))
        if guard is not None:
            holds, ty, after = self.get(guard), register.type, register.vector(w)
            either = f"select i1 {holds}, {ty} {after}, {ty} {before}"
            register.set_vector(w.pure(either, holds, after, before))

    def _put(self, register: Register, text: str, places: list[int]) -> None:
        """Put lanes where they belong."""
        w, ty, size = self.w, register.type, lanes(register.type)
        on = self._on if len(places) > 1 else None
        source = {p: lane for lane, p in enumerate(places) if on is None or on[lane]}
        if len(places) == 1:
            register.set_element(places[0], text)
            return
        own = vector(element(ty), len(places))
        if size == 1:
            if source:
                register.set_vector(w.extract(own, text, source[0]))
            return
        # Lanes behind the last element have any number, but one: what is computed of none at all
        # may be anything, a division by zero, too.
        picks = [source.get(p, p if p < len(places) else 0) for p in range(size)]
        if picks != list(range(len(places))):
            text = w.shuffle(own, text, "poison", picks)
        if any(p not in source for p in range(register.size)):
            picks = [size + p if p in source else p for p in range(size)]
            text = w.shuffle(ty, register.vector(w), text, picks)
        register.set_vector(text)

    def _put_at(self, register: Register, text: str, place: str) -> None:
        """Put one element to a place that is known at run time."""
        w, ty, size = self.w, register.type, lanes(register.type)
        if size == 1:
            register.set_vector(text)
            return
        numbers = vector("i32", size)
        narrow = w.cast("trunc", w.index, place, "i32") if place[0] == "%" else place
        here = w.cmp("eq", numbers, w.splat(numbers, narrow), w.iota(numbers))
        register.set_vector(w.select(here, ty, w.splat(ty, text), register.vector(w)))
