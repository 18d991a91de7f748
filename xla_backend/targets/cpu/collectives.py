"""Collectives as native code: members of a group meet, and each takes its results from the memory
of the others.

The table that a member shows has the addresses of its operands, and behind them of its results. A
reduction combines the operands in the order of the group, so that every run gives the same bits.
Small arrays are combined by each member for itself. Of large ones each member combines some blocks,
into the first member's result, and then all copy that. Members in other processes have operands
here as well, and no results: each process combines for itself.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.ir import Kernel
from xla_backend.llvm.bytes import clear_bytes, copy_bytes
from xla_backend.llvm.types import memory_type
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.program.ir import Collective, Program, all_steps, launched_buffers
from xla_backend.runtime.processes.identity import Site
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, is_inline
from xla_backend.targets.cpu.meeting_places import NO_MEETINGS, Meetings
from xla_backend.targets.cpu.routines.meeting_layout import (
    OWN_TABLE,
    TABLES,
    place_bytes,
    places_start,
    state_bytes,
)

_MOST_PARTICIPANTS = 4000
_MOST = 2**63 - 1


class Here(NamedTuple):
    """Where a collective is written.

    Fields:
      w: the function.
      session, participant: values: the address of the run's session, and who runs this.
      operands, results: addresses.
      check_status: leaves the function if a status, an i32, is not 0.
    """

    w: FunctionWriter
    session: str
    participant: str
    operands: list[str]
    results: list[str]
    check_status: Callable[[str], None]


@dataclass
class _Place:
    """A meeting: its number, and the offsets of its groups' places in a session; and of what its
    members keep, if they come early or leave late."""

    number: int
    offsets: tuple[int, ...]
    states: int = -1


class Collectives:
    """Writes the collectives of a program, and lays out the session of its runs."""

    def __init__(self, program: Program, kernels: KernelFunctions) -> None:
        self._program = program
        self._kernels = kernels
        self._participants = program.topology.size
        self._places: dict[Hashable, _Place] = {}
        every = (program.steps, *program.procedures.values())
        self._users = Counter(
            _key(step.exchange, step.name)
            for steps in every
            for step in all_steps(steps)
            if isinstance(step, Collective)
        )
        self._sites: list[Site] = []
        self._offsets: list[tuple[int, ...]] = []
        self._size = places_start(self._participants)

    @property
    def meetings(self) -> Meetings:
        """Of all that was written."""
        if self._participants == 1:
            return NO_MEETINGS
        return Meetings(self._participants, tuple(self._sites), tuple(self._offsets), self._size)

    def emit(self, here: Here, step: Collective) -> None:
        """Write one."""
        self._check(step)
        _Writer(self, here, step).write()

    def emit_coming(self, here: Here, step: Collective) -> None:
        """Write that a participant comes to one that is written later."""
        self._check(step)
        _Writer(self, here, step).for_members(_Writer.come)

    def emit_meeting(self, here: Here, step: Collective) -> None:
        """Write one that participants have come to, without parting."""
        _Writer(self, here, step, late=True).write()

    def emit_parting(self, here: Here, step: Collective) -> None:
        """Write that a participant parts from the others of one that was written before."""
        _Writer(self, here, step).for_members(_Writer.part)

    def may_be_early(self, exchange: Exchange, name: str) -> bool:
        """Whether no other collective of the program meets at the places of this one."""
        return self._participants > 1 and self._users[_key(exchange, name)] == 1

    def _check(self, step: Collective) -> None:
        if self._participants > _MOST_PARTICIPANTS:
            raise UnimplementedError(
                f"%{step.name} ({step.exchange.opcode}) has {self._participants} participants; "
                f"programs for processors of this host may have {_MOST_PARTICIPANTS}"
            )

    def place_with_states(self, step: Collective) -> _Place:
        """The place of one whose members keep something, and where they do."""
        place = self.place(step)
        if place.states < 0:
            place.states = self._size
            each = state_bytes(len(step.operands) + len(step.results))
            self._size += self._participants * each
        return place

    def place(self, step: Collective) -> _Place:
        """Where the members of each group meet. Collectives of one channel have one place."""
        x = step.exchange
        key = _key(x, step.name)
        found = self._places.get(key)
        if found is None:
            offsets = []
            for group in x.groups:
                offsets.append(self._size)
                self._size += place_bytes(len(group))
            operands = tuple(operand.shape for operand in step.operands)
            name = f"%{step.name} ({x.opcode})"
            self._sites.append(Site(name, x, operands, len(step.results)))
            self._offsets.append(tuple(offsets))
            found = self._places[key] = _Place(len(self._sites), tuple(offsets))
        return found

    def combiner(self, name: str) -> Kernel:
        return self._program.kernels[name]

    @property
    def kernels(self) -> KernelFunctions:
        return self._kernels

    @property
    def participants(self) -> int:
        return self._participants


def _key(x: Exchange, name: str) -> Hashable:
    return x.opcode, x.groups, x.channel, name if x.channel is None else ""


@dataclass
class _Writer:
    """One collective in one place of the code; `late`: its participants come before, and part
    later."""

    around: Collectives
    here: Here
    step: Collective
    late: bool = False
    place: str = ""
    rank: str = ""  # of this participant in its group
    size: str = ""  # of that
    tables: str = ""

    @property
    def exchange(self) -> Exchange:
        return self.step.exchange

    @property
    def w(self) -> FunctionWriter:
        return self.here.w

    def write(self) -> None:
        if not any(self.exchange.groups):
            self._nobody()
            return
        self.for_members(_Writer.among_members, _Writer._nobody)

    def for_members(
        self, write: Callable[[_Writer], None], otherwise: Callable[[_Writer], None] | None = None
    ) -> None:
        """Code for who is in a group, and for others."""
        x, count, w = self.exchange, self.around.participants, self.w
        grouped = {number for group in x.groups for number in group}
        if not grouped:
            return
        rows = [(-1, 0, 0)] * count
        for group, offset in zip(x.groups, self.around.place(self.step).offsets):
            for rank, number in enumerate(group):
                rows[number] = (offset, rank, len(group))
        start, self.rank, self.size = self._row(rows)
        sizes = {len(group) for group in x.groups}
        if len(sizes) == 1:
            self.size = str(*sizes)

        def member() -> list[str]:
            self.place = w.gep("i8", self.here.session, start)
            self.tables = w.gep("i8", self.place, TABLES)
            write(self)
            return []

        def other() -> list[str]:
            if otherwise is not None:
                otherwise(self)
            return []

        if len(grouped) == count:
            member()
        else:
            w.if_else(w.cmp("sge", "i64", start, "0"), [], member, other)

    def _row(self, rows: Sequence[tuple[int, ...]]) -> list[str]:
        """This participant's row of a table of i64."""
        w, width = self.w, len(rows[0])
        data = b"".join(struct.pack(f"<{width}q", *row) for row in rows)
        row = w.gep("i64", w.module.constant_bytes(data), w.imul(self.here.participant, width))
        return [w.load_invariant("i64", w.gep("i64", row, i)) for i in range(width)]

    def _nobody(self) -> None:
        """Participants in no group get zeros; the verifier saw to it that they may."""
        for result, place in zip(self.here.results, self.step.results):
            self._fill(result, place.size)

    def among_members(self) -> None:
        here, number = self.here, ("i64", str(self.around.place(self.step).number))
        participant = ("i64", here.participant)
        if self.late:
            table, name = self._state(), "pyjax_meet_later"
        else:
            table, name = (
                self.w.alloca("ptr", len(here.operands) + len(here.results), 8),
                "pyjax_meet",
            )
            self._fill_table(table)
        arguments = [*self._member(), ("ptr", table), participant, number]
        here.check_status(self.w.call(name, "i32", arguments))
        _MEANINGS[self.exchange.opcode](self)
        if self.late:
            ready = [("ptr", self.place), ("i64", self.size), ("ptr", table)]
            self.w.call("pyjax_ready", "void", ready)
        else:
            self.meet_again()

    def come(self) -> None:
        """This member shows its table."""
        state = self._state()
        self._fill_table(self.w.gep("i8", state, OWN_TABLE))
        self.w.call("pyjax_come", "void", [*self._member(), ("ptr", state)])

    def part(self) -> None:
        """Nobody reads this member's operands any more."""
        where = [("ptr", self.here.session), ("ptr", self.place), ("ptr", self._state())]
        self.w.call("pyjax_part", "void", where)

    def _member(self) -> list[tuple[str, str]]:
        return [
            ("ptr", self.here.session), ("ptr", self.place), ("i64", self.rank), ("i64", self.size)
        ]  # fmt: skip

    def _state(self) -> str:
        """Where this participant keeps what it has to, until it has parted."""
        here, step = self.here, self.step
        each = state_bytes(len(step.operands) + len(step.results))
        start = self.around.place_with_states(step).states
        offset = self.w.iadd(self.w.imul(here.participant, each), start)
        return self.w.gep("i8", here.session, offset)

    def _fill_table(self, table: str) -> None:
        here, w = self.here, self.w
        for i, address in enumerate((*here.operands, *here.results)):
            w.store("ptr", address, w.gep("ptr", table, i))

    def meet_again(self) -> None:
        arguments = [("ptr", self.here.session), ("ptr", self.place), ("i64", self.size)]
        self.w.call("pyjax_meet_again", "void", arguments)

    # -- the others' memory ------------------------------------------------------------------------

    def _address(self, member: str, place: str | int) -> str:
        """An address in the table of a member. Never kept: each meeting has new tables."""
        w = self.w
        table = w.load("ptr", w.gep("ptr", self.tables, member))
        return w.load("ptr", w.gep("ptr", table, place))

    def operand(self, member: str, number: str | int) -> str:
        return self._address(member, number)

    def result(self, member: str, number: int) -> str:
        return self._address(member, len(self.here.operands) + number)

    def _fill(self, target: str, size: int) -> None:
        clear_bytes(self.w, target, str(size))

    def copy(self, target: str, source: str, size: str | int) -> None:
        copy_bytes(self.w, target, source, str(size))

    def copy_rows(
        self, target: str, target_row: str, source: str, source_row: str, rows: int, size: str
    ) -> None:
        """Rows of `size` bytes, each so many bytes behind the one before."""
        w = self.w
        with w.loop("0", rows) as loop:
            to = w.gep("i8", target, w.imul(loop.index, target_row))
            self.copy(to, w.gep("i8", source, w.imul(loop.index, source_row)), size)

    # -- meanings ----------------------------------------------------------------------------------

    def all_reduce(self) -> None:
        for number, name in enumerate(self.step.combiners):
            if self.step.operands[number].size:
                self._reduce(number, self.around.combiner(name))

    def reduce_scatter(self) -> None:
        """Each member combines its own part of all operands, which is in one piece: passes have
        made the dimension the first."""
        for number, name in enumerate(self.step.combiners):
            part = self.step.results[number].size
            if part:
                start = self.w.imul(self.rank, part)
                self._reduce_alone(number, self.around.combiner(name), start)

    def _reduce(self, number: int, kernel: Kernel) -> None:
        stages = [] if is_inline(kernel) else self.around.kernels.stages(kernel)
        if len(stages) == 1 and stages[0].blocks > 1:
            self._reduce_together(number, stages[0].name, stages[0].blocks)
        else:
            self._reduce_alone(number, kernel, "0")

    def _reduce_alone(self, number: int, kernel: Kernel, start: str) -> None:
        """Combine the operands from this byte on, as much as a result has."""
        w, result, kernels = self.w, self.here.results[number], self.around.kernels

        def source(member: str) -> str:
            return w.gep("i8", self.operand(member, number), start)

        self.copy(result, source("0"), self.step.results[number].size)
        stages = [] if is_inline(kernel) else kernels.stages(kernel)
        context = w.alloca("ptr", 3, 8)
        with w.loop("1", self.size) as member:
            arguments = [result, source(member.index), result]
            if not stages:
                kernels.emit_inline(w, kernel, dict(zip(launched_buffers(kernel), arguments)))
            for stage in stages:
                if stage.blocks == 1:
                    w.call(stage.name, "void", [("ptr", a) for a in arguments])
                    continue
                for i, argument in enumerate(arguments):
                    w.store("ptr", argument, w.gep("ptr", context, i))
                with w.loop("0", stage.blocks) as block:
                    w.call(stage.name, "void", [("ptr", context), ("i64", block.index)])

    def _reduce_together(self, number: int, function: str, blocks: int) -> None:
        w, result = self.w, self.here.results[number]
        nbytes = self.step.results[number].size
        mine, here, leader = self._share()
        shared = self.result(leader, number)
        context = w.alloca("ptr", 3, 8)
        w.store("ptr", shared, w.gep("ptr", context, 2))
        first = w.op("sdiv", "i64", w.imul(mine, blocks), here)
        end = w.op("sdiv", "i64", w.imul(w.iadd(mine, 1), blocks), here)

        def combine() -> list[str]:
            with w.loop(first, end) as block, w.loop("1", self.size) as member:
                start = w.cmp("eq", "i64", member.index, "1")
                so_far = w.select(start, "ptr", self.operand("0", number), shared)
                w.store("ptr", so_far, context)
                w.store("ptr", self.operand(member.index, number), w.gep("ptr", context, 1))
                w.call(function, "void", [("ptr", context), ("i64", block.index)])
            self.meet_again()
            with w.if_(w.cmp("ne", "i64", mine, "0")):
                self.copy(result, shared, nbytes)
            return []

        def alone() -> list[str]:
            self.copy(result, self.operand("0", number), nbytes)
            return []

        w.if_else(w.cmp("sgt", "i64", self.size, "1"), [], combine, alone)

    def _share(self) -> list[str]:
        """Of the members of the group in this process: which one this is, how many they are, and
        the rank of the first."""
        w = self.w
        row = w.alloca("i64", 3, 8)
        arguments = [("ptr", self.place), ("i64", self.rank), ("i64", self.size), ("ptr", row)]
        w.call("pyjax_share", "void", arguments)
        return [w.load("i64", w.gep("i64", row, i)) for i in range(3)]

    def _rows(self, shape: Shape) -> tuple[int, int]:
        """How many rows an array has, and bytes of each, that begin at the exchange's dimension."""
        axis = self.exchange.dimension
        assert axis is not None
        rows = 1
        for extent in shape.dimensions[:axis]:
            rows *= extent
        return rows, shape.byte_size // max(1, rows)

    def all_gather(self) -> None:
        w = self.w
        for number, place in enumerate(self.step.operands):
            if not place.size:
                continue
            rows, size = self._rows(place.shape)
            whole = w.imul(self.size, size)
            with w.loop("0", self.size) as member:
                target = w.gep("i8", self.here.results[number], w.imul(member.index, size))
                source = self.operand(member.index, number)
                self.copy_rows(target, whole, source, str(size), rows, str(size))

    def all_to_all(self) -> None:
        if self.exchange.dimension is None:
            for number, place in enumerate(self.step.results):
                source = self.operand(str(number), self.rank)
                self.copy(self.here.results[number], source, place.size)
            return
        (place,) = self.step.operands
        if not place.size:
            return
        w = self.w
        rows, whole = self._rows(place.shape)
        size = w.op("sdiv", "i64", str(whole), self.size)
        with w.loop("0", self.size) as member:
            target = w.gep("i8", self.here.results[0], w.imul(member.index, size))
            source = w.gep("i8", self.operand(member.index, 0), w.imul(self.rank, size))
            self.copy_rows(target, str(whole), source, str(whole), rows, size)

    def collective_broadcast(self) -> None:
        for number, place in enumerate(self.step.results):
            self.copy(self.here.results[number], self.operand("0", number), place.size)

    def collective_permute(self) -> None:
        """The one group has everybody that a pair names; who is no target gets zeros."""
        w = self.w
        (group,) = self.exchange.groups
        sources = {target: source for source, target in self.exchange.pairs}
        ranks = [
            (group.index(sources[number]) if number in sources else -1,)
            for number in range(self.around.participants)
        ]
        (source,) = self._row(ranks)

        def take() -> list[str]:
            for number, place in enumerate(self.step.results):
                self.copy(self.here.results[number], self.operand(source, number), place.size)
            return []

        def nothing() -> list[str]:
            self._nobody()
            return []

        w.if_else(w.cmp("sge", "i64", source, "0"), [], take, nothing)

    def ragged_all_to_all(self) -> None:
        """Each member copies what is meant for it, in the order of the group: its output, and over
        that rows of the others' inputs, as their starts, sizes and places say; of these rows those
        that there are in both arrays (`rows_within` of the evaluator)."""
        w, places = self.w, self.step.operands
        result = self.here.results[0]
        self.copy(result, self.here.operands[1], places[1].size)
        count = places[2].shape.num_elements
        extents = places[0].shape.dimensions
        row = places[0].size // extents[0] if extents[0] else 0
        rows = [dimensions[0] for dimensions in (extents, places[1].shape.dimensions)]
        per_member = w.op("sdiv", "i64", str(count), self.size)
        begin = w.imul(self.rank, per_member)
        with w.loop("0", self.size) as member, w.loop("0", per_member) as entry:
            at = w.iadd(begin, entry.index)
            start, size, place = (
                self._index(self.operand(member.index, k), at, places[k].shape) for k in (2, 3, 4)
            )
            first, end = "0", size
            for offset, extent in zip((start, place), rows, strict=True):
                # Differences are those of numbers next to which they do not overflow.
                near = w.intrinsic("smax", "i64", offset, str(extent - _MOST))
                offset = w.intrinsic("smax", "i64", offset, str(-_MOST))
                first = w.intrinsic("smax", "i64", first, w.op("sub", "i64", "0", offset))
                end = w.intrinsic("smin", "i64", end, w.op("sub", "i64", str(extent), near))
            there = w.cmp("slt", "i64", first, end)
            source, target, size = (
                w.imul(w.select(there, "i64", value, "0"), row)
                for value in (
                    w.iadd(start, first),
                    w.iadd(place, first),
                    w.op("sub", "i64", end, first),
                )
            )
            copied = w.gep("i8", self.operand(member.index, 0), source)
            self.copy(w.gep("i8", result, target), copied, size)

    def _index(self, base: str, at: str, shape: Shape) -> str:
        """A number of rows; larger ones than 64 bits with a sign count are as many as they do."""
        w = self.w
        type, unsigned = memory_type(shape.element_type), shape.element_type.is_unsigned_integral
        value = w.load(type, w.gep(type, base, at))
        if type != "i64":
            return w.cast("zext" if unsigned else "sext", type, value, "i64")
        return w.intrinsic("umin", type, value, str(_MOST)) if unsigned else value


_MEANINGS: dict[Opcode, Callable[[_Writer], None]] = {
    Opcode.ALL_GATHER: _Writer.all_gather,
    Opcode.ALL_REDUCE: _Writer.all_reduce,
    Opcode.ALL_TO_ALL: _Writer.all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _Writer.collective_broadcast,
    Opcode.COLLECTIVE_PERMUTE: _Writer.collective_permute,
    Opcode.RAGGED_ALL_TO_ALL: _Writer.ragged_all_to_all,
    Opcode.REDUCE_SCATTER: _Writer.reduce_scatter,
}
