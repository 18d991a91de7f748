"""What kernels cost as runs of a program took: recorded, summed up, and what became of it.

Times are those of the thread that runs a kernel, without what else the machine did meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Microseconds of one run of each kernel on one thread, by its name; sorted.
Costs = tuple[tuple[str, float], ...]


class MeasuredRuns:
    """Times of the first runs of a program; any number of threads may record at once.

    >>> runs = MeasuredRuns(2)
    >>> runs.record({"fusion": 30.0})
    >>> runs.complete
    False
    >>> runs.record({"fusion": 20.0})
    >>> runs.aggregated(50), runs.aggregated(100)
    ((('fusion', 20.0),), (('fusion', 30.0),))
    """

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._runs: list[Mapping[str, float]] = []

    @property
    def complete(self) -> bool:
        """Whether as many runs are there as were wanted: later ones are not recorded."""
        return len(self._runs) >= self._wanted

    def record(self, microseconds: Mapping[str, float]) -> None:
        """One run: the kernels that it ran, each with the average of its times."""
        if not self.complete:
            self._runs += (microseconds,)

    def aggregated(self, percentile: int) -> Costs:
        """Of each kernel, the least of its times that so many percent of them do not exceed."""
        times: dict[str, list[float]] = {}
        for run in self._runs[: self._wanted]:
            for name, microseconds in run.items():
                times.setdefault(name, []).append(microseconds)
        return tuple((name, _percentile(times[name], percentile)) for name in sorted(times))


def _percentile(times: list[float], percentile: int) -> float:
    rank = -(-len(times) * percentile // 100)  # rounded up
    return sorted(times)[max(0, rank - 1)]


class CostDecision(NamedTuple):
    """A kernel whose cost was measured, and what was decided by it.

    Fields:
      kernel: its name.  estimated, measured: microseconds on one thread.
      estimated_blocks, blocks: into how many its loops would be cut for threads by the estimate,
        and are; 1 for none.
    """

    kernel: str
    estimated: float
    measured: float
    estimated_blocks: int
    blocks: int

    def __str__(self) -> str:
        return (
            f"{self.kernel}: estimated {self.estimated:.1f} us, measured {self.measured:.1f} us, "
            f"blocks {self.estimated_blocks} -> {self.blocks}"
        )
