"""What `pyjax.plan` finds out, as values, a text and a table for notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyjax.parallel.clusters import Chip, Link
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedCollective:
    """A collective, or several alike of one line.

    Attributes:
      kind: "all-reduce", "all-gather", ...
      axes: of the mesh, along which devices exchange.
      group: how many devices exchange with each other.
      array: the type of a device's result.
      times: how often a step executes it.
      sent: bytes that a device sends in a step.
      seconds: what it takes in a step.
      file, line, function: of the user's code; the line is 0 if it is unknown.
    """

    kind: str
    axes: tuple[Any, ...]
    group: int
    array: str
    times: int
    sent: float
    seconds: float
    file: str
    line: int
    function: str

    @property
    def where(self) -> str:
        """`train.py:12`."""
        return f"{Path(self.file).name}:{self.line}" if self.line else "?"


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """Bytes of one device.

    Attributes:
      arguments, results, constants, temporaries: of the program.
      aliased: of results that take the memory of donated arguments.
      largest: temporary arrays that take most memory: bytes, type, and line.
    """

    arguments: int
    results: int
    aliased: int
    constants: int
    temporaries: int
    largest: Sequence[tuple[int, str, str]]

    @property
    def peak(self) -> int:
        """All together."""
        own = self.arguments + self.results - self.aliased
        return own + self.constants + self.temporaries


@dataclass(frozen=True, slots=True)
class Plan:
    """What a program on a mesh would take. Its text is a table, in notebooks it is one.

    Attributes:
      name: of the function.
      axes: names and sizes of the axes of the mesh.
      chip, links: of the cluster.
      collectives: each of them, in the order of the program.
      memory: of each device.
      flops, bytes: operations, and bytes of memory read and written, of each device in a step.
      compute_seconds: what that takes at the chip's full rates, operation by operation.
      open_loops: lines of loops of which nobody knows how many rounds they have: they count as one.
    """

    name: str
    axes: Mapping[Any, int]
    chip: Chip
    links: Mapping[Any, Link]
    collectives: Sequence[PlannedCollective]
    memory: PlannedMemory
    flops: float
    bytes: float
    compute_seconds: float
    open_loops: Sequence[str]

    @property
    def devices(self) -> int:
        return math.prod(self.axes.values())

    @property
    def sent(self) -> float:
        """Bytes that a device sends to others in a step."""
        return sum(c.sent for c in self.collectives)

    @property
    def communication_seconds(self) -> float:
        """Of all collectives, one after another."""
        return sum(c.seconds for c in self.collectives)

    @property
    def seconds(self) -> float:
        """Of a step in which nothing is exchanged while something is computed."""
        return self.compute_seconds + self.communication_seconds

    @property
    def overlapped_seconds(self) -> float:
        """Of a step in which all is exchanged while something is computed."""
        return max(self.compute_seconds, self.communication_seconds)

    @property
    def fits(self) -> bool:
        """Whether a device's memory is enough."""
        return self.memory.peak <= self.chip.memory

    def by_line(self) -> list[PlannedCollective]:
        """Those of one line, kind, axes and type together; those that send most come first."""
        return _joined(self.collectives, lambda c: (c.file, c.line, c.kind, c.axes, c.array))

    def by_kind(self) -> list[PlannedCollective]:
        """Those of one kind along the same axes together; the line is that of the first."""
        return _joined(self.collectives, lambda c: (c.kind, c.axes))

    def _summary(self) -> list[tuple[str, str]]:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.axes.items())
        m = self.memory
        enough = "" if self.fits else ": TOO LITTLE"
        rows = [
            ("devices", f"{self.devices} ({axes}), each {self.chip.name}"),
            (
                "step",
                f"{_time(self.seconds)}: computing {_time(self.compute_seconds)}, exchanging "
                f"{_time(self.communication_seconds)}; {_time(self.overlapped_seconds)} if these "
                "overlap",
            ),
            ("operations", f"{self.flops:.4g} of a device, which moves {_size(self.bytes)}"),
            (
                "memory",
                f"{_size(m.peak)} of {_size(self.chip.memory)}{enough}: arguments "
                f"{_size(m.arguments)}, new results {_size(m.results - m.aliased)}, temporary "
                f"{_size(m.temporaries)}",
            ),
            ("sent", f"{_size(self.sent)} by a device; collectives: {_count(self.collectives)}"),
        ]
        for name, link in self.links.items():
            rate = f"{_size(link.bandwidth)}/s, {_time(link.latency)}"
            own = sum(c.sent for c in self.collectives if name in c.axes)
            rows.append((f"link {name!r}", f"{rate}; {_size(own)} in collectives along it"))
        if self.open_loops:
            rows.append(("counted once", f"loops of unknown length: {', '.join(self.open_loops)}"))
        return rows

    def _rows(self, most: int) -> list[tuple[str, ...]]:
        return [
            (
                c.where,
                c.kind,
                " ".join(map(str, c.axes)),
                c.array,
                str(c.times),
                _size(c.sent),
                _time(c.seconds),
            )
            for c in self.by_line()[:most]
        ]

    def __str__(self) -> str:
        lines = [f"plan of {self.name}"]
        summary = self._summary()
        width = max(len(what) for what, _ in summary)
        lines += [f"  {what:<{width}}  {text}" for what, text in summary]
        table = [_HEADINGS, *self._rows(_MOST)]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines.append("")
        for row in table if self.collectives else ():
            cells = [
                cell.rjust(w) if number > 3 else cell.ljust(w)
                for number, (cell, w) in enumerate(zip(row, widths))
            ]
            lines.append(("  " + "  ".join(cells)).rstrip())
        left = len(self.by_line()) - _MOST
        if left > 0:
            lines.append(f"  and {left} more lines")
        lines += ["", "  largest temporary arrays"] if self.memory.largest else []
        lines += [f"  {_size(n):>8}  {array}  {where}" for n, array, where in self.memory.largest]
        return "\n".join(lines).rstrip()

    def _repr_html_(self) -> str:
        summary = _html_rows("td", self._summary())
        table = _html_rows("th", [_HEADINGS]) + _html_rows("td", self._rows(10 * _MOST))
        largest = [(_size(n), array, where) for n, array, where in self.memory.largest]
        return (
            f"<b>plan of {html.escape(self.name)}</b><table>{summary}</table>"
            f"<table>{table}</table><b>largest temporary arrays</b>"
            f"<table>{_html_rows('td', largest)}</table>"
        )


_MOST = 20
_HEADINGS = ("line", "collective", "axes", "array", "times", "sent", "time")


def _joined(collectives: Iterable[PlannedCollective], key: Any) -> list[PlannedCollective]:
    found: dict[Any, PlannedCollective] = {}
    for c in collectives:
        known = found.get(key(c))
        found[key(c)] = (
            c
            if known is None
            else replace(
                known,
                times=known.times + c.times,
                sent=known.sent + c.sent,
                seconds=known.seconds + c.seconds,
            )
        )
    return sorted(found.values(), key=lambda c: -c.sent)


def _count(collectives: Sequence[PlannedCollective]) -> int:
    return sum(c.times for c in collectives)


def _html_rows(cell: str, rows: Iterable[Sequence[str]]) -> str:
    return "".join(
        "<tr>" + "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row) + "</tr>"
        for row in rows
    )


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    for scale, unit in units:
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    scale, unit = units[-1]
    return f"{value / scale:.3g} {unit}"


def _size(bytes: float) -> str:
    return _scaled(bytes, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def _time(seconds: float) -> str:
    return _scaled(seconds, ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))
