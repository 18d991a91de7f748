"""Rows by teams of threads: each thread of a team takes some elements of every walk over a row.

    for i in range(64):             for block in grid(8):
        acc = 0                         for t in threads(256):
        for j in range(512):    ->          acc = 0
            acc = acc + p[512*i + j]        for u in unrolled(16):
        out[i] = acc                            acc = acc + p[4096*block + ... + 32*u + t % 32]
                                            acc = acc + shuffle_down(acc, 16, 32)
                                            ...
                                            if t % 32 < 1:
                                                out[8*block + (t // 32)] = acc

What threads have reduced is put together by shuffles within a warp, and through shared memory
between warps, always in the same order. Values that one walk keeps for a later one stay with the
thread: the same thread has the same elements in every walk.

Where the order of elements matters, each thread takes neighbouring ones, and threads are put
together with their neighbours. Where no neutral value is known, a thread starts from its first
element, and those that have none are left out.

A team of neighbouring threads (`stride` 1) suits rows whose elements are neighbours in memory. If
the rows are, teams have members `stride` threads apart, so that neighbouring threads work on
neighbouring rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import prod

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import ZERO, Index, Var, constant, delinearize
from xla_backend.kernels.ir import (
    ACCESSES,
    Barrier,
    Buffer,
    BufferRole,
    Carry,
    Combination,
    Combiner,
    Compute,
    Constant,
    If,
    InRange,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Shuffle,
    ShuffleMode,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.matrix_tiles import WARP
from xla_backend.kernels.schedule.copying import Copy, combined, live
from xla_backend.kernels.schedule.dependence import mentions, read, written
from xla_backend.kernels.schedule.row_nests import RowNest, Walk, row_nest_of, walked_at
from xla_backend.kernels.schedule.splitting import ScheduleError, replace
from xla_backend.process.light_dataclasses import dataclass

# Statements of a loop over parts that are worth code of their own.
_MOST_UNROLLED = 256
# Depths of the new loops, which order the terms of indices.
_BLOCK, _THREAD, _STEP, _UNROLLED, _LANE = range(1, 6)


@dataclass(frozen=True, slots=True)
class Team:
    """How threads share out rows. All but `minor` are powers of two.

    Attributes:
      block: threads of a block.
      across: threads that work on one row.
      stride: how far apart these are.
      minor: rows in a group of which a block takes neighbours: all of them, or those of the
        innermost loop over rows.
      lanes: neighbouring elements of a row that a thread takes at once.
      unrolled: steps of a walk that have code of their own, if not all have.
      in_registers: all steps have; what is kept, or read by several walks, stays in registers.
    """

    block: int
    across: int
    stride: int
    minor: int
    lanes: int = 1
    unrolled: int = 4
    in_registers: bool = False

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.block // self.across


def run_in_teams(kernel: Kernel, stage: Loop, team: Team, *, parts: bool = False) -> Loop:
    """Let blocks of threads run a nest that works row by row; returns the grid loop. `parts`: what
    reductions start from is neutral, and may be left out.

    Raises:
      ScheduleError: it is of another form, or what it does needs an order that teams do not keep.
    """
    nest = row_nest_of(stage)
    if nest is None:
        raise ScheduleError(f"loop {stage.var.name!r} does not work row by row")
    if team.across > 1 and not nest.may_be_shared:
        raise ScheduleError(f"rows of loop {stage.var.name!r} are reduced in one order only")
    for found in nest.walks:
        if found.count % team.lanes:
            raise ScheduleError(f"{found.count} elements are no whole vectors of {team.lanes}")
    grid = _Teams(kernel, nest, team, parts).grid()
    replace(kernel, stage, [grid])
    used = {s.buffer for s in walk(kernel.stages) if isinstance(s, ACCESSES)}
    kernel.buffers = [b for b in kernel.buffers if b.role is not BufferRole.LOCAL or b in used]
    return grid


@dataclass(frozen=True, slots=True)
class _Condition:
    """low <= place < high."""

    place: Index
    low: int
    high: int


_Body = Callable[[list[Value], list[Statement]], list[Value]]
_Places = Mapping[Statement, tuple[Buffer, Index]]


class _TeamCopy(Copy):
    """Statements for one round of a thread. Accesses are made where all `conditions` hold; `guard`
    is a value that says so."""

    def __init__(
        self,
        vars: Mapping[Var, Index],
        conditions: Sequence[_Condition] = (),
        guard: Value | None = None,
    ) -> None:
        super().__init__(vars)
        self.conditions = list(conditions)
        self.guard = guard
        self.exchanged: Mapping[Buffer, tuple[Buffer, Index]] = {}  # memory of a row, and its start
        self.private: _Places = {}  # accesses to memory of the thread instead, and where
        self.kept: _Places = {}  # loads whose results go there

    def inside(
        self, vars: Mapping[Var, Index], conditions: Sequence[_Condition], guard: Value | None
    ) -> _TeamCopy:
        """A copy that knows what this one has computed."""
        new = _TeamCopy({**self.vars, **vars}, [*self.conditions, *conditions], guard)
        new.values, new.known = dict(self.values), dict(self.known)
        new.exchanged = self.exchanged
        return new

    def _statement(self, s: Statement, out: list[Statement]) -> None:
        if s in self.private:
            out.append(self._in_private(s, *self.private[s]))
        elif isinstance(s, Store):
            stored: list[Statement] = []
            super()._statement(s, stored)
            for store in stored:
                self._redirect(store)
            out += only_if(self.conditions, stored)
        else:
            super()._statement(s, out)
            if isinstance(s, Load) and isinstance(out[-1], Load):
                load = out.pop()
                assert isinstance(load, Load)
                load.guard = both(load.guard, self.guard, out)
                self._redirect(load)
                out.append(load)
                if s in self.kept:
                    out.append(Store(*self.kept[s], (load.result,)))

    def _redirect(self, access: Statement) -> None:
        assert isinstance(access, ACCESSES)
        if access.buffer in self.exchanged:
            access.buffer, start = self.exchanged[access.buffer]
            access.index = start + access.index

    def _in_private(self, s: Statement, memory: Buffer, place: Index) -> Statement:
        """Threads have memory for as many elements each, of which a row may have fewer."""
        if isinstance(s, Load):
            return Load(self._new(s.result), memory, place)
        assert isinstance(s, Store)
        return Store(memory, place, tuple(self.value(v) for v in s.values))


def words(type: PrimitiveType) -> int:
    """Registers of 32 bits for an element."""
    return max(1, type.byte_size // 4)


def register_words(threads: int) -> int:
    """Registers of a thread for elements that it keeps, of as many as blocks of `threads` have."""
    return min(64, (1 << 15) // threads)


def only_if(conditions: Sequence[_Condition], body: list[Statement]) -> list[Statement]:
    """The body where all conditions hold."""
    for c in reversed(conditions):
        body = [If(c.place, c.low, c.high, body)]
    return body


def both(one: Value | None, other: Value | None, out: list[Statement]) -> Value | None:
    """A condition that holds where two do; None holds everywhere."""
    if one is None or other is None:
        return one or other
    result = _fresh(PrimitiveType.PRED)
    out.append(Compute(result, Opcode.AND, (one, other)))
    return result


def _fresh(type: PrimitiveType) -> Value:
    return Value(type, _LANE, 0)


def _index(var: Var) -> Index:
    return Index.of(var) if var.extent > 1 else ZERO


class _Teams:
    """What one nest becomes."""

    def __init__(self, kernel: Kernel, nest: RowNest, team: Team, parts: bool) -> None:
        self.kernel, self.nest, self.team, self.parts = kernel, nest, team, parts
        self.in_order = nest.in_order
        tiles = -(-team.minor // team.rows)
        self.block = Var("block", nest.rows // team.minor * tiles, _BLOCK)
        self.thread = Var("t", team.block, _THREAD)
        self.lane = Var("lane", team.lanes, _LANE)
        block, t = _index(self.block), _index(self.thread)
        self.rank = (t // team.stride) % team.across
        self.own = (t // (team.stride * team.across)) * team.stride + t % team.stride
        self.within = (block % tiles) * team.rows + self.own
        self.group = block // tiles
        # Loads of a walk that find in memory of the thread what an earlier one has put there.
        self.private: dict[Load | Store, Buffer] = {}
        self.kept: dict[Load | Store, Buffer] = {}
        self.register_words = 0
        # Local memory that is shared memory now, and what the block has done since a barrier.
        self.exchanged: dict[Buffer, tuple[Buffer, Index]] = {}
        self.since: list[Walk | Statement] = []

    def grid(self) -> Loop:
        team, nest = self.team, self.nest
        self._plan_memory()
        body: list[Statement] = []
        conditions: list[_Condition] = []
        if team.minor % team.rows:
            conditions.append(_Condition(self.within, 0, team.minor))
        guard = self._holds(conditions, body)
        base = _TeamCopy(self._rows(), conditions, guard)
        base.exchanged = self.exchanged
        walks = nest.walks
        for step in nest.for_walks():
            if not isinstance(step, Walk):
                body += base.block([step])
                self.since.append(step)
                continue
            if any(must_wait(step, before, self.exchanged) for before in self.since):
                self._wait(body)
            self.since.append(step)
            self._walk(step, base, body, for_all=step is not walks[-1])
        body += self._for_rows(base, conditions)
        thread = Loop(self.thread, body, independent=True, kind=LoopKind.THREAD)
        return Loop(self.block, [thread], independent=True, kind=LoopKind.GRID)

    def _for_rows(self, base: _TeamCopy, conditions: list[_Condition]) -> list[Statement]:
        """What is done with the results of a row, by one thread of its team."""
        out: list[Statement] = []
        rest = self.nest.for_rows()
        if self.team.across > 1 and any(may_overwrite(rest, before) for before in self.since):
            self._wait(out)
        alone = _TeamCopy(base.vars)
        alone.values, alone.known = base.values, base.known
        leader = [_Condition(self.rank, 0, 1)] if self.team.across > 1 else []
        return [*out, *only_if([*leader, *conditions], alone.block(rest))] if rest else out

    def _wait(self, out: list[Statement]) -> None:
        out.append(Barrier())
        self.since.clear()

    def _rows(self) -> dict[Var, Index]:
        """The variables of the loops over rows."""
        extents, minor = self.nest.extents, self.team.minor
        inner = len(extents)
        while prod(extents[inner:]) < minor:
            inner -= 1
        if prod(extents[inner:]) != minor:
            raise ScheduleError(f"{minor} rows are not those of the innermost of {extents}")
        places = (
            *delinearize(self.group, extents[:inner]),
            *delinearize(self.within, extents[inner:]),
        )
        return {loop.var: place for loop, place in zip(self.nest.kept, places)}

    def _holds(self, conditions: Sequence[_Condition], out: list[Statement]) -> Value | None:
        total: Value | None = None
        for c in conditions:
            value = _fresh(PrimitiveType.PRED)
            out.append(InRange(value, c.place, c.low, c.high))
            total = both(total, value, out)
        return total

    # -- walks -------------------------------------------------------------------------------------

    def _walk(self, found: Walk, base: _TeamCopy, out: list[Statement], for_all: bool) -> None:
        """The elements of this thread, and then what all of the team have reduced; `for_all`: each
        of them needs it."""
        team = self.team
        inits = [base.value(v) for v in found.inits]
        apart = found.reduces and team.across * team.lanes > 1
        starts: list[Value] | None = inits
        if apart:
            starts = None if found.from_first else self._starts(found, inits, out)
        body: list[Statement] = []
        values = self._rounds(found, base, starts, body)
        if team.lanes > 1 and not self._combines_steps(found):
            values = self._in_lanes(found, values, body, out)
        else:
            out += body
        if apart:
            combiner = found.combiner
            assert combiner is not None
            values = self._together(found, base, combiner, values, out, for_all)
            neutral = any(c.identity is not None for c in found.loops[0].carries)
            if not self.parts if found.from_first else neutral:
                values = combined(combiner, inits, values, out)
        base.values.update(zip(found.results, values))

    def _combines_steps(self, found: Walk) -> bool:
        """Whether each vector of elements is reduced by itself, as they are neighbours."""
        return self.in_order and found.reduces

    def _in_lanes(
        self, found: Walk, values: list[Value], body: list[Statement], out: list[Statement]
    ) -> list[Value]:
        """A body in lanes, and the values of all of them together."""
        lanes = Loop(self.lane, body, independent=True, kind=LoopKind.LANES)
        out.append(lanes)
        if not found.reduces:
            return values
        results = [_fresh(v.type) for v in values]
        assert found.combiner is not None
        lanes.combination = Combination(values, [], results, found.combiner)
        return results

    def _starts(self, found: Walk, inits: list[Value], out: list[Statement]) -> list[Value]:
        """What partial results start from: neutral values, or where there is none `init`, which may
        be used many times."""
        starts = []
        for carry, init in zip(found.loops[0].carries, inits):
            if carry.identity is not None:
                init = _fresh(init.type)
                out.append(Constant(init, carry.identity))
            starts.append(init)
        return starts

    def _rounds(
        self, found: Walk, base: _TeamCopy, values: list[Value] | None, out: list[Statement]
    ) -> list[Value]:
        """All rounds of this thread: whole steps of the team, some of them in a serial loop, and
        what is left over for some of its threads. Without `values`, what the first element is, if
        there is one, is what the others are combined with."""
        team = self.team
        full, left = self._steps(found)
        begun = 0
        if values is None:
            values = self._round(found, base, ZERO, [], None, out)
            begun = 1
            if not full:
                return values
        serial, rest = divmod(full - begun, team.unrolled)
        if team.in_registers or serial < 2:
            serial, rest = 0, full - begun

        if serial:
            var = Var("step", serial, _STEP)
            first = Index.of(var) * team.unrolled + begun

            def some(values: list[Value], out: list[Statement]) -> list[Value]:
                return self._unrolled(found, base, team.unrolled, first, values, out)

            values = self._repeated(LoopKind.SERIAL, var, values, some, out)
        if rest:
            values = self._unrolled(found, base, rest, constant(full - rest), values, out)
        if left:
            some_threads = [_Condition(self.rank, 0, left)]
            values = self._round(found, base, constant(full), some_threads, values, out)
        return values

    def _steps(self, found: Walk) -> tuple[int, int]:
        """Steps that all threads of a team make, and the threads that make one more. In order, each
        thread has all of its elements together, and the last ones have fewer or none."""
        vectors, across = found.count // self.team.lanes, self.team.across
        return (-(-vectors // across), 0) if self.in_order else divmod(vectors, across)

    def _vector(self, found: Walk, step: Index, rank: Index) -> Index:
        """The vector of elements that a thread of a team takes in a step."""
        if self.in_order:
            return rank * self._steps(found)[0] + step
        return step * self.team.across + rank

    def _within(
        self, found: Walk, base: _TeamCopy, vector: Index, *, whole: bool
    ) -> list[_Condition]:
        """What must hold so that the row has a vector that a thread would take. `whole`: it is in
        a row that has all of its elements."""
        lanes, conditions = self.team.lanes, []
        if not whole and vector.bounds[1] * lanes >= found.count:
            conditions.append(_Condition(vector, 0, found.count // lanes))
        for limit in found.loops[0].limits:
            over = vector * lanes - base.index(limit)
            if any(c % lanes for c in (*over.terms.values(), over.constant)):
                raise ScheduleError(f"{limit} elements are no whole vectors of {lanes}")
            conditions.append(_Condition(over, min(0, over.bounds[0]), 0))
        return conditions

    def _unrolled(
        self,
        found: Walk,
        base: _TeamCopy,
        count: int,
        first: Index,
        values: list[Value],
        out: list[Statement],
    ) -> list[Value]:
        """Rounds with code of their own, from step number `first` on."""
        var = Var("u", count, _UNROLLED)

        def one(values: list[Value], out: list[Statement]) -> list[Value]:
            return self._round(found, base, first + _index(var), [], values, out)

        return self._repeated(LoopKind.UNROLLED, var, values, one, out)

    def _repeated(
        self, kind: LoopKind, var: Var, values: list[Value], body: _Body, out: list[Statement]
    ) -> list[Value]:
        if var.extent == 1:
            return body(values, out)
        carries = [Carry(_fresh(v.type), v, _fresh(v.type)) for v in values]
        loop = Loop(var, [], carries, independent=not carries, kind=kind)
        nexts = body([c.phi for c in carries], loop.body)
        for carry, value in zip(carries, nexts):
            carry.next = value
        out.append(loop)
        return [c.result for c in carries]

    def _round(
        self,
        found: Walk,
        base: _TeamCopy,
        step: Index,
        conditions: list[_Condition],
        values: list[Value] | None,
        out: list[Statement],
    ) -> list[Value]:
        """One round of a thread, whose place in memory of its own is `step`. Without `values`, its
        elements are the result, if the row has any for this thread."""
        vector = self._vector(found, step, self.rank)
        element = vector * self.team.lanes + _index(self.lane)
        whole = values is not None and not self.in_order
        conditions = [*conditions, *self._within(found, base, vector, whole=whole)]
        here = self._holds(conditions, out)
        guard = both(base.guard, here, out)
        copy = base.inside(found.at(element), conditions, guard)
        copy.private = self._places(self.private, step)
        copy.kept = self._places(self.kept, step)
        if values is None or self._combines_steps(found):
            elements = self._elements(found, base, copy, out)
            if values is None:
                return elements
            assert found.combiner is not None
            return _combined_if(here, found.combiner, values, elements, out)
        copy.values.update((c.phi, v) for c, v in zip(found.inner_carries, values))
        out += copy.block(found.body)
        nexts = [copy.value(c.next) for c in found.inner_carries if c.next is not None]
        return nexts if here is None else [_select(here, *two, out) for two in zip(nexts, values)]

    def _elements(
        self, found: Walk, base: _TeamCopy, copy: _TeamCopy, out: list[Statement]
    ) -> list[Value]:
        """The elements of one round, those of a vector put together."""
        # What the body makes of what is carried is left out.
        inits = map(base.value, found.inits)
        copy.values.update(zip([c.phi for c in found.inner_carries], inits))
        body = copy.block(found.body)
        elements = [copy.value(v) for v in found.loops[-1].elements]
        body = live(body, elements)
        if self.team.lanes > 1 and self._combines_steps(found):
            return self._in_lanes(found, elements, body, out)
        out += body
        return elements

    # -- what threads have put together ------------------------------------------------------------

    def _together(
        self,
        found: Walk,
        base: _TeamCopy,
        combiner: Combiner,
        values: list[Value],
        out: list[Statement],
        for_all: bool,
    ) -> list[Value]:
        """Partial results of the threads of a team, lower halves with upper ones within a warp, or
        neighbours with neighbours, and then warp by warp."""
        team = self.team
        near = max(1, min(team.across, WARP // team.stride))
        if for_all and team.stride > 1:
            near = 1  # a shuffle hands a result on to neighbours only
        distances = [1 << n for n in range(near.bit_length() - 1)]
        for distance in distances if self.in_order else reversed(distances):
            number, width = distance * team.stride, near * team.stride
            others = [_fresh(v.type) for v in values]
            for value, other in zip(values, others):
                out.append(Shuffle(other, value, ShuffleMode.DOWN, number, width))
            there = self._has_elements(found, base, self.rank + distance, out)
            values = _combined_if(there, combiner, values, others, out)
        parts = team.across // near
        if parts > 1:
            return self._through_memory(found, base, combiner, values, near, parts, out)
        if for_all:
            everywhere = [_fresh(v.type) for v in values]
            for value, other in zip(values, everywhere):
                out.append(Shuffle(other, value, ShuffleMode.FROM, 0, near))
            return everywhere
        return values

    def _has_elements(
        self, found: Walk, base: _TeamCopy, rank: Index, out: list[Statement]
    ) -> Value | None:
        """Whether the thread of a rank has reduced anything; None: all have, or what those start
        from that have not changes nothing."""
        if not found.from_first:
            return None
        last = self._vector(found, ZERO, constant(self.team.across - 1))
        if not self._within(found, base, last, whole=False):
            return None
        first = self._vector(found, ZERO, rank)
        return self._holds(self._within(found, base, first, whole=False), out)

    def _through_memory(
        self,
        found: Walk,
        base: _TeamCopy,
        combiner: Combiner,
        values: list[Value],
        near: int,
        parts: int,
        out: list[Statement],
    ) -> list[Value]:
        rows = self.team.rows
        memory = [self._buffer("parts", v.type, parts * rows, BufferRole.SHARED) for v in values]
        slot = (self.rank // near) * rows + self.own
        stores: list[Statement] = [Store(m, slot, (v,)) for m, v in zip(memory, values)]
        first = [_Condition(self.rank % near, 0, 1)] if near > 1 else []
        out += only_if(first, stores)
        self._wait(out)

        def load(part: Index, out: list[Statement]) -> list[Value]:
            loaded = [_fresh(v.type) for v in values]
            out += [Load(v, m, part * rows + self.own) for v, m in zip(loaded, memory)]
            return loaded

        def add(values: list[Value], out: list[Statement]) -> list[Value]:
            part = _index(var) + 1
            there = self._has_elements(found, base, part * near, out)
            return _combined_if(there, combiner, values, load(part, out), out)

        var = Var("part", parts - 1, _UNROLLED)
        light = (parts - 1) * len(combiner.body) <= _MOST_UNROLLED
        kind = LoopKind.UNROLLED if light else LoopKind.SERIAL
        return self._repeated(kind, var, load(ZERO, out), add, out)

    # -- memory of a thread ------------------------------------------------------------------------

    def _buffer(self, name: str, type: PrimitiveType, size: int, role: BufferRole) -> Buffer:
        number = sum(1 for b in self.kernel.buffers if b.name.startswith(name))
        buffer = Buffer(f"{name}{number}", type, size, role, number)
        self.kernel.buffers.append(buffer)
        return buffer

    def _places(self, memory: Mapping[Load | Store, Buffer], step: Index) -> _Places:
        place = step * self.team.lanes + _index(self.lane)
        return {s: (buffer, place) for s, buffer in memory.items()}

    def _plan_memory(self) -> None:
        """Where values live that walks keep for each other, or read more than once."""
        position = walked_at(self.nest.walks)
        role = BufferRole.REGISTERS if self.team.in_registers else BufferRole.LOCAL
        exchanged = self.nest.exchanged()
        for buffer in exchanged:
            size = self.team.rows * buffer.size
            memory = self._buffer("row", buffer.element_type, size, BufferRole.SHARED)
            self.exchanged[buffer] = memory, self.own * buffer.size
        for buffer, accesses in self.nest.keeps().items():
            if buffer in exchanged:
                continue
            memory = self._memory_for(buffer, position.extent, role)
            self.private.update((s, memory) for _, s in accesses)
        if not self.team.in_registers:
            return
        reads: dict[tuple[Buffer, Index], dict[Walk, Load]] = {}
        for found in self.nest.walks:
            for s in found.accesses():
                if isinstance(s, Load) and self._may_be_kept(s, found, position):
                    place = found.place_of(s, position)
                    reads.setdefault((s.buffer, place), {}).setdefault(found, s)
        for (buffer, _), loads in reads.items():
            self._keep(buffer, list(loads.values()), position.extent)

    def _may_be_kept(self, s: Load, found: Walk, position: Var) -> bool:
        unchanged = s.buffer.role in (BufferRole.OPERAND, BufferRole.CONSTANT)
        if s.guard is not None or not unchanged or found.count != position.extent:
            return False
        return s in found.body and mentions(found.place_of(s, position), {position})

    def _own(self, count: int) -> int:
        """Elements of a row that a thread has memory for."""
        team = self.team
        return -(-count // (team.lanes * team.across)) * team.lanes

    def _memory_for(self, array: Buffer, count: int, role: BufferRole) -> Buffer:
        own = self._own(count)
        if role is BufferRole.REGISTERS:
            self.register_words += own * words(array.element_type)
        return self._buffer("kept", array.element_type, own, role)

    def _keep(self, buffer: Buffer, loads: list[Load], count: int) -> None:
        """Keep what the first of several loads reads for the others, if registers suffice."""
        more = self._own(count) * words(buffer.element_type)
        if len(loads) < 2 or self.register_words + more > register_words(self.team.block):
            return
        memory = self._memory_for(buffer, count, BufferRole.REGISTERS)
        self.kept[loads[0]] = memory
        self.private.update((load, memory) for load in loads[1:])


def must_wait(found: Walk, before: Walk | Statement, exchanged: Container[Buffer]) -> bool:
    """Whether threads may begin a walk only when all are through with what is before it: it reads
    what others have put into memory of the row, or writes what they still read there. Its results
    may have the memory of operands, of which a thread knows that it reads its own elements only."""
    if not isinstance(before, Walk):
        return False  # values of a row are no elements
    stored, earlier = written(found.body), written(before.body)
    if any(b in exchanged for b in earlier & (read(found.body) | stored)):
        return True
    if any(b in exchanged for b in read(before.body) & stored):
        return True
    position = walked_at([found])
    places = {
        found.place_of(s, position)
        for s in found.accesses()
        if isinstance(s, Store) and s.buffer.role is BufferRole.OUTPUT
    }
    if not places:
        return False
    for s in before.accesses():
        if isinstance(s, Load) and s.buffer.role is BufferRole.OPERAND:
            at = before.place_of(s, position)
            if before.count != found.count or (mentions(at, {position}) and at not in places):
                return True
    return False


def may_overwrite(rest: Sequence[Statement], before: Walk | Statement) -> bool:
    """Whether results of a row, which one thread writes, may have the memory of what all threads of
    the team read."""
    stored = {s.index for s in walk([*rest]) if isinstance(s, Store)}
    statements = before.body if isinstance(before, Walk) else [before]
    loads = (s for s in walk([*statements]) if isinstance(s, Load))
    return any(s.buffer.role is BufferRole.OPERAND and s.index in stored for s in loads)


def _combined_if(
    condition: Value | None,
    combiner: Combiner,
    values: list[Value],
    others: list[Value],
    out: list[Statement],
) -> list[Value]:
    """Values with others combined into them, where a condition holds."""
    results = combined(combiner, values, others, out)
    if condition is None:
        return results
    return [_select(condition, *two, out) for two in zip(results, values)]


def _select(condition: Value, new: Value, old: Value, out: list[Statement]) -> Value:
    if new is old:
        return old
    result = _fresh(new.type)
    out.append(Compute(result, Opcode.SELECT, (condition, new, old)))
    return result
