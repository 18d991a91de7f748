"""The model table of kernels for GPUs: `python -m xla_backend.tools.gpu_model [FAMILY ...]`.

Nothing runs on a GPU. One program of each family of kernels goes through the compiler twice: in a
small size it runs in the emulator, which looks for races and accesses out of bounds, and counts
sectors and bank conflicts; in a large size it is compiled for each architecture, assembled, and
estimated for a card. The output is Markdown, which docs/design/gpu.md holds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.counters import KernelCounters, Traffic
from xla_backend.library import compile
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.targets.emulator import EmulatorExecutable
from xla_backend.targets.gpu.analysis import ProgramAnalysis
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.cards import Card, usual_card
from xla_backend.targets.gpu.target_code import GpuTargetCode
from xla_backend.tools.gpu_families import FAMILIES, Family

# What the devices of each generation run.
_RUN = tuple(name for name in ARCHITECTURES if f"{name}a" not in ARCHITECTURES)


@dataclass(frozen=True, slots=True)
class OnCard:
    """One architecture: registers and spilled bytes of the kernel that takes longest, and the
    program on a card."""

    card: Card
    registers: int | None
    spilled: int | None
    occupancy: float
    bound: str
    seconds: float
    fraction: float


@dataclass(slots=True)
class Modelled:
    """A row of the table.

    Fields:
      kernels, routines: launches of one run, and calls of libraries or copies.
      moved: bytes that the emulated program moves, for each that it must.
      efficiency: of the bytes of sectors that accesses fetch, the part that is asked for.
      passes: of shared memory, for each that there would be without conflicts.
      error: how far the emulated results are off.
      cards: by architecture.
    """

    family: Family
    kernels: int
    routines: int
    moved: float
    efficiency: float
    passes: float
    error: float
    cards: dict[str, OnCard] = field(default_factory=dict)


def model(family: Family, architectures: Sequence[str] = _RUN) -> Modelled:
    """What is to be said of a family."""
    module = parse_module(family.small)
    counted, error = _emulated(module, family)
    traffic = sum((k.global_traffic for k in counted), Traffic())
    least = sum(k.shared_traffic.least for k in counted)
    passes = sum(k.shared_traffic.passes for k in counted) / least if least else 1.0
    moved = sum(k.global_bytes for k in counted) / _needed_bytes(module)
    row = Modelled(family, 0, 0, moved, min(1.0, traffic.efficiency), passes, error)
    for name in architectures:
        large = parse_module(family.large)
        code = compile(large, target=name)
        assert isinstance(code, GpuTargetCode)
        analysis = code.analysis()
        row.kernels = sum(k.executions for k in analysis.launches)
        row.routines = sum(r.executions for r in analysis.routines)
        row.cards[name] = _on_card(analysis, large, family)
    return row


def _emulated(module: HloModule, family: Family) -> tuple[list[KernelCounters], float]:
    """Counters of the emulated run, and how far its results are from the evaluator's."""
    arrays = list(family.arguments(module))
    loaded = compile(module, "gpu_emulator", CompileOptions(verify=True)).loaded
    assert isinstance(loaded, EmulatorExecutable)
    counted = loaded.counters(arrays)
    found = loaded.run_arrays(arrays)
    error = 0.0
    for ours, right in zip(found, evaluate(module, arrays), strict=True):
        wanted = right.astype(np.float64)
        scale = float(np.abs(wanted).max()) or 1.0
        error = max(error, float(np.abs(ours.astype(np.float64) - wanted).max()) / scale)
    return list(counted.values()), error


def _needed_bytes(module: HloModule) -> int:
    """Of arguments and results."""
    assert module.entry is not None
    parameters, result = module.entry.program_shape
    leaves = [leaf for shape in (*parameters, result) for leaf in shape.flatten()]
    return sum(leaf.byte_size for leaf in leaves)


def _on_card(analysis: ProgramAnalysis, module: HloModule, family: Family) -> OnCard:
    card = analysis.card
    kind, flops = family.product_type, family.product_flops
    roofline = max(_needed_bytes(module) / card.bandwidth, flops / card.tensor_rate(kind))
    longest = max(analysis.launches, key=lambda k: k.executions * k.estimate.seconds, default=None)
    fraction = roofline / analysis.seconds if analysis.seconds else 1.0
    if longest is None:
        return OnCard(card, None, None, 0.0, "library", analysis.seconds, min(1.0, fraction))
    spilled = [k.launch.spilled_bytes for k in analysis.launches]
    return OnCard(
        card,
        longest.launch.registers,
        None if None in spilled else sum(n for n in spilled if n is not None),
        longest.estimate.occupancy.fraction,
        longest.estimate.bound,
        analysis.seconds,
        min(1.0, fraction),
    )


def table(rows: Sequence[Modelled]) -> str:
    """The rows as Markdown: what the emulator counted, then a table of the architectures."""
    lines = [
        "| family | program | launches | moved / needed | coalescing | shared passes | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        launches = f"{row.kernels}" + (f" + {row.routines}" if row.routines else "")
        lines.append(
            f"| {row.family.name} | {row.family.what} | {launches} | {row.moved:.2f} | "
            f"{100 * row.efficiency:.0f} % | {row.passes:.2f} | {row.error:.0e} |"
        )
    names = list(dict.fromkeys(name for row in rows for name in row.cards))
    cards = [usual_card(name).name for name in names]
    head = ["family", "registers", "spilled", "occupancy, %", *cards, "bound"]
    lines += ["", f"Architectures: {', '.join(names)}.", "", _line(head), "|---" * len(head) + "|"]
    return "\n".join([*lines, *(_line(_cells(row)) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Modelled) -> list[str]:
    """What differs between architectures, side by side; times and parts of the roofline."""
    found = list(row.cards.values())
    return [
        row.family.name,
        " / ".join(_known(on.registers) for on in found),
        " / ".join(_known(on.spilled) for on in found),
        " / ".join(f"{100 * on.occupancy:.0f}" for on in found),
        *(f"{_micro(on.seconds)} us, {100 * on.fraction:.0f} %" for on in found),
        ", ".join(dict.fromkeys(on.bound for on in found)),
    ]


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _micro(seconds: float) -> str:
    """Microseconds, in three digits or as whole ones."""
    return f"{1e6 * seconds:.0f}" if seconds >= 1e-4 else f"{1e6 * seconds:.3g}"


def chosen(names: Sequence[str]) -> Iterator[Family]:
    """The families of these names; all without a name.

    Raises:
      ValueError: there is no such family.
    """
    known = {family.name: family for family in FAMILIES}
    for name in names or known:
        if name not in known:
            raise ValueError(f"no family {name!r}; there are {', '.join(known)}")
        yield known[name]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m xla_backend.tools.gpu_model")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="only these")
    options = parser.parse_args(words)
    try:
        rows = [model(family) for family in chosen(options.families)]
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
