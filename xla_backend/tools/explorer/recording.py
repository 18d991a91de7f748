"""What the explorer's page shows, gathered while a module compiles.

Lines of text are kept once, however many passes leave them as they are, and a pass is the list of
its lines' numbers: the text after each of fifty passes over a large module stays small.
"""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.cost_analysis import Cost, CostAnalysis, analyze
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule, source_places
from xla_backend.hlo.printer import LONG, PrintOptions, computation_to_text
from xla_backend.hlo.source_tables import SourcePlace, place_lines
from xla_backend.passes.base import PassRun
from xla_backend.passes.fusion import control_flow_computations
from xla_backend.process.light_dataclasses import dataclass, field

# Lines of a source file shown around those that the program comes from.
_CONTEXT = 12
_NAME = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = ")
_STYLE = PrintOptions(**{**asdict(LONG), "metadata": False, "layouts": False})

Place = tuple[str, int]  # file, line


@dataclass(slots=True)
class FrontStage:
    """A stage in front of HLO, such as the jaxpr: its title and its lines with their places."""

    title: str
    lines: Sequence[tuple[str, Place | None]]


@dataclass(slots=True)
class PassRecord:
    """The module after a pass that changed something: numbers of lines, and how they differ from
    those before it (opcodes of difflib: tag, from, to, from, to)."""

    pipeline: str
    name: str
    seconds: float
    lines: list[int]
    diff: Sequence[tuple[str, int, int, int, int]]
    flops: float
    bytes: float


@dataclass(slots=True)
class Recording:
    """All that the page shows."""

    title: str
    front: list[dict[str, Any]] = field(default_factory=list)
    # Each distinct line: text, number of its place or -1.
    lines: list[tuple[str, int]] = field(default_factory=list)
    # Of each of these lines: its place in the user's code and who called that.
    callers: list[list[str]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    passes: list[PassRecord] = field(default_factory=list)
    # Of the lines of the last pass, in order; None for lines that cost nothing.
    costs: list[dict[str, float] | None] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Watches a compilation (as a PassObserver) and fills a Recording."""

    def __init__(self, title: str, front: Iterable[FrontStage] = ()) -> None:
        self.recording = Recording(title)
        self.log: Sequence[PassRun] = ()  # of the pipeline that is watched
        self._line_numbers: dict[tuple[str, tuple[SourcePlace, ...]], int] = {}
        self._place_numbers: dict[Place, int] = {}
        for stage in front:
            lines = [(text, self._place(place)) for text, place in stage.lines]
            self.recording.front.append({"title": stage.title, "lines": lines})

    # -- passes ------------------------------------------------------------------------------------

    def start(self, module: HloModule) -> None:
        """The module as it came."""
        self._add("", "as received", module, 0.0)

    def between_passes(
        self, module: HloModule, pipeline: str, after: str, before: str, changed: bool
    ) -> None:
        """See PassObserver."""
        if changed and after != "pipeline-start":
            seconds = self.log[-1].seconds if self.log and self.log[-1].name == after else 0.0
            self._add(pipeline, after, module, seconds)

    def _add(self, pipeline: str, name: str, module: HloModule, seconds: float) -> None:
        numbers = [
            self._line(text, () if node is None else tuple(source_places(node)))
            for text, node in module_lines(module)
        ]
        passes = self.recording.passes
        before = passes[-1].lines if passes else []
        if passes and numbers == before:
            return
        matcher = difflib.SequenceMatcher(None, before, numbers, autojunk=False)
        cost = analyze(module)
        passes.append(
            PassRecord(
                pipeline,
                name,
                seconds,
                numbers,
                matcher.get_opcodes(),
                cost.flops,
                cost.bytes_accessed,
            )
        )

    def _line(self, text: str, callers: tuple[SourcePlace, ...]) -> int:
        number = self._line_numbers.get((text, callers))
        if number is None:
            number = self._line_numbers[text, callers] = len(self.recording.lines)
            self.recording.lines.append((text, self._place(_innermost(callers))))
            self.recording.callers.append(place_lines(callers))
        return number

    def _place(self, place: Place | None) -> int:
        if place is None:
            return -1
        number = self._place_numbers.get(place)
        if number is None:
            number = self._place_numbers[place] = len(self.recording.places)
            self.recording.places.append(place)
        return number

    # -- the end -----------------------------------------------------------------------------------

    def finish(
        self, module: HloModule, kernels: Sequence[EmittedKernel], summary: dict[str, Any]
    ) -> Recording:
        """Add the kernels of the optimised module, its costs, and the user's source lines."""
        recording = self.recording
        analysis = CostAnalysis()
        for _, node in module_lines(module):
            cost = Cost() if node is None else analysis.instruction(node)
            recording.costs.append(None if cost == Cost() else asdict(cost))
        instructions: dict[str, list[Instruction]] = {}
        for computation in control_flow_computations(module):
            for node in computation:
                instructions.setdefault(node.name, []).append(node)
        for kernel in kernels:
            nodes = [node for name in kernel.instructions for node in instructions.get(name, ())]
            recording.kernels.append(self._kernel(kernel, nodes, analysis))
        recording.summary = summary
        recording.sources = [self._source(file) for file in self._files()]
        return recording

    def _kernel(
        self, kernel: EmittedKernel, nodes: list[Instruction], analysis: CostAnalysis
    ) -> dict[str, Any]:
        places = {place for node in nodes for place in places_of(node)}
        cost = asdict(analysis.instruction(nodes[0])) if nodes else {}
        return {
            **kernel._asdict(),
            "launches": [each._asdict() for each in kernel.launches],
            "places": sorted(self._place(p) for p in places),
            "cost": cost,
        }

    def _files(self) -> list[str]:
        return list(dict.fromkeys(file for file, _ in self.recording.places))

    def _source(self, file: str) -> dict[str, Any]:
        """The part of a file that the program comes from; no lines if it cannot be read."""
        numbers = [line for f, line in self.recording.places if f == file]
        text = linecache.getlines(file)
        first = max(1, min(numbers) - _CONTEXT)
        last = min(len(text), max(numbers) + _CONTEXT)
        lines = [line.rstrip("\n") for line in text[first - 1 : last]]
        return {"file": file, "first": first, "lines": lines}


def module_lines(module: HloModule) -> Iterator[tuple[str, Instruction | None]]:
    """The lines of a module's text without metadata, each with the instruction it defines."""
    for number, computation in enumerate(module.computations):
        if number:
            yield "", None
        nodes = {node.name: node for node in computation}
        for line in computation_to_text(computation, _STYLE).splitlines():
            found = _NAME.match(line)
            yield line, nodes.get(found[1]) if found else None


def places_of(node: Instruction) -> Iterator[Place]:
    """The user's lines that an instruction, with the computations it calls, comes from."""
    place = _innermost(source_places(node))
    if place is not None:
        yield place
    for computation in node.called:
        for inner in computation:
            yield from places_of(inner)


def _innermost(callers: Sequence[SourcePlace]) -> Place | None:
    return (callers[0].file, callers[0].line) if callers and callers[0].line > 0 else None
