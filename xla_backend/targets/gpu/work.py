"""What the launches of a scheduled kernel have to do, told from the kernel alone.

Loops are not run: an access is looked at for all threads of some blocks in some rounds of the loops
around it, and counted for all of them. So the counts are exact where accesses are alike from block
to block, as in nearly all kernels; indices that are read from memory are taken to be anywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import ZERO, FloorDiv, Index, Mod, Parameter, Var
from xla_backend.kernels.ir import (
    HANDOVERS,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Await,
    Barrier,
    BoxCopy,
    Buffer,
    BufferRole,
    Compute,
    Constant,
    GroupProduct,
    If,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    LoopKind,
    MatrixLoad,
    MatrixTile,
    Move,
    Shuffle,
    Signal,
    Statement,
    Store,
    Ticket,
    Value,
    walk,
)
from xla_backend.kernels.lines import LINE
from xla_backend.kernels.matrix_tiles import GROUP
from xla_backend.kernels.warp_accesses import SECTOR
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.targets.gpu.access_counts import bank_passes, requests, sectors
from xla_backend.targets.gpu.architectures import WARP

# How many blocks and rounds accesses are looked at in: a power of two, so that counts of what is
# alike everywhere are whole numbers. The golden section spreads those of nested loops.
_SAMPLES = 8
_SECTION = 0.6180339887498949
# Instructions that a transcendental function takes, about.
TRANSCENDENTAL = 20
_ROUNDS_TOGETHER = 4
# Blocks that run at once, one for each multiprocessor of a large card.
_AT_ONCE = 128
_WIDEST = 16  # bytes that a thread accesses at once


@dataclass(slots=True)
class Work:
    """One launch: what all its threads do together.

    Fields:
      blocks, threads: how many, and of how many threads each.
      read_bytes, written_bytes: of the arrays, each element once: what there is to move.
      requests, sectors: accesses by warps of global memory, and what these move.
      shared_requests, shared_passes: of shared memory; without conflicts there are as many passes
        as requests (of at most 4 bytes a thread).
      shared_bytes: of shared memory that a block has.
      barriers: that its blocks come to.
      waits: for threads of other blocks, one after another, of each block.
      phases: parts of it of which each waits for the one before.
      in_flight: bytes of global memory that a thread can ask for before it needs the first.
      arrays: of each in global memory, the bytes that there are to move, and those of the sectors
        that accesses move.
      operations: of single threads, by element type; matrix_operations: of tiles;
        group_operations: of groups of 128 threads (a multiplication and an addition are two).
    """

    blocks: int
    threads: int
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    requests: float = 0.0
    sectors: float = 0.0
    shared_requests: float = 0.0
    shared_passes: float = 0.0
    shared_bytes: int = 0
    in_flight: float = 0.0
    barriers: float = 0.0
    phases: float = 1.0
    waits: int = 0
    arrays: list[tuple[float, float]] = field(default_factory=list)
    operations: dict[str, float] = field(default_factory=dict)
    matrix_operations: dict[str, float] = field(default_factory=dict)
    group_operations: dict[str, float] = field(default_factory=dict)

    @property
    def bytes(self) -> float:
        """What there is to move at the least."""
        return self.read_bytes + self.written_bytes

    def memory_bytes(self, cache_bytes: int) -> float:
        """What a memory has to move behind a cache of so many bytes: arrays that stay in half of it
        once, others as often as they are asked for."""
        return sum(
            needed if needed <= cache_bytes / 2 else max(needed, moved)
            for needed, moved in self.arrays
        )

    def add(self, other: Work, times: float) -> None:
        """Let the same blocks do the work of another launch, too, so many times; what lies between
        is memory that they need not move far."""
        self.phases += times * other.phases
        self.requests += times * other.requests
        self.sectors += times * other.sectors
        self.shared_requests += times * other.shared_requests
        self.shared_passes += times * other.shared_passes
        self.barriers += times * (other.barriers + 1)
        self.shared_bytes = max(self.shared_bytes, other.shared_bytes)
        self.in_flight = max(self.in_flight, other.in_flight)
        self.read_bytes = max(self.read_bytes, other.read_bytes)
        self.written_bytes = max(self.written_bytes, other.written_bytes)
        for mine, theirs in (
            (self.operations, other.operations),
            (self.matrix_operations, other.matrix_operations),
            (self.group_operations, other.group_operations),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0.0) + times * count

    @property
    def flops(self) -> float:
        all_ = self.operations, self.matrix_operations, self.group_operations
        return sum(count for kind in all_ for count in kind.values())


def kernel_work(kernel: Kernel) -> list[Work]:
    """The work of each launch of a kernel that is scheduled for a GPU."""
    return [
        _Counter(stage).count()
        for stage in kernel.stages
        if isinstance(stage, Loop) and stage.kind is LoopKind.GRID
    ]


@dataclass(slots=True)
class _Place:
    """Where a statement stands: loops around it, and conditions that say who comes there."""

    rounds: float  # of serial loops, all blocks together
    conditions: tuple[tuple[Index, int, int], ...] = ()
    lanes: Loop | None = None
    innermost: Loop | None = None
    copies: int = 1  # of unrolled loops inside the innermost one


class _Counter:
    def __init__(self, stage: Loop) -> None:
        self._stage = stage
        threads = next((s for s in stage.body if isinstance(s, Loop)), None)
        self._threads = threads
        self._work = Work(stage.var.extent, threads.var.extent if threads else 1)
        self._made: dict[Value, Statement] = {}  # what values come from
        self._ranges: dict[Value, tuple[Index, int, int]] = {}  # of values that tell one
        self._read: dict[Buffer, float] = {}
        self._written: dict[Buffer, float] = {}
        self._moved: dict[Buffer, float] = {}
        self._asked: dict[Loop | None, float] = {}  # bytes a thread reads in a round of a loop
        self._shared: set[Buffer] = set()
        self._fresh = 1.0  # of what a statement reads, the part that no other block reads, too
        waits = [s.pending for s in walk(stage.body) if isinstance(s, AsyncWait)]
        self._rounds_ahead = 1 + max(waits, default=0)

    def count(self) -> Work:
        work = self._work
        self._block(self._stage.body, _Place(float(work.blocks)))
        work.read_bytes = _at_most_once(self._read)
        work.written_bytes = _at_most_once(self._written)
        work.arrays = [
            (
                _at_most_once({b: self._read.get(b, 0.0)})
                + _at_most_once({b: self._written.get(b, 0.0)}),
                moved,
            )
            for b, moved in self._moved.items()
        ]
        work.shared_bytes = sum(b.size * b.element_type.byte_size for b in self._shared)
        work.in_flight = max(self._asked.values(), default=0.0)
        return work

    # -- statements --------------------------------------------------------------------------------

    def _block(self, statements: Sequence[Statement], place: _Place) -> None:
        for s in statements:
            if isinstance(s, Loop):
                self._loop(s, place)
            elif isinstance(s, If):
                inside = (*place.conditions, (s.index, s.low, s.high))
                self._block(s.body, replace(place, conditions=inside))
            else:
                self._statement(s, place)

    def _loop(self, s: Loop, place: _Place) -> None:
        limits = tuple((Index.of(s.var) - limit, -(1 << 62), 0) for limit in s.limits)
        place = replace(place, conditions=(*place.conditions, *limits))
        if s.kind is LoopKind.THREAD:
            self._block(s.body, place)
        elif s.kind is LoopKind.LANES:
            self._block(s.body, replace(place, lanes=s))
        elif s.kind is LoopKind.UNROLLED:
            extent = s.var.extent
            unrolled = replace(place, rounds=place.rounds * extent, copies=place.copies * extent)
            self._block(s.body, unrolled)
        else:
            rounds = place.rounds * s.var.extent
            copies = 1 if any(isinstance(x, Barrier) for x in walk(s.body)) else _unrolled(s)
            self._block(s.body, replace(place, rounds=rounds, innermost=s, copies=copies))

    def _statement(self, s: Statement, place: _Place) -> None:
        if isinstance(s, Constant | IndexValue | InRange | Load | Compute):
            self._made[s.result] = s
        if isinstance(s, InRange):
            self._ranges[s.result] = (s.index, s.low, s.high)
        elif isinstance(s, Load):
            self._fresh = self._fresh_part([s.index]) if s.buffer.role.is_global else 1.0
            self._access(s.buffer, s.index, place, s.guard, reads=True)
            self._fresh = 1.0
        elif isinstance(s, Store):
            for part in range(len(s.values)):
                self._access(s.buffer, s.index + part, place, s.guard, reads=False)
        elif isinstance(s, Move):
            self._access(s.buffer, s.index, place, None, reads=True)
            self._access(s.target, s.target_index, place, None, reads=False)
        elif isinstance(s, Atomic):
            self._access(s.buffer, s.index, place, s.guard, reads=False)
        elif isinstance(s, Barrier):
            self._work.barriers += place.rounds
        elif isinstance(s, HANDOVERS):
            self._handover(s, place)
        elif isinstance(s, MatrixTile):
            self._tile(s, place)
        elif isinstance(s, GroupProduct):
            self._group_product(s, place)
        elif isinstance(s, BoxCopy):
            self._box_copy(s, place)
        elif isinstance(s, AsyncCopy):
            self._async_copy(s, place)
        elif isinstance(s, MatrixLoad):
            self._matrix_load(s, place)
        elif isinstance(s, Compute):
            weight = TRANSCENDENTAL if s.opcode.is_transcendental else 1
            self._operation(str(s.operands[0].type), weight, place)
        elif isinstance(s, Shuffle):
            self._operation(str(s.value.type), 1, place)

    def _handover(self, s: Ticket | Signal | Await, place: _Place) -> None:
        if isinstance(s, Ticket):
            self._made[s.result] = IndexValue(s.result, Index.of(self._stage.var))
            self._work.barriers += place.rounds
            place = replace(place, conditions=(*place.conditions, *self._holds(s.taker)))
        guard = None if isinstance(s, Ticket) else s.guard
        self._access(s.buffer, s.index, place, guard, reads=isinstance(s, Await))
        self._work.waits += isinstance(s, Await)

    def _operation(self, element_type: str, weight: int, place: _Place) -> None:
        lanes = place.lanes.var.extent if place.lanes else 1
        times = place.rounds * lanes * weight * self._share(place)
        operations = self._work.operations
        operations[element_type] = operations.get(element_type, 0.0) + times

    def _tile(self, s: MatrixTile, place: _Place) -> None:
        warps = place.rounds * self._share(place) / WARP
        self._multiplied(self._work.matrix_operations, s.lhs[0].type, s.shape, warps)

    def _group_product(self, s: GroupProduct, place: _Place) -> None:
        rows, columns, depth = s.shape
        groups = place.rounds * self._share(place) / GROUP
        type = s.lhs.buffer.element_type
        self._multiplied(self._work.group_operations, type, s.shape, groups)
        self._by_lines((rows + columns) * depth * type.byte_size * groups)
        self._shared |= {s.lhs.buffer, s.rhs.buffer}

    def _multiplied(
        self, operations: dict[str, float], type: PrimitiveType, shape: Sequence[int], times: float
    ) -> None:
        name = {"f32": "tf32"}.get(str(type), str(type))
        operations[name] = operations.get(name, 0.0) + 2.0 * prod(shape) * times

    def _by_lines(self, nbytes: float) -> None:
        """Bytes of shared memory that are accessed by whole lines of all banks."""
        self._work.shared_requests += nbytes / LINE
        self._work.shared_passes += nbytes / LINE

    def _box_copy(self, s: BoxCopy, place: _Place) -> None:
        """Whole sectors of what is inside the array; all of the box in shared memory."""
        work, size = self._work, s.buffer.element_type.byte_size
        box = (*s.array.box, *[1] * (len(s.at) - 2))
        samples = list(self._samples(place))
        inside = 0.0
        for sample in samples:
            taking = sample.active(place)
            here = np.ones(sample.shape)
            for index, length, extent in zip(s.at, box, s.array.sizes):
                at = sample.value(index)
                here = here * np.clip(np.minimum(at + length, extent) - np.maximum(at, 0), 0, None)
            inside += float((here * taking).sum()) * place.rounds / len(samples)
        share = self._share(place)
        work.requests += place.rounds * share
        work.sectors += inside * size / SECTOR
        moved = inside * size * self._fresh_part(s.at)
        self._moved[s.buffer] = self._moved.get(s.buffer, 0.0) + moved
        self._read[s.buffer] = self._read.get(s.buffer, 0.0) + inside * size
        self._by_lines(prod(box) * size * place.rounds * share)
        self._shared |= {s.target, s.arrivals}
        # Slabs but for the one that is multiplied are on their way, as if all threads had asked.
        ahead = max(s.arrivals.size - 1, 1) * prod(box) * size / work.threads
        self._asked[place.innermost] = self._asked.get(place.innermost, 0.0) + ahead

    def _async_copy(self, s: AsyncCopy, place: _Place) -> None:
        element = Var("element", s.count, 1 << 20)
        wide = replace(place, lanes=Loop(element, kind=LoopKind.LANES))
        here = Index.of(element) if s.count > 1 else ZERO
        self._fresh = self._fresh_part([s.index])
        self._access(s.buffer, s.index + here, wide, s.guard, reads=True)
        self._fresh = 1.0
        self._access(s.target, s.target_index + here, wide, None, reads=False)

    def _fresh_part(self, indices: Sequence[Index]) -> float:
        """Of blocks that run at once, the part that reads at different indices: what several read
        at about the same time comes from memory once."""
        blocks = self._stage.var
        count = min(blocks.extent, _AT_ONCE)
        first = (blocks.extent - count) // 2
        sample = _Sample(0.5, None, None, self._made)
        sample.shape = (count, 1)
        sample.let(blocks, np.arange(first, first + count)[:, None])
        places = np.concatenate([sample.value(index) for index in indices], axis=1)
        return len(np.unique(places, axis=0)) / count

    def _matrix_load(self, s: MatrixLoad, place: _Place) -> None:
        """One access for each matrix, of eight whole rows."""
        assert self._threads is not None
        size = s.buffer.element_type.byte_size
        element = Var("element", _WIDEST // size, 1 << 20)
        lane = Index.of(self._threads.var) % WARP
        for n in range(len(s.results) * size // 4):
            rows = (*place.conditions, (lane, 8 * n, 8 * n + 8))
            wide = replace(place, conditions=rows, lanes=Loop(element, kind=LoopKind.LANES))
            self._access(s.buffer, s.index + Index.of(element), wide, None, reads=True)

    # -- who is where ------------------------------------------------------------------------------

    def _share(self, place: _Place) -> float:
        """Threads of a block that come to a place, on average."""
        if not place.conditions:
            return float(self._work.threads)
        found = [sample.active(place).sum() for sample in self._samples(place)]
        lanes = place.lanes.var.extent if place.lanes else 1
        return float(np.mean(found)) / lanes

    def _samples(self, place: _Place) -> Iterator[_Sample]:
        lanes = place.lanes.var if place.lanes else None
        threads = self._threads.var if self._threads else None
        for number in range(_SAMPLES):
            yield _Sample((number + 0.5) / _SAMPLES, threads, lanes, self._made)

    def _access(
        self, buffer: Buffer, index: Index, place: _Place, guard: Value | None, *, reads: bool
    ) -> None:
        if buffer.role in (BufferRole.LOCAL, BufferRole.REGISTERS):
            return
        if guard is not None:
            place = replace(place, conditions=(*place.conditions, *self._holds(guard)))
        width = buffer.element_type.byte_size
        samples = list(self._samples(place))
        for sample in samples:
            addresses = sample.value(index) * width
            addresses, active, wide = _vectors(addresses, sample.active(place), width)
            times = place.rounds / len(samples)
            for lane in range(addresses.shape[1]):
                self._request(buffer, addresses[:, lane], active[:, lane], wide, times)
            moved = float(active.sum()) * wide * times
            side = self._read if reads else self._written
            if buffer.role.is_global:
                side[buffer] = side.get(buffer, 0.0) + moved
            else:
                self._shared.add(buffer)
        if reads and buffer.role.is_global:
            lanes = place.lanes.var.extent if place.lanes else 1
            asked = self._asked
            here = asked.get(place.innermost, 0.0)
            asked[place.innermost] = here + width * lanes * place.copies * self._rounds_ahead

    def _holds(self, guard: Value) -> tuple[tuple[Index, int, int], ...]:
        """The ranges that a guard says an index to be in, as far as it is made of such."""
        made = self._made.get(guard)
        if isinstance(made, Compute) and made.opcode is Opcode.AND:
            return tuple(x for operand in made.operands for x in self._holds(operand))
        return (self._ranges[guard],) if guard in self._ranges else ()

    def _request(
        self, buffer: Buffer, addresses: np.ndarray, active: np.ndarray, width: int, times: float
    ) -> None:
        work = self._work
        if buffer.role.is_global:
            work.requests += times * requests(active)
            touched = times * sectors(addresses, active)
            work.sectors += touched
            moved = SECTOR * touched * self._fresh
            self._moved[buffer] = self._moved.get(buffer, 0.0) + moved
        else:
            work.shared_requests += times * requests(active)
            work.shared_passes += times * bank_passes(addresses, width, active)


class _Sample:
    """One block in one round of the loops around: values of indices for its threads and lanes."""

    def __init__(
        self, part: float, threads: Var | None, lanes: Var | None, made: dict[Value, Statement]
    ) -> None:
        self._part = part
        self._made = made
        self._known: dict[Value, np.ndarray] = {}
        self._numbers: dict[Value, np.ndarray | None] = {}
        self._lockstep: dict[object, np.ndarray] = {}
        self.shape = (threads.extent if threads else 1, lanes.extent if lanes else 1)
        if threads is not None:
            self._lockstep[threads] = np.arange(threads.extent)[:, None]
        if lanes is not None:
            self._lockstep[lanes] = np.arange(lanes.extent)[None, :]

    def let(self, variable: Var, values: np.ndarray) -> None:
        """A variable has these values."""
        self._lockstep[variable] = values

    def value(self, index: Index) -> np.ndarray:
        """[threads, lanes]"""
        total = np.full(self.shape, index.constant, np.int64)
        for atom, coefficient in index.terms.items():
            total = total + coefficient * self._atom(atom)
        return total

    def _atom(self, atom: object) -> np.ndarray | int:
        if isinstance(atom, FloorDiv):
            return self.value(atom.index) // atom.divisor
        if isinstance(atom, Mod):
            return self.value(atom.index) % atom.divisor
        if isinstance(atom, Parameter):
            return atom.bounds[1]
        if isinstance(atom, Var):
            return self._lockstep.get(atom, int(atom.extent * self._place_of(atom)))
        assert isinstance(atom, Value)
        number = self._number(atom)
        if number is not None:
            return number
        low, high = atom.bounds or (0, 0)
        # Anywhere, but the same wherever the same is read.
        return low + (self._bits(atom) % np.uint64(high - low + 1)).astype(np.int64)

    def _number(self, value: Value) -> np.ndarray | None:
        """What an integer is that is computed from constants and places alone."""
        if value not in self._numbers:
            made, found = self._made.get(value), None
            if isinstance(made, IndexValue):
                found = self.value(made.index)
            elif isinstance(made, Constant) and not value.type.is_floating:
                found = np.full(self.shape, int(made.value), np.int64)
            elif isinstance(made, InRange):
                at = self.value(made.index)
                found = ((made.low <= at) & (at < made.high)).astype(np.int64)
            elif isinstance(made, Compute) and made.opcode in _INTEGER and _is_whole(value):
                operands = [self._number(operand) for operand in made.operands]
                known = [o for o in operands if o is not None]
                if len(known) == len(operands):
                    found = _INTEGER[made.opcode](*known)
            self._numbers[value] = found
        return self._numbers[value]

    def _place_of(self, variable: Var) -> float:
        """Where in its range a variable is: those of nested loops independently of each other."""
        return (self._part + variable.depth * _SECTION * (1 + self._part)) % 1.0

    def _bits(self, value: Value) -> np.ndarray:
        """Numbers that are equal for threads which compute the same."""
        found = self._known.get(value)
        if found is None:
            made = self._made.get(value)
            if isinstance(made, IndexValue):
                found = _mixed(self.value(made.index), 0)
            elif isinstance(made, Load):
                found = _mixed(self.value(made.index), zlib.crc32(made.buffer.name.encode()))
            elif isinstance(made, Compute):
                found = np.full(self.shape, zlib.crc32(made.opcode.value.encode()), np.uint64)
                for operand in made.operands:
                    found = _mixed(found ^ self._bits(operand), 1)
            else:
                found = np.full(self.shape, value.number, np.uint64)
            self._known[value] = found
        return found

    def active(self, place: _Place) -> np.ndarray:
        """Which threads and lanes come there."""
        here = np.ones(self.shape, bool)
        for index, low, high in place.conditions:
            at = self.value(index)
            here &= (low <= at) & (at < high)
        return here


# Integer arithmetic that addresses are computed with.
_INTEGER: dict[Opcode, Callable[..., np.ndarray]] = {
    Opcode.ADD: np.add,
    Opcode.AND: np.bitwise_and,
    Opcode.CONVERT: np.array,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.MULTIPLY: np.multiply,
    Opcode.OR: np.bitwise_or,
    Opcode.SELECT: np.where,
    Opcode.SHIFT_LEFT: np.left_shift,
    Opcode.SHIFT_RIGHT_ARITHMETIC: np.right_shift,
    Opcode.SHIFT_RIGHT_LOGICAL: np.right_shift,
    Opcode.SUBTRACT: np.subtract,
    Opcode.XOR: np.bitwise_xor,
}
_WORD = (1 << 64) - 1


def _is_whole(value: Value) -> bool:
    return value.type.is_integral and value.type.bits >= 32


def _mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers without a pattern, of which equal ones stay equal (SplitMix64)."""
    z = numbers.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 & _WORD)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _vectors(
    addresses: np.ndarray, active: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Accesses as threads make them: neighbouring lanes together where they are one vector of at
    most 16 bytes."""
    lanes = addresses.shape[1]
    if lanes > 1 and (addresses == addresses[:, :1]).all():  # the same for all lanes
        return addresses[:, :1], np.asarray(active.any(axis=1, keepdims=True)), width
    together = min(lanes, _WIDEST // width)
    if lanes == 1 or together < 2 or lanes % together:
        return addresses, active, width
    steps = np.diff(addresses, axis=1)
    if (steps[active[:, 1:] & active[:, :-1]] != width).any():
        return addresses, active, width
    return addresses[:, ::together], active[:, ::together], width * together


def _unrolled(loop: Loop) -> int:
    """Rounds of a serial loop whose loads are on their way together: ptxas unrolls four times."""
    return min(_ROUNDS_TOGETHER, loop.var.extent)


def _at_most_once(accessed: dict[Buffer, float]) -> float:
    """Bytes accessed, each element of a buffer once."""
    return sum(min(n, float(b.size * b.element_type.byte_size)) for b, n in accessed.items())
