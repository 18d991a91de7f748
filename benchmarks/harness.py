"""Timing side by side: all contenders of a row run interleaved in one process, and medians (or what
a row asks for) are reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyjax

Step = Callable[[], object]


def _median(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


@dataclass
class Row:
    """One line of the table.

    Attributes:
      name: what is measured.
      contenders: "pyjax", "jax", "numpy" → a function whose call is timed (results must be waited
        for).
      unit: "us", "ms" or "s", or the rate's.
      must: the budget for pyjax in that unit, set on a machine on which JAX took `reference`;
        elsewhere the ratio must / reference is what counts. (Rows of GPUs have their own goals.)
      reference: JAX's figure on the machine of the budgets.
      seconds: rough time to spend on each contender.
      once: call each contender a single time (cold measurements make a fresh program themselves).
      clock: gives the seconds between whose readings a call is.
      rate: turns seconds into another quantity (GFLOP/s, say), of which more is better.
      typical: of the times of all calls, the one that counts.
    """

    name: str
    contenders: dict[str, Step]
    unit: str
    must: float = float("nan")
    reference: float = float("nan")
    seconds: float = 0.6
    once: bool = False
    clock: Callable[[], float] = time.perf_counter
    rate: Callable[[float], float] | None = None
    typical: Callable[[Sequence[float]], float] = _median
    results: dict[str, float] = field(default_factory=dict)


_SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}


def _calls_per_sample(step: Step) -> int:
    """Enough calls for 200 us a sample, so that the clock's resolution does not matter."""
    start = time.perf_counter()
    step()
    return max(1, min(2000, int(2e-4 / max(1e-8, time.perf_counter() - start))))


def measure(row: Row) -> None:
    """Fill `row.results` with the typical time of each contender, in the row's unit (or rate)."""
    samples: dict[str, list[float]] = {name: [] for name in row.contenders}
    calls = {}
    for name, step in row.contenders.items():
        if not row.once:
            step()
            step()
            pyjax.compilation_barrier()  # what is timed is optimised code
        calls[name] = 1 if row.once else _calls_per_sample(step)
    deadline = time.perf_counter() + row.seconds * len(row.contenders)
    rounds = 0
    while rounds < (3 if row.once else 7) or (not row.once and time.perf_counter() < deadline):
        for name, step in row.contenders.items():
            start = row.clock()
            for _ in range(calls[name]):
                step()
            samples[name].append((row.clock() - start) / calls[name])
        rounds += 1
    for name, times in samples.items():
        time_of_call = row.typical(times)
        row.results[name] = row.rate(time_of_call) if row.rate else time_of_call * _SCALE[row.unit]


def table(rows: list[Row]) -> str:
    """The measured rows as a Markdown table."""
    lines = [
        "| what | JAX | NumPy | pyjax | pyjax / JAX | allowed | budget | met as ratio / absolute |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, theirs = row.results["pyjax"], row.results.get("jax")
        allowed = row.must / row.reference
        better = (lambda a, b: a >= b) if row.rate else (lambda a, b: a <= b)
        ratio = ours / theirs if theirs else None
        sign = "≥" if row.rate else "≤"
        cells = [
            row.name,
            _number(row, "jax"),
            _number(row, "numpy"),
            _number(row, "pyjax"),
            f"{ratio:.2f}" if ratio is not None else "-",
            f"{sign} {allowed:.2f}",
            f"{sign} {row.must:g} {row.unit}",
            f"{_word(better, ratio, allowed)} / {_word(better, ours, row.must)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _word(better: Callable[[float, float], bool], value: float | None, limit: float) -> str:
    return "-" if value is None else "yes" if better(value, limit) else "no"


def _number(row: Row, name: str) -> str:
    if name not in row.results:
        return "-"
    return f"{row.results[name]:.3g} {row.unit}"
