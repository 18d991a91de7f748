"""What every program here prints at its end: results, and how long its calls took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax


class Stopwatch:
    """Times the calls of one function, each until its result is there."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`; the first call traces and compiles."""
        start = time.perf_counter()
        result = function(*args)
        jax.block_until_ready([x for x in jax.tree.leaves(result) if isinstance(x, jax.Array)])
        self.seconds.append(time.perf_counter() - start)
        return result

    def report(self, **results: float) -> None:
        """Prints the results, and the two times."""
        for name, value in results.items():
            print(f"{name}: {value:.6g}")
        print(f"first call: {self.seconds[0]:.3f} s")
        later = self.seconds[1:]
        if later:
            print(f"later calls: {1e3 * statistics.median(later):.3f} ms (median of {len(later)})")
