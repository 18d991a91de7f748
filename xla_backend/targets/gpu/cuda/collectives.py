"""Collectives of programs over several GPUs, by NCCL.

All participants of a run that are in one process are run by one thread (`group_runs`). When the
members of a group stand at a collective, the calls of all of them are made as one group of calls,
each on its member's stream. So nothing waits for a call that another thread has yet to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xla_backend.hlo.exchanges import rows_within
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.topology import Topology
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.program.ir import Collective, aligned
from xla_backend.program.lockstep import title
from xla_backend.targets.gpu.cuda.collective_plans import Reduction, reduction_of, rows_of
from xla_backend.targets.gpu.cuda.commands import Command, Run, read
from xla_backend.targets.gpu.cuda.communicators import grouped
from xla_backend.targets.gpu.cuda.layout import Place

# Makes what combines two arrays into a third: of result number n, by where the three are.
Combiner = Callable[[int, Place, Place, Place], Sequence[Command]]


@dataclass(slots=True, eq=False)
class CollectiveCommand(Command):
    """What a participant does at a collective, which no graph can have: it gets its results when
    all members of its group have come (`perform`). `scratch`: memory for that."""

    step: Collective
    topology: Topology
    operands: Sequence[Place]
    results: Sequence[Place]
    scratch: Place
    combiner: Combiner
    nodes: int | None = field(default=None, init=False)
    bases: frozenset[int] = field(default=frozenset(), init=False)
    _combining: dict[tuple[int, Place, Place, Place], Sequence[Command]] = field(
        default_factory=dict, init=False
    )

    def steps(self, run: Run) -> Iterator[CollectiveCommand]:
        number = self.topology.number(run.context.replica, run.context.partition)
        if self.step.exchange.group_of(number, title(self.step)) is not None:
            yield self
            return
        for place, result in zip(self.results, self.step.results):
            _clear(run, place.address(run.bases), result.size)

    def combine(self, run: Run, number: int, first: Place, second: Place, out: Place) -> None:
        key = number, first, second, out
        commands = self._combining.get(key)
        if commands is None:
            commands = self._combining.setdefault(key, self.combiner(*key))
        for command in commands:
            command.run(run)


@dataclass(slots=True)
class Member:
    """A participant that stands at a collective.

    Fields:
      number: of the participant.   communicator: of its group, in which its rank is its place.
    """

    number: int
    command: CollectiveCommand
    run: Run
    communicator: Any

    @property
    def stream(self) -> int:
        return self.run.stream.ptr

    def operand(self, number: int) -> int:
        return self.command.operands[number].address(self.run.bases)

    def result(self, number: int) -> int:
        return self.command.results[number].address(self.run.bases)

    def scratch(self, offset: int = 0) -> int:
        return self.command.scratch.address(self.run.bases) + offset


# Of an operand or a result of a member.
_Address = Callable[[Member, int], int]


def perform(nccl: Any, members: Sequence[Member]) -> None:
    """Put the exchange of a group's members on their streams.

    Raises:
      NcclError: NCCL reported an error.
    """
    together = _Together(nccl, members)
    _MEANINGS[together.step.exchange.opcode](together)


class _Together:
    """The members of a group, in its order, and NCCL.

    Attributes:
      step: the collective. (Members may come to different steps of one meaning, in branches.)
    """

    def __init__(self, nccl: Any, members: Sequence[Member]) -> None:
        self.nccl = nccl
        self.members = members
        self.step = members[0].command.step
        self._bytes = nccl.NCCL_INT8

    def calls(self) -> Any:
        return grouped(self.nccl)

    def constant(self, name: str) -> int:
        return getattr(self.nccl, f"NCCL_{name}")

    def send(self, member: Member, address: int, nbytes: int, rank: int) -> None:
        if nbytes:
            member.communicator.send(address, nbytes, self._bytes, rank, member.stream)

    def receive(self, member: Member, address: int, nbytes: int, rank: int) -> None:
        if nbytes:
            member.communicator.recv(address, nbytes, self._bytes, rank, member.stream)

    def gather(self, member: Member, source: int, target: int, nbytes: int) -> None:
        member.communicator.allGather(source, target, nbytes, self._bytes, member.stream)

    def broadcast(self, member: Member, source: int, target: int, nbytes: int, root: int) -> None:
        member.communicator.broadcast(source, target, nbytes, self._bytes, root, member.stream)

    # -- reductions --------------------------------------------------------------------------------

    def all_reduce(self) -> None:
        own = self._reductions()
        with self.calls():
            for member in self.members:
                for number, found in own.items():
                    place = self.step.operands[number].shape
                    member.communicator.allReduce(
                        member.operand(number),
                        member.result(number),
                        place.num_elements * found.parts,
                        self.constant(found.type),
                        self.constant(found.operation),
                        member.stream,
                    )
        for number, result in enumerate(self.step.results):
            if number in own or not result.size:
                continue
            slot = aligned(result.size)
            with self.calls():
                for member in self.members:
                    for root in range(len(self.members)):
                        source, target = member.operand(number), member.scratch(root * slot)
                        self.broadcast(member, source, target, result.size, root)
            self._combine(number, result.size)

    def reduce_scatter(self) -> None:
        """Each member's part is in one piece: passes have made the dimension the first."""
        own = self._reductions()
        with self.calls():
            for member in self.members:
                for number, found in own.items():
                    part = self.step.results[number].shape
                    member.communicator.reduceScatter(
                        member.operand(number),
                        member.result(number),
                        part.num_elements * found.parts,
                        self.constant(found.type),
                        self.constant(found.operation),
                        member.stream,
                    )
        for number, result in enumerate(self.step.results):
            if number in own or not result.size:
                continue
            size, slot = result.size, aligned(result.size)
            with self.calls():
                for member in self.members:
                    for rank in range(len(self.members)):
                        self.send(member, member.operand(number) + rank * size, size, rank)
                        self.receive(member, member.scratch(rank * slot), size, rank)
            self._combine(number, size)

    def _reductions(self) -> Mapping[int, Reduction]:
        """Of the operands that NCCL reduces itself."""
        found = {n: reduction_of(self.step, n) for n in range(len(self.step.operands))}
        return {n: r for n, r in found.items() if r is not None and self.step.results[n].size}

    def _combine(self, number: int, size: int) -> None:
        """Make the result of what each member's scratch memory has of all, in their order."""
        count, slot = len(self.members), aligned(size)
        for member in self.members:
            command, run = member.command, member.run
            scratch, result = command.scratch, command.results[number]
            slots = [Place(scratch.base, scratch.offset + k * slot) for k in range(count + 1)]
            # Where sums are put, by turns: no kernel writes over what it reads, the last one writes
            # the result.
            turns = [result if (count - k) % 2 else slots[count] for k in range(1, count)]
            sums = [slots[0], *turns]
            with run.device.active():
                if count == 1:
                    _copy(run, result.address(run.bases), member.scratch(), size)
                for k, (so_far, total) in enumerate(pairwise(sums), 1):
                    command.combine(run, number, so_far, slots[k], total)

    # -- moves -------------------------------------------------------------------------------------

    def all_gather(self) -> None:
        dimension = self._dimension
        shapes = [operand.shape for operand in self.step.operands]
        whole = [n for n, s in enumerate(shapes) if s.byte_size and rows_of(s, dimension)[0] == 1]
        with self.calls():
            for member in self.members:
                for n in whole:
                    nbytes = shapes[n].byte_size
                    self.gather(member, member.operand(n), member.result(n), nbytes)
        for n, shape in enumerate(shapes):
            if n in whole or not shape.byte_size:
                continue
            rows, width = rows_of(shape, dimension)
            with self.calls():
                for member in self.members:
                    self.gather(member, member.operand(n), member.scratch(), shape.byte_size)
            wide = width * len(self.members)
            for member in self.members:
                for rank in range(len(self.members)):
                    source = member.scratch(rank * shape.byte_size), width
                    target = member.result(n) + rank * width, wide
                    _copy_rows(member.run, target, source, width, rows)

    def all_to_all(self) -> None:
        if self.step.exchange.dimension is None:
            with self.calls():
                for member in self.members:
                    for peer, place in enumerate(self.step.operands):
                        self.send(member, member.operand(peer), place.size, peer)
                        self.receive(member, member.result(peer), place.size, peer)
            return
        (place,) = self.step.operands
        if not place.size:
            return
        rows, wide = rows_of(place.shape, self._dimension)
        count = len(self.members)
        width, part = wide // count, place.size // count
        if rows == 1:
            self._exchange_parts(Member.operand, Member.result, part)
            return
        received = aligned(place.size)
        for member in self.members:
            for rank in range(count):
                source = member.operand(0) + rank * width, wide
                _copy_rows(member.run, (member.scratch(rank * part), width), source, width, rows)
        self._exchange_parts(
            lambda member, _: member.scratch(), lambda member, _: member.scratch(received), part
        )
        for member in self.members:
            for rank in range(count):
                target = member.result(0) + rank * width, wide
                source = member.scratch(received + rank * part), width
                _copy_rows(member.run, target, source, width, rows)

    def _exchange_parts(self, source: _Address, target: _Address, size: int) -> None:
        """Part r of each member's source goes to the member of rank r, in the order of ranks."""
        with self.calls():
            for member in self.members:
                for rank in range(len(self.members)):
                    self.send(member, source(member, 0) + rank * size, size, rank)
                    self.receive(member, target(member, 0) + rank * size, size, rank)

    @property
    def _dimension(self) -> int:
        dimension = self.step.exchange.dimension
        assert dimension is not None
        return dimension

    def collective_broadcast(self) -> None:
        with self.calls():
            for member in self.members:
                for n, place in enumerate(self.step.operands):
                    if place.size:
                        self.broadcast(member, member.operand(n), member.result(n), place.size, 0)

    def collective_permute(self) -> None:
        """Who is no target gets zeros."""
        ranks = {member.number: rank for rank, member in enumerate(self.members)}
        sources = {ranks[target]: ranks[source] for source, target in self.step.exchange.pairs}
        with self.calls():
            for n, place in enumerate(self.step.operands):
                for target, source in sources.items():
                    sender, receiver = self.members[source], self.members[target]
                    self.send(sender, sender.operand(n), place.size, target)
                    self.receive(receiver, receiver.result(n), place.size, source)
        for rank, member in enumerate(self.members):
            if rank not in sources:
                with member.run.device.active():
                    for n, place in enumerate(self.step.results):
                        _clear(member.run, member.result(n), place.size)

    def ragged_all_to_all(self) -> None:
        """Each member gets its output, and over that, in the order of the group, rows of the
        others' inputs, as their starts, sizes and places say, as far as there are such rows: which
        the host has to see."""
        places = self.step.operands
        extents = places[0].shape.dimensions
        row = places[0].size // extents[0] if extents[0] else 0
        starts, sizes, targets = ([self._numbers(m, k) for m in self.members] for k in (2, 3, 4))
        for member in self.members:
            with member.run.device.active():
                _copy(member.run, member.result(0), member.operand(1), places[1].size)
        each = places[2].shape.num_elements // len(self.members)
        # Calls of one group come in no order: one for each source, lest rows meet.
        for source, sender in enumerate(self.members):
            with self.calls():
                for entry, size in enumerate(sizes[source].tolist()):
                    rank = entry // each
                    start, target = int(starts[source][entry]), int(targets[source][entry])
                    start, size, target = rows_within(
                        start, size, target, *(place.shape.dimensions[0] for place in places[:2])
                    )
                    if not size:
                        continue
                    receiver = self.members[rank]
                    self.send(sender, sender.operand(0) + start * row, size * row, rank)
                    address = receiver.result(0) + target * row
                    self.receive(receiver, address, size * row, source)

    def _numbers(self, member: Member, operand: int) -> np.ndarray:
        shape, run = self.step.operands[operand].shape, member.run
        return read(run, member.command.operands[operand], shape).reshape(-1)


def _clear(run: Run, address: int, nbytes: int) -> None:
    """Write zeros; in an active block."""
    if nbytes:
        run.device.cupy.cuda.runtime.memsetAsync(address, 0, nbytes, run.stream.ptr)


def _copy(run: Run, target: int, source: int, nbytes: int) -> None:
    """Copy within a device; in an active block."""
    if nbytes:
        run.device.copy(target, source, nbytes, run.stream)


def _copy_rows(
    run: Run, target: tuple[int, int], source: tuple[int, int], width: int, rows: int
) -> None:
    """Copy rows of `width` bytes within a device. `target`, `source`: the address of the first row,
    and how far the next one is."""
    runtime = run.device.cupy.cuda.runtime
    with run.device.active():
        runtime.memcpy2DAsync(
            *target, *source, width, rows, runtime.memcpyDeviceToDevice, run.stream.ptr
        )


_MEANINGS: dict[Opcode, Callable[[_Together], None]] = {
    Opcode.ALL_GATHER: _Together.all_gather,
    Opcode.ALL_REDUCE: _Together.all_reduce,
    Opcode.ALL_TO_ALL: _Together.all_to_all,
    Opcode.COLLECTIVE_BROADCAST: _Together.collective_broadcast,
    Opcode.COLLECTIVE_PERMUTE: _Together.collective_permute,
    Opcode.RAGGED_ALL_TO_ALL: _Together.ragged_all_to_all,
    Opcode.REDUCE_SCATTER: _Together.reduce_scatter,
}
