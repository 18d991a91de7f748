"""hlo_bisect: make a failing module as small as it can be, and name the pass that breaks it.

    hlo_bisect module.hlo                      compiled code differs from the evaluator, or crashes
    hlo_bisect --script=./fails.sh module.hlo  or a script says so: exit status other than 0

Prints the smallest module that still fails, and which pass first changes its meaning. The exit
status is 0 if the module does not fail, and 1 if it does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import numpy as np

from xla_backend import library
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.command_line import (
    FORMATS,
    LOAD_HELP,
    ToolParser,
    UsageError,
    compile_options,
    load_files,
    read_module,
    run_tool,
    write_text,
)
from xla_backend.tools.compare_results import Tolerance, compare_results
from xla_backend.tools.fake_arguments import fake_arguments
from xla_backend.tools.fuzz.checks import Failure
from xla_backend.tools.fuzz.workers import check_once
from xla_backend.tools.module_reducer import reduce_module

_ENDS = ("pipeline-start", "pipeline-end")


def make_parser() -> ToolParser:
    parser = ToolParser("hlo_bisect", "Shrink a failing module and name the guilty pass.")
    add = parser.add_argument
    add("file", metavar="FILE", help="the module; - is standard input")
    add("--platform", default="cpu", help="where it fails (default: cpu)")
    add("--input_format", choices=sorted(FORMATS), help="default: by the file's suffix")
    add("--abs_error_bound", type=float, default=1e-2, help="default: 1e-2")
    add("--rel_error_bound", type=float, default=1e-1, help="default: 1e-1")
    add("--seed", type=int, default=0, help="of the arguments (default: 0)")
    add("--timeout", type=float, default=60.0, help="seconds that one run may take (default: 60)")
    add("--script", help="program that gets a module's file; it fails where its status is not 0")
    add("--max_tests", type=int, default=1500, help="runs while shrinking (default: 1500)")
    add("--max_seconds", type=float, default=300.0, help="time for shrinking (default: 300)")
    add("-o", "--output", default="-", metavar="FILE", help="for the small module")
    add("--load", action="append", default=[], metavar="FILE.py", help=LOAD_HELP)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; the exit status. See the module's docstring."""
    options, flags = make_parser().parse(arguments)
    load_files(options.load)
    module = read_module(options.file, options.input_format)
    bisector = _Bisector(options, compile_options(flags))
    failure = bisector.failure(module)
    if failure is None:
        print(f"module {module.name} does not fail.", file=sys.stderr)
        return 0
    print(f"module {module.name} fails: {failure}", file=sys.stderr)
    small = reduce_module(
        module,
        lambda m: bisector.fails_alike(m, failure),
        max_tests=options.max_tests,
        max_seconds=options.max_seconds,
    )
    count = sum(len(c) for c in small.computations)
    print(f"shrunk to {count} instructions: {bisector.failure(small)}", file=sys.stderr)
    write_text(module_to_text(small), options.output)
    print(bisector.verdict(small))
    return 1


class _Bisector:
    """Runs modules and says how they fail."""

    def __init__(self, options: argparse.Namespace, compile_options: CompileOptions) -> None:
        self.options = options
        self.compile_options = compile_options
        self.tolerance = Tolerance(options.abs_error_bound, options.rel_error_bound)
        self.patience = options.timeout

    def failure(self, module: HloModule) -> Failure | None:
        """How the module fails; in a process of its own, as it may crash or hang."""
        started = monotonic()
        failure = self._failure(module, self.options.timeout)
        # Candidates are smaller: one that takes much longer hangs, in a loop that lost its end.
        self.patience = min(self.options.timeout, max(1.0, 5 * (monotonic() - started)))
        return failure

    def fails_alike(self, module: HloModule, first: Failure) -> bool:
        """Whether a candidate fails in the way the whole module does."""
        if first.kind == "compilation":
            # Nothing runs, so nothing hangs: a process for each candidate would only cost time.
            compiled = self._compile(module)
            failure = compiled if isinstance(compiled, Failure) else None
        else:
            failure = self._failure(module, self.patience)
        return failure is not None and failure.signature == first.signature

    def _failure(self, module: HloModule, timeout: float) -> Failure | None:
        if self.options.script:
            return self._script_failure(module)
        return check_once(lambda: self._run(module), timeout)

    def _script_failure(self, module: HloModule) -> Failure | None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "module.hlo"
            path.write_text(module_to_text(module), encoding="utf-8")
            try:
                done = subprocess.run(
                    [self.options.script, str(path)],
                    timeout=self.options.timeout,
                    capture_output=True,
                )
            except OSError as error:
                raise UsageError(f"cannot run {self.options.script}: {error}") from None
            except subprocess.TimeoutExpired:
                return Failure("timeout", "", f"{self.options.timeout:g} seconds")
        return Failure("script", "", f"exit status {done.returncode}") if done.returncode else None

    def _arguments(self, module: HloModule) -> list[np.ndarray]:
        return fake_arguments(module, self.options.seed)

    def _compile(self, module: HloModule) -> library.Executable | Failure:
        try:
            return library.compile(module, self.options.platform, self.compile_options)
        except Exception as error:
            return _raised("compilation", error)

    def _run(self, module: HloModule) -> Failure | None:
        executable = self._compile(module)
        if isinstance(executable, Failure):
            return executable
        arrays = self._arguments(module)
        want = library.evaluate(module, arrays, seed=0)
        try:
            got = executable.execute(arrays)
        except Exception as error:
            return _raised("execution", error)
        mismatches = compare_results(want, got, self.tolerance)
        return Failure("divergence", "", str(mismatches[0])) if mismatches else None

    def verdict(self, module: HloModule) -> str:
        """Which pass is to blame."""
        found = check_once(lambda: self._guilty(module), self.options.timeout)
        if found is None:
            return (
                "guilty: no pass (the optimised module still means the same); look at code "
                "generation and buffer assignment"
            )
        return f"guilty pass: {found.detail}"

    def _guilty(self, module: HloModule) -> Failure | None:
        module = module.clone()
        arrays = self._arguments(module)
        want = library.evaluate(module, arrays, seed=0)
        watch = _Watch(arrays, want, self.tolerance)
        try:
            build_pipeline(self.compile_options, watch).run(module)
        except _MeaningChanged as changed:
            return Failure("pass", "", str(changed))
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            return Failure("pass", "", f"{watch.running!r}, which raises {raised}")
        return None


def _raised(kind: str, error: Exception) -> Failure:
    """The second line tells apart failures of different causes; see Failure.signature."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    name = type(error).__name__
    return Failure(kind, "", f"{name}: {error}\n{name} in {place.name}")


class _MeaningChanged(Exception):
    """A pass made another program of the module."""


class _Watch:
    """Evaluates the module after each pass that changed it (a PassObserver)."""

    def __init__(
        self, arrays: list[np.ndarray], want: list[np.ndarray], tolerance: Tolerance
    ) -> None:
        self.arrays = arrays
        self.want = want
        self.tolerance = tolerance
        self.running = ""

    def between_passes(
        self, module: HloModule, pipeline: str, after: str, before: str, changed: bool
    ) -> None:
        """See PassObserver."""
        if changed and after not in _ENDS:
            self._check(module, f"{after!r} of pipeline {pipeline!r}")
        if before not in _ENDS:
            self.running = before

    def _check(self, module: HloModule, culprit: str) -> None:
        try:
            got = library.evaluate(module, self.arrays, seed=0)
        except HloError as error:
            raise _MeaningChanged(f"{culprit}; its module is not valid: {error}") from None
        mismatches = compare_results(self.want, got, self.tolerance)
        if mismatches:
            raise _MeaningChanged(f"{culprit}; {mismatches[0]}")


def console() -> None:
    """The console script."""
    run_tool(main)


if __name__ == "__main__":
    console()
