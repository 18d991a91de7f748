"""Scores the compiler on a folder of reference programs.

    python -m xla_backend.tools.score_corpus FOLDER [--family F] [--only NAME ...]
        [--texts hlo,stablehlo,opt] [--platform PLATFORM] [--markdown]

Every text of every program goes through the stages parse, round-trip (printed text parses to a
module that prints the same), verify, evaluate and run (compiled for the platform), the last two
against the recorded outputs. The exit status is 1 if a stage failed anywhere.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from xla_backend import library
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    CustomCallAttributes,
    DotAttributes,
    Precision,
)
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.verifier import verify
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.custom_calls import custom_calls_in, find_custom_call
from xla_backend.runtime.hlo_client import host_device
from xla_backend.stablehlo import parse_stablehlo
from xla_backend.stablehlo import parser as stablehlo_parser
from xla_backend.stablehlo import printer as stablehlo_printer
from xla_backend.tools.corpus import (
    TEXTS,
    CorpusProgram,
    add_corpus_arguments,
    choices,
    find_programs,
    mismatch_reason,
)

_PRODUCTS = (ConvolutionAttributes, DotAttributes)
STAGES = ("parse", "round-trip", "verify", "evaluate", "run")


@dataclass
class Score:
    """What became of one text of one program."""

    program: CorpusProgram
    text: str
    passed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # stage -> reason
    skipped: dict[str, str] = field(default_factory=dict)  # stage -> reason

    def attempt(self, stage: str, action: Callable[[], str | None]) -> bool:
        """Run a stage: it passes if `action` neither raises nor returns a reason."""
        start = time.perf_counter()
        try:
            reason = action()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self.seconds[stage] = time.perf_counter() - start
        if reason is None:
            self.passed.append(stage)
        else:
            self.failures[stage] = reason
        return reason is None


@dataclass(frozen=True)
class Dialect:
    """How one kind of text becomes a module, and how it is printed again."""

    parse: Callable[[str], HloModule]
    reprint: Callable[[str], str]


_HLO = Dialect(parse_module, lambda text: module_to_text(parse_module(text)))
DIALECTS = {
    "hlo": _HLO,
    "opt": _HLO,
    "stablehlo": Dialect(
        parse_stablehlo,
        lambda text: stablehlo_printer.module_to_text(stablehlo_parser.parse_module(text)),
    ),
}


def score_program(
    program: CorpusProgram, text: str, stages: Sequence[str] = STAGES, platform: str = "cpu"
) -> Score:
    """Take one text of a program through `stages`; `parse` is always among them. `platform` is
    where it runs."""
    score = Score(program, text)
    dialect = DIALECTS[text]
    modules: list[HloModule] = []
    source = program.text(text)
    if not score.attempt("parse", lambda: modules.append(dialect.parse(source))):
        score.skipped = dict.fromkeys(stages[1:], "not parsed")
        return score
    (module,) = modules
    blocked = reason_not_to_run(module)
    actions: dict[str, Callable[[], str | None]] = {
        "round-trip": lambda: _round_trip(dialect, source),
        "verify": lambda: verify(module),
        "evaluate": lambda: _evaluate(program, module),
        "run": lambda: _run(program, module, platform),
    }
    for stage in stages:
        if stage == "parse":
            continue
        if blocked is not None and stage in ("evaluate", "run"):
            score.skipped[stage] = blocked
        else:
            score.attempt(stage, actions[stage])
    return score


def reason_not_to_run(module: HloModule) -> str | None:
    """Why no run of this module can be expected here, or None."""
    devices = module.replica_count * module.num_partitions
    if devices != 1:
        return f"needs {devices} devices"
    for computation in module.computations:
        for node in computation:
            attributes = node.attributes
            if node.opcode is not Opcode.CUSTOM_CALL or node.called:
                continue
            assert isinstance(attributes, CustomCallAttributes)
            if attributes.target.startswith("__") and find_custom_call(attributes.target) is None:
                return f"calls {attributes.target}, which belongs to another compiler"
    return None


def _round_trip(dialect: Dialect, source: str) -> str | None:
    printed = dialect.reprint(source)
    again = dialect.reprint(printed)
    if again == printed:
        return None
    for number, (a, b) in enumerate(zip(printed.splitlines(), again.splitlines()), 1):
        if a != b:
            return f"line {number} prints as {a.strip()!r}, then as {b.strip()!r}"
    return "one text is a prefix of the other"


def _evaluate(program: CorpusProgram, module: HloModule) -> str | None:
    inputs, _ = program.arrays
    calls = custom_calls_in(ExecutionContext(host_device()))
    got = evaluate(module, inputs, custom_calls=calls, seed=0)
    return _difference(program, got)


def _run(program: CorpusProgram, module: HloModule, platform: str) -> str | None:
    inputs, _ = program.arrays
    _ask_for_all_bits(module)
    executable = library.compile(module, platform, CompileOptions())
    return _difference(program, executable.execute(inputs))


def _ask_for_all_bits(module: HloModule) -> None:
    """The outputs were recorded on a CPU, where products that say nothing of their precision have
    all bits of f32; on GPUs that leaves the rounding of factors to tf32 open."""
    for computation in module.computations:
        for node in computation:
            a = node.attributes
            if isinstance(a, _PRODUCTS) and set(a.precision) <= {Precision.DEFAULT}:
                exact = {"precision": (Precision.HIGHEST, Precision.HIGHEST)}
                node.attributes = type(a)(**(a.__dict__ | exact))


def _difference(program: CorpusProgram, got: list[np.ndarray]) -> str | None:
    _, expected = program.arrays
    if len(got) != len(expected):
        return f"{len(got)} outputs instead of {len(expected)}"
    for k, (g, e) in enumerate(zip(got, expected)):
        reason = mismatch_reason(g, e, program.metadata["outputs"][k])
        if reason is not None:
            return f"output {k} {reason}"
    return None


# -- reports ---------------------------------------------------------------------------------------


def table(scores: Sequence[Score], stages: Sequence[str], *, markdown: bool = False) -> str:
    """One row per family and kind of text: how many programs pass each stage, and the time of all
    of them together."""
    groups: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for score in scores:
        groups[score.program.family, score.text].append(score)
        groups["all", score.text].append(score)
    rows = [["family", "text", "programs", *stages]]
    for (family, text), members in sorted(groups.items(), key=lambda g: (g[0][0] == "all", g[0])):
        rows.append([family, text, str(len(members)), *(_cell(members, s) for s in stages)])
    if markdown:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "|" + "---|" * len(rows[0]))
        return "\n".join(lines)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows)


def _cell(members: Sequence[Score], stage: str) -> str:
    passed = sum(stage in m.passed for m in members)
    skipped = sum(stage in m.skipped for m in members)
    seconds = sum(m.seconds.get(stage, 0.0) for m in members)
    text = f"{passed}/{len(members) - skipped}"
    return f"{text} (-{skipped}) {seconds:.1f}s" if skipped else f"{text} {seconds:.1f}s"


def reasons(scores: Sequence[Score]) -> str:
    """Every failure on a line of its own, then how often each reason to skip a stage occurred."""
    lines = [
        f"FAIL {score.program.name} [{score.text}] {stage}: {_first_lines(reason)}"
        for score in scores
        for stage, reason in score.failures.items()
    ]
    skipped = Counter(
        (score.text, reason)
        for score in scores
        for reason in set(score.skipped.values()) - {"not parsed"}
    )
    lines += [f"skipped {n} [{text}]: {reason}" for (text, reason), n in sorted(skipped.items())]
    return "\n".join(lines)


def _first_lines(reason: str, count: int = 3, width: int = 400) -> str:
    text = " / ".join(line.strip() for line in reason.splitlines()[:count])
    return text if len(text) <= width else text[: width - 1] + "…"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="score_corpus", description=(__doc__ or "").split("\n")[0]
    )
    add_corpus_arguments(parser)
    parser.add_argument("--texts", type=choices(list(TEXTS)), default=list(TEXTS))
    parser.add_argument("--stages", type=choices(STAGES), default=list(STAGES))
    parser.add_argument("--platform", default="cpu", help="where programs run, such as emulator")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args(arguments)
    stages = [s for s in STAGES if s == "parse" or s in options.stages]
    try:
        programs = list(find_programs(options.folder, options.family, options.only))
    except FileNotFoundError as error:
        parser.error(str(error))
    scores = []
    for number, program in enumerate(programs, 1):
        if sys.stderr.isatty():
            print(f"\r{number}/{len(programs)} {program.name:60}", end="", file=sys.stderr)
        scores += [score_program(program, text, stages, options.platform) for text in options.texts]
    print(table(scores, stages, markdown=options.markdown))
    report = reasons(scores)
    if report:
        print(report)
    return int(any(score.failures for score in scores))


if __name__ == "__main__":
    sys.exit(main())
