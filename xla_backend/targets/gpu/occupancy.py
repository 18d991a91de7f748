"""How many blocks of a kernel a multiprocessor holds at a time: CUDA's published limits."""

from __future__ import annotations

from xla_backend.process.light_dataclasses import dataclass
from xla_backend.targets.gpu.architectures import WARP, Architecture

# Registers of a warp lie in one of the four parts of a multiprocessor, and come by 256.
_PARTS = 4
_REGISTER_UNIT = 256
_SHARED_UNIT = 128
# Each block has so many bytes of shared memory beside its own.
_RESERVED_SHARED = 1024
# Of a thread, on every architecture so far.
MOST_REGISTERS = 255


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps that are resident on a multiprocessor, and what keeps others out: "warps",
    "blocks", "registers" or "shared memory"."""

    blocks: int
    warps: int
    most_warps: int
    limited_by: str

    @property
    def fraction(self) -> float:
        """Resident warps of those that there could be."""
        return self.warps / self.most_warps

    def __str__(self) -> str:
        return f"{100 * self.fraction:.0f} % ({self.limited_by})"


def occupancy(
    architecture: Architecture, threads: int, registers: int, shared: int = 0
) -> Occupancy:
    """How many blocks of `threads` threads fit, with `registers` per thread and `shared` bytes of
    shared memory per block.

    Raises:
      ValueError: a block that no multiprocessor of the architecture can take.

    >>> from xla_backend.targets.gpu.architectures import ARCHITECTURES
    >>> str(occupancy(ARCHITECTURES["sm_80"], 256, 64))
    '50 % (registers)'
    """
    _check(architecture, threads, registers, shared)
    most_warps = architecture.threads_per_multiprocessor // WARP
    warps = -(-threads // WARP)
    registers_per_warp = _rounded(registers * WARP, _REGISTER_UNIT)
    with_registers = architecture.registers // _PARTS // registers_per_warp * _PARTS
    block_bytes = _rounded(shared + _RESERVED_SHARED, _SHARED_UNIT)
    counts = {
        "warps": most_warps // warps,
        "blocks": architecture.blocks_per_multiprocessor,
        "registers": with_registers // warps,
        "shared memory": architecture.shared_per_multiprocessor // block_bytes,
    }
    limited_by = min(counts, key=lambda what: counts[what])  # the first of equals
    blocks = counts[limited_by]
    return Occupancy(blocks, blocks * warps, most_warps, limited_by)


def _rounded(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _check(architecture: Architecture, threads: int, registers: int, shared: int) -> None:
    if threads < 1 or registers < 1:
        raise ValueError(f"a block has no {threads} threads of {registers} registers")
    warps = _rounded(threads, WARP * _PARTS) // WARP
    wanted = {
        "threads": (threads, architecture.threads_per_block),
        "registers a thread": (registers, MOST_REGISTERS),
        "registers": (_rounded(registers * WARP, _REGISTER_UNIT) * warps, architecture.registers),
        "bytes of shared memory": (shared, architecture.shared_per_block),
    }
    for what, (asked, most) in wanted.items():
        if asked > most:
            raise ValueError(
                f"a block of {threads} threads asks for {asked:,} {what}; {architecture.name} has "
                f"{most:,}"
            )
