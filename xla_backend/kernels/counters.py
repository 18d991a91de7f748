"""What a kernel asks of a GPU, counted while the interpreter runs it.

    counted = KernelCounters("k")
    Interpreter(kernel, operands, counters=counted).run()
    counted.reads["p0"].efficiency      # of the sectors fetched, the part that was asked for
    counted.passes_per_access           # of shared memory; 1.0: no two threads meet in a bank
    counted.flops, counted.global_bytes, counted.instructions / counted.threads

All that a GPU does, it does by the warp, 32 neighbouring threads of a block, and so it is counted:
one statement that threads of a warp execute together is one request. A lanes loop is a vector
access, one request of as many bytes. Global memory is fetched by sectors of 32 bytes, of which four
are a line; an array is taken to begin at one. Shared memory has 32 banks of 4 bytes: threads that
want different words of one bank wait for each other, in as many passes as there are words; accesses
of 8 and 16 bytes are made by half and quarter warps.

Address arithmetic is part of accesses, and loops and conditions are free: instructions are
statements, and fewer than what a compiler makes of them. Local memory is not counted, as it is
meant to be registers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeGuard

import numpy as np

from xla_backend.kernels.ir import (
    Atomic,
    Barrier,
    Buffer,
    BufferRole,
    Compute,
    Constant,
    GroupProduct,
    Loop,
    LoopKind,
    MatrixTile,
    Shuffle,
    Statement,
    walk,
)
from xla_backend.kernels.matrix_tiles import GROUP, WARP
from xla_backend.kernels.races import THREAD_BITS, Axis, KernelRunError
from xla_backend.kernels.warp_accesses import (
    BANKS,
    LINE,
    SECTOR,
    WORD,
    distinct,
    threads_at_once,
    ways,
)
from xla_backend.process.light_dataclasses import dataclass, field


class BankConflictError(KernelRunError):
    """More threads of a warp meet in a bank of shared memory than one allows."""


@dataclass(slots=True)
class Traffic:
    """Accesses of warps to a buffer in global memory.

    Fields:
      requests: one for each statement that a warp executes.   bytes: that threads asked for.
      sectors, lines: that each request touches, all together.
      touched: bytes of sectors that a launch touches at all, all launches together: what DRAM
      moves if the cache keeps the rest.
    """

    requests: int = 0
    bytes: int = 0
    sectors: int = 0
    lines: int = 0
    touched: int = 0

    @property
    def efficiency(self) -> float:
        """The part of the bytes fetched that was asked for; above 1 where threads share them."""
        return self.bytes / (self.sectors * SECTOR) if self.sectors else 1.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.requests + other.requests,
            self.bytes + other.bytes,
            self.sectors + other.sectors,
            self.lines + other.lines,
            self.touched + other.touched,
        )


@dataclass(slots=True)
class SharedTraffic:
    """Accesses of warps to a buffer in shared memory.

    Fields:
      requests: one for each statement that a warp executes.   bytes: that threads asked for.
      least: passes that they would take without conflicts.   passes: those that they take.
      ways: the most words of one bank that a pass would have to fetch.
    """

    requests: int = 0
    bytes: int = 0
    least: int = 0
    passes: int = 0
    ways: int = 0

    def __add__(self, other: SharedTraffic) -> SharedTraffic:
        return SharedTraffic(
            self.requests + other.requests,
            self.bytes + other.bytes,
            self.least + other.least,
            self.passes + other.passes,
            max(self.ways, other.ways),
        )


@dataclass
class KernelCounters:
    """Counts of all runs of a kernel.

    Fields:
      most_ways: bank conflicts of more words are an error; None: they are counted only.
      launches: of stages.   blocks, threads: of all launches.
      reads, writes, updates: of global memory, by the name of the buffer; updates are atomic.
      shared_reads, shared_writes, shared_updates: of shared memory.
      shared_size: bytes of shared memory that a block has.
      barriers: that blocks come to.   shuffles, matrix_tiles: of warps.
      flops: floating-point operations of threads; in matrix tiles: tile_flops.
      transcendentals: exp, log, sqrt ..., which are counted apart.
      integer_operations: all other arithmetic.
      instructions: statements that threads execute.   warp_instructions: that warps execute.
    """

    name: str
    most_ways: int | None = None
    launches: int = 0
    blocks: int = 0
    threads: int = 0
    reads: dict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    writes: dict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    updates: dict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    shared_reads: dict[str, SharedTraffic] = field(
        default_factory=lambda: defaultdict(SharedTraffic)
    )
    shared_writes: dict[str, SharedTraffic] = field(
        default_factory=lambda: defaultdict(SharedTraffic)
    )
    shared_updates: dict[str, SharedTraffic] = field(
        default_factory=lambda: defaultdict(SharedTraffic)
    )
    shared_size: int = 0
    barriers: int = 0
    shuffles: int = 0
    matrix_tiles: int = 0
    flops: int = 0
    tile_flops: int = 0
    transcendentals: int = 0
    integer_operations: int = 0
    instructions: int = 0
    warp_instructions: int = 0
    _touched: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)  # sectors

    # -- sums --------------------------------------------------------------------------------------

    @property
    def global_traffic(self) -> Traffic:
        """Of all buffers; an update is a read and a write."""
        return sum(
            (t for kind in (self.reads, self.writes, self.updates) for t in kind.values()),
            Traffic(),
        )

    @property
    def global_bytes(self) -> int:
        """What DRAM has to move at least: each sector once in each direction."""
        once = sum(t.touched for kind in (self.reads, self.writes) for t in kind.values())
        return once + 2 * sum(t.touched for t in self.updates.values())

    @property
    def shared_traffic(self) -> SharedTraffic:
        kinds = (self.shared_reads, self.shared_writes, self.shared_updates)
        return sum((t for kind in kinds for t in kind.values()), SharedTraffic())

    @property
    def passes_per_access(self) -> float:
        """Passes that shared memory takes, for each that it would take without conflicts."""
        total = self.shared_traffic
        return total.passes / total.least if total.least else 1.0

    @property
    def instructions_per_thread(self) -> float:
        return self.instructions / self.threads if self.threads else 0.0

    @property
    def busy(self) -> float:
        """The part of the threads of executing warps that takes part."""
        slots = self.warp_instructions * WARP
        return self.instructions / slots if slots else 1.0

    # -- counting ----------------------------------------------------------------------------------

    def begin_launch(self, buffers: Iterable[Buffer]) -> None:
        """A kernel begins, or a stage of it: nothing has been touched."""
        self._touched.clear()
        sizes = [b.size * b.element_type.byte_size for b in buffers if b.role is BufferRole.SHARED]
        self.shared_size = sum(sizes)

    def grid(self, loop: Loop) -> None:
        """Blocks are launched."""
        threads = [s.var.extent for s in walk(loop.body) if _is_threads(s)]
        self.launches += 1
        self.blocks += loop.var.extent
        self.threads += loop.var.extent * max(threads, default=1)

    def statement(self, s: Statement, axes: Sequence[Axis], active: np.ndarray | None) -> None:
        """A statement is executed by the active ones of all threads and lanes (None: by all)."""
        if isinstance(s, Constant):
            return
        extents = tuple(axis.extent for axis in axes)
        lanes = prod(axis.extent for axis in axes if axis.kind is LoopKind.LANES)
        blocks = extents[0] if axes and axes[0].kind is LoopKind.GRID else 1
        count = prod(extents)
        threads = count // lanes // blocks  # of a block
        if active is None:
            operations, workers, warps = count, count // lanes, blocks * -(-threads // WARP)
            arrived = blocks
        else:
            taking = np.broadcast_to(active, extents).reshape(blocks, threads, lanes)
            operations = int(np.count_nonzero(taking))
            at_work = np.asarray(taking.any(axis=2))
            workers = int(np.count_nonzero(at_work))
            starts = np.arange(0, threads, WARP)
            warps = int(np.count_nonzero(np.logical_or.reduceat(at_work, starts, axis=1)))
            arrived = int(np.count_nonzero(at_work.any(axis=1)))
        self.instructions += operations if isinstance(s, Compute) else workers
        self.warp_instructions += warps * lanes if isinstance(s, Compute) else warps
        if isinstance(s, Barrier):
            self.barriers += arrived
        elif isinstance(s, Shuffle):
            self.shuffles += warps
        elif isinstance(s, MatrixTile):
            self.matrix_tiles += warps
            self.tile_flops += 2 * prod(s.shape) * warps
        elif isinstance(s, GroupProduct):
            self.tile_flops += 2 * prod(s.shape) * (warps * WARP // GROUP)
        elif isinstance(s, Compute | Atomic):
            self._operations(s, operations)

    def _operations(self, s: Compute | Atomic, count: int) -> None:
        values = (s.value,) if isinstance(s, Atomic) else (s.result, *s.operands)
        if s.opcode.is_transcendental:
            self.transcendentals += count
        elif any(v.type.is_floating for v in values):
            self.flops += count
        else:
            self.integer_operations += count

    def access(self, buffer: Buffer, how: str, element: np.ndarray, who: np.ndarray) -> None:
        """Threads (by block and number in it: see `races`) access elements of a buffer by one
        statement; `how`: "read", "written" or "updated".

        Raises:
          BankConflictError: more threads of a warp than `most_ways` want words of one bank.
        """
        if not element.size or buffer.role in (BufferRole.LOCAL, BufferRole.REGISTERS):
            return
        if buffer.role is BufferRole.SHARED:
            self._shared_access(buffer, how, element, who)
        else:
            self._global_access(buffer, how, element, who)

    def _global_access(
        self, buffer: Buffer, how: str, element: np.ndarray, who: np.ndarray
    ) -> None:
        traffic = {"read": self.reads, "written": self.writes, "updated": self.updates}[how]
        size = buffer.element_type.byte_size
        warp = np.unique(who // WARP, return_inverse=True)[1]
        sector = element * size // SECTOR
        last = int(sector.max())
        touched = self._touched.get((how, buffer.name), _NOTHING)
        if last >= touched.size:
            touched = np.concatenate([touched, np.zeros(last + 1 - touched.size, bool)])
            self._touched[how, buffer.name] = touched
        before = np.count_nonzero(touched)
        touched[sector] = True
        each = distinct(warp, sector)
        whose, which = np.divmod(each, last + 1)
        lines = distinct(whose, which * SECTOR // LINE)
        traffic[buffer.name] += Traffic(
            int(warp.max()) + 1,
            element.size * size,
            each.size,
            lines.size,
            SECTOR * int(np.count_nonzero(touched) - before),
        )

    def _shared_access(
        self, buffer: Buffer, how: str, element: np.ndarray, who: np.ndarray
    ) -> None:
        kinds = {"read": self.shared_reads, "written": self.shared_writes}
        traffic = kinds.get(how, self.shared_updates)
        size = buffer.element_type.byte_size
        threads, held = np.unique(who, return_counts=True)
        together = threads_at_once(size * int(held.max()))
        group = np.unique(who // together, return_inverse=True)[1]
        words = -(-size // WORD)
        word = ((element * size // WORD)[:, None] + np.arange(words)).reshape(-1)
        place = group.repeat(words) * (buffer.size * words) + word
        if how != "updated":  # those who read or write one word do so in one pass
            place = np.unique(place)
        group_of, word = np.divmod(place, buffer.size * words)
        taken = ways(group_of, word)
        most = int(taken.max())
        if self.most_ways is not None and most > self.most_ways:
            worst = int(np.argmax(taken))
            mine = np.flatnonzero(group == worst)
            block, first = divmod(int(who[mine].min()), 1 << THREAD_BITS)
            last = int(who[mine].max()) % (1 << THREAD_BITS)
            some = ", ".join(map(str, element[mine[:4]]))
            raise BankConflictError(
                f"kernel {self.name!r}: threads {first} to {last} of block {block} have buffer "
                f"{buffer.name} {how} at {most} different words of one bank (elements {some}, "
                f"...), and {self.most_ways} are allowed: pad its rows, or permute its elements"
            )
        traffic[buffer.name] += SharedTraffic(
            np.unique(threads // WARP).size,
            element.size * size,
            int(np.sum(-(-np.bincount(group_of) // BANKS))),
            int(taken.sum()),
            most,
        )


_NOTHING = np.zeros(0, bool)


def _is_threads(s: Statement) -> TypeGuard[Loop]:
    return isinstance(s, Loop) and s.kind is LoopKind.THREAD


def table(counted: Iterable[KernelCounters]) -> str:
    """Counts of kernels as text, a line for each."""
    rows = [
        "kernel launches blocks threads/block DRAM-bytes efficiency shared-passes flops tile-flops "
        "instructions/thread busy".split()
    ]
    for k in counted:
        rows.append(
            [
                k.name,
                str(k.launches),
                str(k.blocks),
                str(k.threads // max(k.blocks, 1)),
                str(k.global_bytes),
                f"{k.global_traffic.efficiency:.2f}",
                f"{k.passes_per_access:.2f}",
                str(k.flops),
                str(k.tile_flops),
                f"{k.instructions_per_thread:.1f}",
                f"{k.busy:.2f}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
