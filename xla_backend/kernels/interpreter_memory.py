"""The memory of a kernel that is interpreted: what buffers hold, which of their elements have been
written, and who accessed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xla_backend.kernels.async_copies import CopiesUnderWay, Copy
from xla_backend.kernels.counters import KernelCounters
from xla_backend.kernels.handovers import Knowledge
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind
from xla_backend.kernels.races import (
    THREAD_BITS,
    Access,
    AccessLog,
    Axis,
    KernelRunError,
    OutOfBoundsError,
    RaceError,
    Region,
    UnwrittenReadError,
    regions_of,
    rising,
    text_of,
)

_ONE_BLOCK = np.zeros(1, np.int64)


class Lockstep:
    """The loops around a statement whose iterations run in lockstep, outer before inner.

    Fields:
      axes: one for each.   shape: their extents.   thread_shape: the same, with 1 for lanes.
      threads: how many there are, in all blocks that run at once.
    """

    def __init__(self) -> None:
        self._set(())

    def _set(self, axes: tuple[Axis, ...]) -> None:
        self.axes = axes
        self.depth = len(axes)
        self.shape = tuple([axis.extent for axis in axes])
        self.thread_shape = tuple(
            [1 if axis.kind is LoopKind.LANES else axis.extent for axis in axes]
        )
        self.threads = prod(self.thread_shape)
        self.blocks = axes[0].extent if axes and axes[0].kind is LoopKind.GRID else 1

    def restore(self, axes: tuple[Axis, ...]) -> None:
        """Be where these loops are around."""
        self._set(axes)

    def enter(self, axis: Axis) -> None:
        self._set((*self.axes, axis))

    def leave(self) -> None:
        self._set(self.axes[:-1])

    def narrow(self, extent: int) -> None:
        """Fewer lanes or threads of the innermost loop are left."""
        self._set((*self.axes[:-1], self.axes[-1]._replace(extent=extent)))

    def count(self, extent: int, first: int = 0) -> np.ndarray:
        """The numbers of the iterations of the innermost loop."""
        return np.arange(first, first + extent).reshape((1,) * (self.depth - 1) + (extent,))


class Spread(NamedTuple):
    """The accesses that a statement makes, one after another.

    Fields:
      shape: of the values.   chosen: the places in it of those that are made; None: all.
      element: what each accesses, among those of all threads or blocks that have a buffer of this
      name.   thread: the number of its thread, among those of all blocks that run at once.
    """

    shape: tuple[int, ...]
    chosen: np.ndarray | None
    element: np.ndarray
    thread: np.ndarray

    def of(self, values: np.ndarray) -> np.ndarray:
        """The value of each access."""
        flat = _spread_to(values, self.shape).reshape(-1)
        return flat if self.chosen is None else flat[self.chosen]


class Readers(NamedTuple):
    """Those who are reading elements for some time: which, their accesses, and where they began."""

    buffer: Buffer
    element: np.ndarray
    read: Spread
    where: str


class ReadersUnderWay:
    """All such of the blocks that run at once."""

    def __init__(self) -> None:
        self._all: list[Readers] = []
        self._counts: dict[Buffer, np.ndarray] = {}  # of readers

    def begin(self, readers: Readers, size: int) -> None:
        """Of a buffer of which all blocks together have `size` elements."""
        counts = self._counts.get(readers.buffer)
        if counts is None:
            counts = self._counts[readers.buffer] = np.zeros(size, np.int32)
        counts[readers.element] += 1
        self._all.append(readers)

    def end(self, readers: Readers) -> None:
        self._counts[readers.buffer][readers.element] -= 1
        self._all = [found for found in self._all if found is not readers]

    def of(self, buffer: Buffer, element: np.ndarray) -> tuple[int, str] | None:
        """The number of an access to an element that is being read, and where that began."""
        counts = self._counts.get(buffer)
        if counts is None or not counts[element].any():
            return None
        n = int(np.argmax(counts[element] != 0))
        readers = (r for r in self._all if r.buffer is buffer and element[n] in r.element)
        return n, next(readers).where

    def clear(self) -> None:
        """The blocks are over."""
        self._all.clear()
        self._counts.clear()


class BlockState(NamedTuple):
    """What belongs to a block that others run beside: see `Memory`."""

    blocks: np.ndarray
    phases: np.ndarray
    phase: int | None
    people: dict[int, np.ndarray]
    copies: CopiesUnderWay[Spread]
    arrays: dict[Buffer, np.ndarray]
    logs: dict[Buffer, AccessLog]
    written: dict[Buffer, np.ndarray]


class Memory:
    """Buffers as flat arrays of reals, and the rules for accesses to them."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[np.ndarray],
        count: Callable[[Buffer], int],
        given: Mapping[Buffer, np.ndarray],
        lockstep: Lockstep,
        position: Callable[[], dict[str, int]],
        counters: KernelCounters | None,
    ) -> None:
        """`given`: memory of the caller, who knows what has been written in it. `lockstep`: the
        loops around what is executed; `position`: their variables that have one value."""
        self.kernel = kernel
        self._lockstep = lockstep
        self._position = position
        self.arrays: dict[Buffer, np.ndarray] = dict(given)
        self._written: dict[Buffer, np.ndarray] = {}  # of buffers that begin with nothing in them
        self._logs: dict[Buffer, AccessLog] = {}  # by the buffer that stands for the memory
        self._copies: CopiesUnderWay[Spread] = CopiesUnderWay()
        self._readers = ReadersUnderWay()
        self._knowledge = Knowledge(THREAD_BITS)
        self._accesses = 0  # of the grid, so far
        self._counters = counters
        self._in_grid = False
        self._begin(_ONE_BLOCK)
        for buffer in kernel.buffers:
            dtype = buffer.element_type.numpy_dtype
            if buffer in given:
                continue
            if buffer.role is BufferRole.OPERAND:
                self.arrays[buffer] = _flat(operands[buffer.number], dtype)
            elif buffer.role is BufferRole.CONSTANT:
                assert buffer.data is not None
                self.arrays[buffer] = _flat(buffer.data, dtype)
            elif buffer.role is BufferRole.OUTPUT and buffer.number in kernel.in_place:
                self.arrays[buffer] = _flat(operands[kernel.in_place[buffer.number]], dtype)
            elif buffer.role.is_global:
                self._empty(buffer, count(buffer))
        self._regions = regions_of(self.arrays)

    def _empty(self, buffer: Buffer, size: int) -> None:
        self.arrays[buffer] = np.zeros(size, buffer.element_type.numpy_dtype)
        self._written[buffer] = np.zeros(size, bool)

    # -- order -------------------------------------------------------------------------------------

    def begin_stage(self, waits: bool) -> None:
        """All threads have finished what was before. `waits`: whether blocks of this stage wait for
        each other."""
        self._logs.clear()
        self._copies.clear()
        self._readers.clear()
        self._knowledge = Knowledge(THREAD_BITS, waits)
        self._accesses = 0
        self._in_grid = False
        self._begin(_ONE_BLOCK)

    def begin_blocks(self, numbers: np.ndarray) -> None:
        """Blocks of a grid begin, at once: memory of blocks and threads holds nothing."""
        self._in_grid = True
        self._begin(numbers)
        self._copies.clear()
        self._readers.clear()
        for buffer in self.kernel.buffers:
            if not buffer.role.is_global:
                self.arrays.pop(buffer, None)
                self._logs.pop(buffer, None)

    def _begin(self, numbers: np.ndarray) -> None:
        self._blocks = numbers
        self._phases = np.zeros(numbers.size, np.int32)  # barriers that each has come to
        self._phase: int | None = 0  # where that is the same for all
        self._people: dict[int, np.ndarray] = {}

    def barrier(self, blocks: np.ndarray | None = None) -> None:
        """What follows comes after what threads of a block have done. `blocks`: which of those that
        run at once come to it; None: all."""
        self._phases[slice(None) if blocks is None else blocks] += 1
        if self._knowledge.in_use:
            here = self._blocks if blocks is None else self._blocks[blocks]
            self._knowledge.barrier(here.tolist(), self._accesses)
        same = (self._phases == self._phases[0]).all()
        self._phase = int(self._phases[0]) if same else None

    def forget(self, own: Iterable[Buffer]) -> None:
        """The threads (or rounds) that these buffers belong to are over."""
        for buffer in own:
            self.arrays.pop(buffer, None)

    def leave_block(self) -> BlockState:
        """Another block goes on: what belongs to this one."""
        own = [b for b in self.kernel.buffers if not b.role.is_global]
        state = BlockState(
            self._blocks, self._phases, self._phase, self._people, self._copies,
            {b: self.arrays.pop(b) for b in own if b in self.arrays},
            {b: self._logs.pop(b) for b in own if b in self._logs},
            {b: self._written.pop(b) for b in own if b in self._written},
        )  # fmt: skip
        self._copies = CopiesUnderWay()
        return state

    def return_to_block(self, state: BlockState) -> None:
        """A block goes on that was left."""
        self._blocks, self._phases, self._phase, self._people, self._copies = state[:5]
        self.arrays.update(state.arrays)
        self._logs.update(state.logs)
        self._written.update(state.written)

    # -- accesses ----------------------------------------------------------------------------------

    def read(self, buffer: Buffer, at: ArrayLike, active: np.ndarray | None) -> np.ndarray:
        """Elements, one for each lane and thread; zero for those that are not `active` (None: all
        are)."""
        if active is None and self._counters is None and self._never_changes(buffer):
            array, at = self.arrays[buffer], np.asarray(at, np.int64)
            if (at.view(np.uint64) < array.size).all():
                return array[at]  # nothing to be checked or remembered for each thread
        spread = self._spread(buffer, at, active, (), "read")
        self._check_at_rest(buffer, spread, "read")
        self._check_written(buffer, spread, "read")
        self._log(buffer, spread, "read")
        elements = self.arrays[buffer][spread.element]
        if spread.chosen is None:
            return elements.reshape(spread.shape)
        result = np.zeros(prod(spread.shape), elements.dtype)
        result[spread.chosen] = elements
        return result.reshape(spread.shape)

    def write(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        values: np.ndarray,
    ) -> None:
        """Write an element for each lane and thread that is `active`."""
        spread = self._spread(buffer, at, active, values.shape, "written")
        array, element = self.arrays[buffer], spread.element
        if not rising(element):
            self._check_distinct(buffer, spread)
        self._check_at_rest(buffer, spread, "written")
        self._log(buffer, spread, "written")
        array[element] = spread.of(values)
        if buffer in self._written:
            self._written[buffer][element] = True

    def update(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        values: np.ndarray,
        combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> Spread:
        """Combine a value into an element for each active lane and thread. Those of one element
        come one after another, by the numbers of block, thread and lane."""
        spread = self._spread(buffer, at, active, values.shape, "updated")
        self._check_at_rest(buffer, spread, "updated")
        self._check_written(buffer, spread, "updated")
        self._log(buffer, spread, "updated")
        array, element, new = self.arrays[buffer], spread.element, spread.of(values)
        for turn in _turns(element):
            array[element[turn]] = combine(array[element[turn]], new[turn])
        return spread

    # -- signals -----------------------------------------------------------------------------------

    def take_ticket(self, buffer: Buffer, at: int, taker: np.ndarray | None) -> int:
        """The next number of a counter, for the one block that runs."""
        one = np.ones((), buffer.element_type.numpy_dtype)
        self.update(buffer, at, taker, one, np.add)
        return int(self.arrays[buffer][at]) - 1

    def signal(self, buffer: Buffer, at: ArrayLike, active: np.ndarray | None) -> None:
        """Each active thread tells what it has done."""
        one = np.ones((), buffer.element_type.numpy_dtype)
        spread = self.update(buffer, at, active, one, np.bitwise_or)
        who = self._who(spread)
        for n, element in enumerate(spread.element.tolist()):
            here = self._text(spread, n)
            there = self._knowledge.signal(buffer, element, int(who[n]), self._accesses, here)
            if there is not None:
                raise RaceError(
                    f"{self._name(buffer, element)} is signalled at [{here}] and at [{there}]: "
                    "who waits cannot tell which of them it is"
                )

    def await_signals(self, buffer: Buffer, at: ArrayLike, active: np.ndarray | None) -> str | None:
        """Active threads learn what those did that signalled; where somebody has not yet, where
        one waits, and for which element."""
        spread = self._spread(buffer, at, active, (), "read", counted=False)
        self._check_written(buffer, spread, "awaited")
        elements = spread.element.tolist()
        for n, element in enumerate(elements):
            if not self._knowledge.is_told(buffer, element):
                return f"[{self._text(spread, n)}] for element {element} of {buffer.name}"
        if self._counters is not None:
            self._counters.access(buffer, "read", spread.element, self._who(spread))
        self._log(buffer, spread, "updated")
        for element, who in zip(elements, self._who(spread).tolist()):
            self._knowledge.learn(buffer, element, who)
        return None

    def copy(
        self,
        source: tuple[Buffer, np.ndarray, np.ndarray | None],
        target: tuple[Buffer, np.ndarray, np.ndarray | None],
    ) -> None:
        """Begin to copy elements; both sides have a buffer, places in it, and who is active. Those
        whose source is not are zeros."""
        buffer, at, active = source
        values = self.read(buffer, at, active)
        into, place, writing = target
        read = self._spread(buffer, at, active, (), "read", counted=False)
        written = self._spread(into, place, writing, values.shape, "written")
        if not rising(written.element):
            self._check_distinct(into, written)
        self._check_at_rest(into, written, "written")
        self._log(into, written, "written")
        array = self.arrays[into]
        array[written.element] = written.of(values)
        self._written[into][written.element] = True
        if not written.element.size:
            return
        copy = Copy(into, written.element, written, buffer, read, self._text(written, 0))
        self._copies.begin(copy, array.size)

    def group_copies(self) -> None:
        """What all threads have begun to copy is a group."""
        self._copies.group()

    def await_copies(self, pending: int) -> None:
        """Copies but for those of the last groups end: the thread writes what they wrote now."""
        for copy in self._copies.wait(pending):
            self._log(copy.source, copy.read, "read")
            self._log(copy.target, copy.written, "written")

    # -- accesses of one thread for all ------------------------------------------------------------

    def phase(self, block: int) -> int:
        """How many barriers one of the blocks that run at once has come to."""
        return int(self._phases[block])

    def read_by(self, buffer: Buffer, element: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Elements that threads read, each given by its number among those of all blocks."""
        spread = self._one_by_one(buffer, element, thread, "read")
        self._check_at_rest(buffer, spread, "read")
        self._check_written(buffer, spread, "read")
        self._log(buffer, spread, "read")
        return self.arrays[buffer][spread.element]

    def begin_copy(
        self,
        source: tuple[Buffer, np.ndarray],
        target: tuple[Buffer, np.ndarray],
        values: np.ndarray,
        thread: int,
    ) -> Copy[Spread]:
        """A thread begins to copy to distinct elements, which `end_copy` ends; `values`: what they
        are then, of which some have been read from the source."""
        buffer, read_at = source
        into, written_at = target
        read = self._one_by_one(buffer, read_at, np.full(read_at.size, thread), "read", False)
        writers = np.full(written_at.size, thread)
        written = self._one_by_one(into, written_at, writers, "written", False)
        self._check_at_rest(into, written, "written")
        self._log(into, written, "written")
        self.arrays[into][written.element] = values
        self._written[into][written.element] = True
        copy = Copy(into, written.element, written, buffer, read, self._text(written, 0))
        self._copies.begin_apart(copy, self.arrays[into].size)
        return copy

    def end_copy(self, copy: Copy[Spread]) -> None:
        """A copy is over, and all threads of the block know: what comes is behind it."""
        self._copies.end(copy)
        self._log(copy.source, copy.read, "read")
        log = self._logs.get(copy.target)
        if log is not None:
            log.forget("written", copy.element)

    def check_over(self) -> None:
        """Raise if blocks end while copies that one thread began are under way."""
        if self._copies.apart:
            copy = self._copies.apart[0]
            raise KernelRunError(
                f"kernel {self.kernel.name!r}: blocks end while a copy to {copy.target.name} is "
                f"under way, begun at [{copy.where}]: wait for it before"
            )

    def begin_reads(
        self, buffer: Buffer, element: np.ndarray, thread: np.ndarray, count: int
    ) -> Readers:
        """Threads begin to read elements, which `end_reads` ends; the first `count` are all. (Who
        reads at once, and so which banks, is the machine's business.)"""
        spread = self._one_by_one(buffer, element, thread, "read", False)
        self._check_at_rest(buffer, spread, "read")
        self._check_written(buffer, spread, "read")
        self._log(buffer, spread, "read")
        readers = Readers(buffer, spread.element[:count], spread, self._text(spread, 0))
        self._readers.begin(readers, self.arrays[buffer].size)
        return readers

    def end_reads(self, readers: Readers) -> None:
        """They have read: now."""
        self._readers.end(readers)
        self._log(readers.buffer, readers.read, "read")

    def _one_by_one(
        self,
        buffer: Buffer,
        element: np.ndarray,
        thread: np.ndarray,
        how: str,
        counted: bool = True,
    ) -> Spread:
        """Accesses to elements of whose buffer each block has its own, if it is shared."""
        spread = Spread(element.shape, np.arange(element.size), element, thread)
        self._check_inside(buffer, spread)
        if self._counters is not None and counted:
            self._counters.access(buffer, how, element, self._who(spread))
        if buffer.role.is_global:
            return spread
        return spread._replace(element=self._of_owners(buffer, spread, self._lockstep.threads))

    def _check_at_rest(self, buffer: Buffer, spread: Spread, what: str) -> None:
        if what != "read":
            self._check_read(buffer, spread, what)
        found = self._copies.reaching(buffer, spread.element)
        if found is not None:
            n, begun = found
            raise RaceError(
                f"{self._own_name(buffer, int(spread.element[n]))} is {what} at "
                f"[{self._text(spread, n)}], and a copy begun at [{begun}] is on its way there: "
                f"wait for it before"
            )

    def _check_read(self, buffer: Buffer, spread: Spread, what: str) -> None:
        found = self._readers.of(buffer, spread.element)
        if found is not None:
            n, begun = found
            raise RaceError(
                f"{self._own_name(buffer, int(spread.element[n]))} is {what} at "
                f"[{self._text(spread, n)}], and a product begun at [{begun}] still reads it: wait "
                f"for that before"
            )

    def _never_changes(self, buffer: Buffer) -> bool:
        region = self._regions.get(buffer)
        return region is not None and not region.is_written

    def _spread(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        held: tuple[int, ...],
        how: str,
        *,
        counted: bool = True,
    ) -> Spread:
        """The accesses that a statement makes, within bounds. What is the same in all lanes is one
        access; threads make one each. `held`: the shape of values."""
        at = np.asarray(at, np.int64)
        count = self._lockstep.threads
        shape = _joined(_joined(at.shape, self._lockstep.thread_shape), held)
        if active is None:
            chosen, element = None, _spread_to(at, shape).reshape(-1)
            lanes = element.size // count
            thread = np.arange(count) if lanes == 1 else np.arange(count).repeat(lanes)
        else:
            shape = _joined(shape, active.shape)
            chosen = np.flatnonzero(_spread_to(active, shape))
            element = _spread_to(at, shape).reshape(-1)[chosen]
            lanes = prod(shape) // count
            thread = chosen if lanes == 1 else chosen // lanes
        spread = Spread(shape, chosen, element, thread)
        self._check_inside(buffer, spread)
        if self._counters is not None and counted:
            self._counters.access(buffer, how, element, self._who(spread))
        if buffer.role.is_global:
            return spread
        return spread._replace(element=self._of_owners(buffer, spread, count))

    def _check_inside(self, buffer: Buffer, spread: Spread) -> None:
        element = spread.element
        size = self.arrays[buffer].size if buffer.role.is_global else buffer.size
        outside = element.view(np.uint64) >= size  # negative ones are large
        if outside.any():
            n = int(np.argmax(outside))
            raise OutOfBoundsError(
                f"{self._name(buffer, int(element[n]))} is accessed at "
                f"[{self._text(spread, n)}], and the buffer has {size} elements"
            )

    def _of_owners(self, buffer: Buffer, spread: Spread, count: int) -> np.ndarray:
        """Where elements are in the memory of all blocks, or all threads."""
        owners = self._blocks.size if buffer.role is BufferRole.SHARED else count
        if buffer not in self.arrays:
            self._empty(buffer, buffer.size * owners)
        held = self.arrays[buffer].size // buffer.size
        if held != owners:
            raise KernelRunError(
                f"kernel {self.kernel.name!r}: each of {held} threads has a buffer {buffer.name}, "
                f"and {owners} threads of another loop access it"
            )
        return spread.element + spread.thread // (count // owners) * buffer.size

    # -- checks ------------------------------------------------------------------------------------

    def _check_written(self, buffer: Buffer, spread: Spread, what: str) -> None:
        written = self._written.get(buffer)
        if written is None:
            return
        known = written[spread.element]
        if not known.all():
            n = int(np.argmin(known))
            raise UnwrittenReadError(
                f"{self._own_name(buffer, int(spread.element[n]))} is {what} at "
                f"[{self._text(spread, n)}], and nothing has written it"
            )

    def _check_distinct(self, buffer: Buffer, spread: Spread) -> None:
        element, order = spread.element, np.arange(spread.element.size)
        last = np.empty(self.arrays[buffer].size, np.int64)
        last[element] = order
        twice = last[element] != order
        if not twice.any():
            return
        first = int(np.argmax(twice))
        second = first + 1 + int(np.argmax(element[first + 1 :] == element[first]))
        one, other = (self._text(spread, n) for n in (first, second))
        threads, count = spread.thread[[first, second]], self._lockstep.threads
        blocks = threads // (count // self._blocks.size)
        if blocks[0] != blocks[1]:
            what = "blocks"
        elif threads[0] != threads[1]:
            serial = any(axis.kind is LoopKind.SERIAL for axis in self._lockstep.axes)
            what = "independent rounds" if serial else "threads"
        else:
            what = "lanes"
        raise RaceError(
            f"{self._own_name(buffer, int(element[first]))} is written at [{one}] and at "
            f"[{other}] by two {what} of one statement: give each its own elements"
        )

    def _log(self, buffer: Buffer, spread: Spread, how: str) -> None:
        threads = self._in_grid or any(
            axis.kind is not LoopKind.LANES for axis in self._lockstep.axes
        )
        own = buffer.role in (BufferRole.LOCAL, BufferRole.REGISTERS)
        if own or not spread.element.size or not threads:
            return
        region = self._regions.get(buffer)
        if region is None:  # memory of blocks
            region = Region(buffer, buffer, 0, 1, self.arrays[buffer].size, True)
        if not region.is_written:
            return
        log = self._logs.get(region.memory)
        if log is None:
            log = AccessLog(self.kernel.name, region.size, self._knowledge)
            self._logs[region.memory] = log
        self._accesses += 1
        who, phase = self._who(spread), self._phase
        if phase is None:
            phase = self._phases[spread.thread // (self._lockstep.threads // self._blocks.size)]
        access = Access(region, self._position(), self._lockstep.axes, self._accesses)
        log.log(how, spread.element, who, phase, access)

    def _who(self, spread: Spread) -> np.ndarray:
        """Who makes each access: the number of the thread in its block, and that of the block."""
        count = self._lockstep.threads
        people = self._people.get(count)
        if people is None:
            each = count // self._blocks.size
            assert each < 1 << THREAD_BITS, f"{each} threads in a block"
            people = ((self._blocks << THREAD_BITS)[:, None] + np.arange(each)).reshape(-1)
            self._people[count] = people
        everybody = spread.chosen is None and spread.thread.size == count
        return people if everybody else people[spread.thread]

    def _text(self, spread: Spread, n: int) -> str:
        """Where access number n is made."""
        return text_of(int(self._who(spread)[n]), self._position(), self._lockstep.axes)

    def _name(self, buffer: Buffer, element: int) -> str:
        return f"kernel {self.kernel.name!r}: element {element} of buffer {buffer.name}"

    def _own_name(self, buffer: Buffer, element: int) -> str:
        """Of an element among those of all threads, or blocks: the one of its owner."""
        return self._name(buffer, element if buffer.role.is_global else element % buffer.size)


def _turns(element: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of accesses, in groups within which no two go to one element, such that those to one
    element come in their order."""
    if rising(element):
        yield np.arange(element.size)
        return
    order = np.argsort(element, kind="stable")
    sorted_ = element[order]
    new = np.concatenate([[True], sorted_[1:] != sorted_[:-1]])
    starts = np.flatnonzero(new)
    turn = np.arange(element.size) - starts[np.cumsum(new) - 1]
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _joined(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """What two shapes are broadcast to."""
    if one == other or not one:
        return other
    return np.broadcast_shapes(one, other) if other else one


def _spread_to(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    # Most of what has to be spread is one number, for one thread.
    return array.reshape(shape) if array.size == prod(shape) else np.broadcast_to(array, shape)


def _flat(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(dtype).copy()
