"""The page: one table of all programs, means of groups, and what is slower than allowed."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.suite.measuring import BUSY, Figures, Measured
from xla_backend.persistent.settings import installed_directory
from xla_backend.tools.precompile import found_packs, used_here

ALLOWED = 1.05
Quantity = Callable[[Figures], float]


def _beside(count: int) -> Quantity:
    return lambda f: f.beside.get(count, math.nan)


def _stretch(count: int) -> Quantity:
    """How much longer a call takes beside busy processes."""
    return lambda f: _beside(count)(f) / _beside(0)(f)


def _peak(figures: Figures) -> float:
    """In MiB; what is below one counts as one."""
    return math.nan if math.isnan(figures.peak) else max(1.0, figures.peak / (1 << 20))


QUANTITIES: dict[str, Quantity] = {
    "steady": lambda f: f.steady,
    "cold": lambda f: f.cold,
    "settled": lambda f: f.settled,
    "warm": lambda f: f.warm,
    "peak": _peak,
    **{f"beside {count}": _beside(count) for count in BUSY},
}


def ratio(each: Measured, quantity: Quantity) -> float:
    """pyjax / JAX; NaN where one of them has no figure."""
    if set(each.figures) != {"pyjax", "jax"}:
        return math.nan
    ours, theirs = (quantity(each.figures[package]) for package in ("pyjax", "jax"))
    return ours / theirs if theirs else math.nan


def kept(each: Measured) -> float:
    """pyjax's first call in a second process / JAX's without anything on disk."""
    if set(each.figures) != {"pyjax", "jax"}:
        return math.nan
    return each.figures["pyjax"].warm / each.figures["jax"].cold


def geometric_mean(values: Iterable[float]) -> float:
    """Of those that are numbers; NaN of none.

    >>> geometric_mean([1.0, 4.0, float("nan")])
    2.0
    """
    logarithms = [math.log(v) for v in values if v > 0]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


_COLUMNS = """\
Ratios are pyjax / JAX: below 1 pyjax is faster, or needs less. Before each turn and each first call
the threads of both packages come to rest: JAX's spin for a tenth of a second after a call, on
processors that the other's calls would have. *steady*: the median of calls in turn, where it comes
out above 0.8 also of calls in the processes of first calls, since where the pages of one process
lie is worth a tenth or two; *cold*: the first call, with an empty cache on disk, and what comes
with the installation of each package: the machine code of JAX's wheel, and pyjax's library routines
where they were compiled ahead (`pyjax precompile`); *settled*: from the beginning of the cold call
until optimised code runs, which LLVM makes on another thread when pyjax's first call has its
result; *warm*: the first call of a process after the cold one, of JAX with its cache on disk, too,
and *warm / cold*: pyjax's beside JAX's cold call, as where JAX has no cache, which is off unless it
is asked for. Of these the median of as many processes as calls have turns. *peak*: what one call
adds to the resident memory (at least 1 MiB), the median of all those processes; *beside n*: the
mean of calls beside n processes that compute all the time; *stretch n*: how many times as long as
alone that is, for pyjax and for JAX. Programs that are not compiled as a whole have no *warm* and
no *beside*.
"""


def page(done: Sequence[Measured], how: str, picture: str = "") -> str:
    """The whole report as Markdown; `how` says how it was measured, `picture` names the file of
    one."""
    groups = list(dict.fromkeys(each.program.group for each in done))
    parts = [
        "# Benchmarks\n",
        f"{len(done)} programs, each written once and run by pyjax and JAX. {how} {machine()}\n",
        _COLUMNS,
        "## Geometric means\n",
        _means(done, groups),
        *(
            [f"\n![Each program, by group; strokes are geometric means.]({picture})"]
            if picture
            else []
        ),
        f"\n## Above {ALLOWED}\n",
        _misses(done),
        "\n## All programs\n",
        _table(done),
    ]
    return "\n".join(parts) + "\n"


def routines_found(wanted: bool) -> str:
    """Whether pyjax's library routines were compiled ahead, as a sentence."""
    directory = installed_directory()
    used = used_here(found_packs(Path(directory))) if wanted and directory else ""
    if used:
        return f"pyjax's library routines were compiled ahead, for {used}."
    return "No routines of pyjax were compiled ahead."


def machine() -> str:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    return (
        f"{platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f} at the end, Python "
        f"{platform.python_version()}."
    )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}" if value < 9.995 else f"{value:.3g}"


def _means(done: Sequence[Measured], groups: Sequence[str]) -> str:
    stretches = [f"stretch {c}: pyjax, JAX" for c in BUSY]
    lines = _head(["group", "programs", *QUANTITIES, "warm / cold", *stretches])
    for group in (*groups, "all"):
        inside = [e for e in done if group in (e.program.group, "all")]
        means = [_number(geometric_mean(ratio(e, q) for e in inside)) for q in QUANTITIES.values()]
        means.append(_number(geometric_mean(map(kept, inside))))
        for count in BUSY:
            both = [
                geometric_mean(_stretch(count)(e.figures[p]) for e in inside if p in e.figures)
                for p in ("pyjax", "jax")
            ]
            means.append(", ".join(map(_number, both)))
        lines.append(_row([group, str(len(inside)), *means]))
    return "\n".join(lines)


def _misses(done: Sequence[Measured]) -> str:
    lines = []
    for name, quantity in QUANTITIES.items():
        worse = [(ratio(e, quantity), e.program.name) for e in done]
        worse = sorted((pair for pair in worse if pair[0] > ALLOWED), reverse=True)
        listed = "; ".join(f"{program} {_number(value)}" for value, program in worse)
        lines.append(f"- **{name}**: {len(worse)} of {len(done)}{': ' if listed else ''}{listed}.")
    apart = [
        e.program.name
        for e in done
        if e.difference is not None and e.difference > (e.program.tolerance or 0)
    ]
    failed = [
        f"{e.program.name} ({p}: {f.error})" for e in done for p, f in e.figures.items() if f.error
    ]
    lines.append(f"- **Results apart**: {'; '.join(apart) or 'none'}.")
    lines.append(f"- **Failed**: {'; '.join(failed) or 'none'}.")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def _table(done: Sequence[Measured]) -> str:
    lines = _head(["group", "program", "JAX", "pyjax", *QUANTITIES, "results apart by"])
    for e in done:
        times = [_seconds(e.figures[p].steady) if p in e.figures else "-" for p in ("jax", "pyjax")]
        ratios = [_number(ratio(e, q)) for q in QUANTITIES.values()]
        apart = "-" if e.difference is None else f"{e.difference:.1g}"
        lines.append(_row([e.program.group, e.program.name, *times, *ratios, apart]))
    return "\n".join(lines)
