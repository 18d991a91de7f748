"""Which products have a long K and a small result, and in how many parts of K they are computed.

That depends on the sizes alone, so that results have the same bits for any number of threads.
"""

from __future__ import annotations

from xla_backend.targets.cpu.routines.gemm_tiles import GemmType

# What the way of a product is called whose parts go the way that follows.
SPLIT = "split_"
# A result of up to so many elements, and a K of so many or more, in parts of about so many.
RESULTS = 1 << 14
LONG = 1 << 13
PART = 1 << 11
MOST_PARTS = 64
GRAIN = 64


def splits(t: GemmType) -> bool:
    """Whether products of a type are split: partial sums have the type of results."""
    return t.source is t.compute is t.target and t.compute.is_floating


def split_of(t: GemmType, m: int, n: int, k: int) -> tuple[int, int]:
    """How many parts of K there are, and the length of all but the last one."""
    if not splits(t) or k < LONG or m * n > RESULTS or min(m, n) < 2:
        return 1, k
    depth = -(-k // min(-(-k // PART), MOST_PARTS))
    depth = -(-depth // GRAIN) * GRAIN
    return -(-k // depth), depth
