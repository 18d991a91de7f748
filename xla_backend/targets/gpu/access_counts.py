"""What accesses of a warp cost: sectors of global memory, passes through the banks of shared
memory.

The memory of a GPU moves sectors of 32 bytes, whoever in a warp asks for them. Shared memory has 32
banks of 4 bytes: different words of one bank are read one after another; wider accesses go through
it by as many threads at a time as ask for 128 bytes.
"""

from __future__ import annotations

import numpy as np

from xla_backend.targets.gpu.architectures import WARP

SECTOR = 32
_BANKS = 32
_WORD = 4


def sectors(addresses: np.ndarray, active: np.ndarray) -> int:
    """Sectors that one access of each warp touches.

    Args:
      addresses: [threads], bytes where each begins; what a thread accesses at once is aligned, and
        so lies within a sector.
      active: [threads], which of them take part.
    """
    numbers = np.where(active, addresses // SECTOR, -1)
    return int(_distinct(_by_warp(numbers[:, None])).sum())


def bank_passes(addresses: np.ndarray, width: int, active: np.ndarray) -> int:
    """How often shared memory is gone through for one access of each warp.

    Args:
      addresses: [threads], bytes where each begins.  width: bytes per thread, at most 16.
      active: [threads], which of them take part.
    """
    words = -(-width // _WORD)
    parts = addresses[:, None] // _WORD + np.arange(words)
    numbers = _by_warp(np.where(active[:, None], parts, -1))
    total = 0
    for group in numbers.reshape(-1, _BANKS):
        used = np.unique(group[group >= 0])
        if used.size:
            total += int(np.bincount(used % _BANKS).max())
    return total


def requests(active: np.ndarray) -> int:
    """Warps of which at least one thread takes part."""
    return int(_by_warp(active[:, None]).any(axis=1).sum())


def _by_warp(values: np.ndarray) -> np.ndarray:
    """[warps, threads of a warp * parts]; what is missing of the last warp takes no part (-1, or
    false)."""
    missing = -len(values) % WARP
    nobody = np.full((missing, values.shape[1]), False if values.dtype == bool else -1)
    whole = np.concatenate([values, nobody.astype(values.dtype)]) if missing else values
    return whole.reshape(-1, WARP * values.shape[1])


def _distinct(rows: np.ndarray) -> np.ndarray:
    """How many different numbers >= 0 each row has."""
    ordered = np.sort(rows, axis=1)
    new = ordered[:, 1:] != ordered[:, :-1]
    return (ordered[:, 0] >= 0).astype(int) + (new & (ordered[:, 1:] >= 0)).sum(axis=1)
