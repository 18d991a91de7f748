"""How often programs look at signals."""

from __future__ import annotations

# Cycles of work between two looks, about half a millisecond.
POLL_CYCLES = 2_000_000
# A kernel of more cycles is stopped between its blocks.
LONG_KERNEL = 20 * POLL_CYCLES
# Of a round of a loop: what it counts for at least.
LEAST_ROUND = 8


def round_cycles(cycles: float) -> int:
    """What a round of a loop counts for, whose straight code takes so many cycles."""
    return max(LEAST_ROUND, min(int(cycles), POLL_CYCLES))
