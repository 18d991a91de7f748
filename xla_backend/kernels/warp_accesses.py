"""What accesses of a warp cost a GPU: sectors of global memory, passes through the banks of shared
memory.

The memory of a GPU moves sectors of 32 bytes, whoever in a warp asks for them; four are a line.
Shared memory has 32 banks of 4 bytes: different words of one bank are read one after another; wider
accesses go through it by as many threads at a time as ask for 128 bytes.
"""

from __future__ import annotations

import numpy as np

from xla_backend.kernels.matrix_tiles import WARP

SECTOR = 32  # bytes
LINE = 128
BANKS = 32
WORD = 4  # bytes


def distinct(groups: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The pairs of a group and a number >= 0 of it, each once, as group * (largest + 1) + number,
    in order."""
    if not numbers.size:
        return np.zeros(0, np.int64)
    return np.unique(groups * (int(numbers.max()) + 1) + numbers)


def threads_at_once(width: int) -> int:
    """How many threads of a warp go through shared memory together, if each asks for so many
    bytes."""
    return min(WARP, max(1, BANKS * WORD // width))


def ways(groups: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Of each group that goes through shared memory together, in order: passes that it takes, which
    is the most of its words that lie in one bank.

    Args:
      groups, words: of each word that is asked for; whoever shares one asks for it once.
    """
    banks, deep = np.unique(groups * BANKS + words % BANKS, return_counts=True)
    starts = np.flatnonzero(np.diff(banks // BANKS, prepend=-1))
    return np.maximum.reduceat(deep, starts)
