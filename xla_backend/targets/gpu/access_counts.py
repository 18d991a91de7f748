"""Accesses of threads at addresses that are known: `kernels.warp_accesses` says what they cost."""

from __future__ import annotations

import numpy as np

from xla_backend.kernels.warp_accesses import SECTOR, WORD, distinct, threads_at_once, ways
from xla_backend.targets.gpu.architectures import WARP


def sectors(addresses: np.ndarray, active: np.ndarray) -> int:
    """Sectors that one access of each warp touches.

    Args:
      addresses: [threads], bytes where each begins; what a thread accesses at once is aligned, and
        so lies within a sector.
      active: [threads], which of them take part.
    """
    who = np.flatnonzero(active)
    return distinct(who // WARP, addresses[who] // SECTOR).size


def bank_passes(addresses: np.ndarray, width: int, active: np.ndarray) -> int:
    """How often shared memory is gone through for one access of each warp.

    Args:
      addresses: [threads], bytes where each begins.  width: bytes per thread, at most 16.
      active: [threads], which of them take part.
    """
    who = np.flatnonzero(active)
    if not who.size:
        return 0
    count = -(-width // WORD)
    words = (addresses[who, None] // WORD + np.arange(count)).reshape(-1)
    groups = (who // threads_at_once(width)).repeat(count)
    found, word = np.divmod(distinct(groups, words), int(words.max()) + 1)
    return int(ways(found, word).sum())


def requests(active: np.ndarray) -> int:
    """Warps of which at least one thread takes part."""
    return np.unique(np.flatnonzero(active) // WARP).size
