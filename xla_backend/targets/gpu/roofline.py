"""What a launch takes on a card, estimated: a model, nothing measured.

A launch moves bytes through the memory, the caches and shared memory, and computes; what of these
takes longest is what it takes, if there are enough threads to keep it busy. The roofline is what
the bytes and operations that there are no ways around would take at the card's full rates.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.kernels.warp_accesses import SECTOR
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.targets.gpu.architectures import ARCHITECTURES, WARP
from xla_backend.targets.gpu.cards import Card
from xla_backend.targets.gpu.occupancy import Occupancy, occupancy
from xla_backend.targets.gpu.work import Work

# Seconds until what a thread asks the memory for is there, under load; and the second-level cache,
# which gives each multiprocessor so many bytes per clock (5120 for 108 of them, says the A100's
# white paper).
_LATENCY = 800e-9
_CACHE_LATENCY = 300e-9
_CACHE_BYTES_PER_CLOCK = 48
# Seconds that a block waits for others which have got as far as it: one writes a value and then a
# signal, and the other reads the signal and then the value, each through the second-level cache.
_HANDOVER = 4 * _CACHE_LATENCY
# Seconds of a barrier of all blocks: each counts itself, and reads what the last one wrote, through
# the second-level cache, one after the other at its unit of atomics.
_GRID_BARRIER = 1.5e-6


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a launch takes on a card.

    Fields:
      seconds: as modelled; roofline_seconds: at the card's full rates.
      bound: what takes longest: "memory", "cache", "shared memory", "arithmetic",
        "latency", and of a grid of blocks "barriers".
      occupancy: of its multiprocessors.
    """

    seconds: float
    roofline_seconds: float
    bound: str
    occupancy: Occupancy

    @property
    def fraction(self) -> float:
        """Of the roofline that it reaches."""
        return self.roofline_seconds / self.seconds if self.seconds else 1.0


def estimate(work: Work, card: Card, registers: int) -> Estimate:
    """What one launch takes on a card whose threads have so many registers.

    Raises:
      ValueError: a block of it cannot be launched there.
    """
    resident = occupancy(
        ARCHITECTURES[card.architecture], work.threads, registers, work.shared_bytes
    )
    clock = card.multiprocessors * card.clock * 1e9
    moved = work.sectors * SECTOR
    from_memory = max(work.bytes, work.memory_bytes(card.l2_bytes))
    seconds = {
        "memory": from_memory / (card.bandwidth * _busy(work, card, resident)),
        "cache": moved / (_CACHE_BYTES_PER_CLOCK * clock),
        "shared memory": work.shared_passes / clock,
        "arithmetic": _arithmetic(work, card, instructions=True),
    }
    bound = max(seconds, key=lambda what: seconds[what])
    roofline = max(work.bytes / card.bandwidth, _arithmetic(work, card, instructions=False))
    return Estimate(seconds[bound] / _whole_waves(work, card, resident), roofline, bound, resident)


def estimate_block(work: Work, card: Card, registers: int) -> Estimate:
    """What steps take that one block runs, one after another: each waits for the caches.

    Raises:
      ValueError: the block cannot be launched there.
    """
    architecture = ARCHITECTURES[card.architecture]
    resident = occupancy(architecture, work.threads, registers, work.shared_bytes)
    seconds = {
        "latency": work.phases * _CACHE_LATENCY,
        "cache": work.sectors * SECTOR / (_CACHE_BYTES_PER_CLOCK * card.clock * 1e9),
        "arithmetic": card.multiprocessors * _arithmetic(work, card, instructions=True),
    }
    bound = max(seconds, key=lambda what: seconds[what])
    roofline = max(work.bytes / card.bandwidth, _arithmetic(work, card, instructions=False))
    return Estimate(sum(seconds.values()), roofline, bound, resident)


def estimate_grid(
    work: Work, parts: Sequence[tuple[Work, float]], card: Card, registers: int
) -> Estimate:
    """What steps take that blocks run together, `work` in all: each of the parts, so many times, as
    if it were a launch, with a barrier behind it.

    Raises:
      ValueError: a block cannot be launched there.
    """
    architecture = ARCHITECTURES[card.architecture]
    resident = occupancy(architecture, work.threads, registers, work.shared_bytes)
    barriers = sum(times for _, times in parts) * _GRID_BARRIER
    moving = sum(times * estimate(part, card, registers).seconds for part, times in parts)
    bound = "barriers" if barriers > moving else "memory"
    roofline = max(work.bytes / card.bandwidth, _arithmetic(work, card, instructions=False))
    return Estimate(barriers + moving, roofline, bound, resident)


def _arithmetic(work: Work, card: Card, *, instructions: bool) -> float:
    """Seconds of its operations; `instructions`: where each takes one, none is half of a
    multiply-add, and tiles of one warp are multiplied as fast as that goes."""
    single = sum(n / card.vector_rate(name) for name, n in work.operations.items())
    tiles = sum(n / card.tensor_rate(name) for name, n in work.matrix_operations.items())
    groups = sum(n / card.tensor_rate(name) for name, n in work.group_operations.items())
    if instructions:
        single, tiles = 2 * single, tiles / card.tile_share
    return single + tiles + groups


def _busy(work: Work, card: Card, resident: Occupancy) -> float:
    """How much of the memory's bandwidth so many threads can ask for (Little's law)."""
    needed = card.bandwidth * (_LATENCY + work.waits * _HANDOVER)
    blocks = min(work.blocks, resident.blocks * card.multiprocessors)
    warps = blocks * -(-work.threads // WARP)
    asked = warps * WARP * max(work.in_flight, 4.0)
    return min(1.0, asked / needed)


def _whole_waves(work: Work, card: Card, resident: Occupancy) -> float:
    """How much of the time all multiprocessors have blocks: the last wave is seldom whole. A launch
    of less than one wave lacks threads, which `_busy` knows."""
    waves = work.blocks / (resident.blocks * card.multiprocessors)
    return 1.0 if waves <= 1 else waves / -(-waves // 1)
