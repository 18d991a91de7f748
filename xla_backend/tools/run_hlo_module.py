"""run_hlo_module: run modules on a platform, and compare with a reference.

    run_hlo_module --platform=cpu module.hlo
    run_hlo_module --platform=cpu --reference_platform= --iterations=10 a.hlo b.mlir

Each module runs on random arguments (the same ones each time, see fake_arguments.py) on the test
platform and, unless that is empty, on the reference platform; the results are compared. The
NumPy evaluator is the default reference. A snapshot (`--xla_dump_hlo_snapshots` writes them) runs
on the arguments that it holds, and is compared with the result in it as well. A StableHLO program
that checks its own results (`check.expect_eq` and its kin) runs once on the test platform, and each
check is reported. The exit status is 0 if no run differed and every check passed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xla_backend import library
from xla_backend.check_runner import run_checks
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.literal_text import literal_text
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.proto import Snapshot
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.tools.command_line import (
    FORMATS,
    ToolParser,
    UsageError,
    compile_options,
    format_of,
    parse_input,
    read_bytes,
    run_tool,
)
from xla_backend.tools.compare_results import Mismatch, Tolerance, compare_results
from xla_backend.tools.fake_arguments import fake_arguments

_INTERPRETER = "interpreter"
_MISMATCH_STATUS = 255
_CHECK = b"check.expect_"


def make_parser() -> ToolParser:
    parser = ToolParser(
        "run_hlo_module", "Run HLO or StableHLO modules and compare with a reference platform."
    )
    add = parser.add_argument
    add("modules", nargs="*", metavar="FILE", help="modules to run; - is standard input")
    add("--input_module", action="append", default=[], metavar="FILE", help="one more module")
    add("--platform", default="cpu", help="where to run (default: cpu)")
    add(
        "--reference_platform",
        default="default",
        help="what to compare with: default (the interpreter), a platform, or nothing",
    )
    add("--input_format", choices=sorted(FORMATS), help="default: by the file's suffix")
    add("--iterations", type=int, default=1, help="runs of each module (default: 1)")
    add("--abs_error_bound", type=float, default=1e-3, help="default: 1e-3")
    add("--rel_error_bound", type=float, default=1e-3, help="default: 1e-3")
    add("--seed", type=int, default=0, help="of the arguments (default: 0)")
    parser.add_boolean("print_literals", False, "print arguments and results")
    parser.add_boolean("run_test_hlo_passes", True, "optimise for the test platform")
    parser.add_boolean("run_reference_hlo_passes", True, "optimise for the reference platform")
    parser.add_boolean("use_large_float_range", False, "floats of all magnitudes as arguments")
    parser.add_boolean("different_random_seeds", False, "new arguments for each iteration")
    parser.add_boolean("random_init_input_literals", True, "random arguments instead of zeros")
    parser.add_boolean("force_fake_data", False, "ignore the arguments that a snapshot holds")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; the exit status. See the module's docstring."""
    options, flags = make_parser().parse(arguments)
    files = [*options.modules, *options.input_module]
    if not files:
        raise UsageError("no module given; write run_hlo_module FILE ...")
    if options.iterations < 1:
        raise UsageError(f"--iterations={options.iterations}: run at least once")
    runner = _Runner(options, compile_options(flags))
    for file in files:
        runner.run_file(file)
    total = options.iterations * len(files)
    if runner.compared:
        print(f"{runner.failed}/{total} runs miscompared.", file=sys.stderr)
    return _MISMATCH_STATUS if runner.failed else 0


class _Runner:
    """Runs files one after another and counts the runs that differ."""

    def __init__(self, options: argparse.Namespace, compile_options: CompileOptions) -> None:
        self.options = options
        self.compile_options = compile_options
        chosen = options.reference_platform
        self.reference = _INTERPRETER if chosen == "default" else chosen
        self.tolerance = Tolerance(options.abs_error_bound, options.rel_error_bound)
        self.failed = 0
        self.compared = False

    def run_file(self, file: str) -> None:
        print(f"\n ** Running {file} **", file=sys.stderr)
        data = read_bytes(file)
        if format_of(file, self.options.input_format) == "stablehlo" and _CHECK in data:
            self._run_checks(data.decode("utf-8"), file)
            return
        given = parse_input(data, file, self.options.input_format)
        if self.options.force_fake_data:
            given = Snapshot(given.module)
        module = given.module
        recorded = _recorded_arguments(given, file)
        test = self._compile(module, self.options.platform, self.options.run_test_hlo_passes)
        reference = None
        if self.reference:
            passes = self.options.run_reference_hlo_passes
            reference = self._compile(module, self.reference, passes)
        for iteration in range(self.options.iterations):
            arrays = self._arguments(module, iteration) if recorded is None else recorded
            self._show("argument", arrays)
            got = self._execute(test, self.options.platform, arrays)
            expected = {}
            if recorded is not None and given.result is not None:
                expected["the snapshot"] = [leaf.array for leaf in given.result.leaves()]
            if reference is not None:
                expected[self.reference] = self._execute(reference, self.reference, arrays)
            self._judge(file, expected, got)

    def _run_checks(self, text: str, file: str) -> None:
        try:
            results = run_checks(text, self.options.platform)
        except ValueError as error:  # not a program, or one that takes arguments
            raise UsageError(f"{file}: {error}") from None
        for result in results:
            print(result)
        failed = sum(not result.passed for result in results)
        print(f"{len(results) - failed} of {len(results)} checks passed.", file=sys.stderr)
        self.failed += bool(failed)

    def _compile(self, module: HloModule, platform: str, passes: bool) -> library.Executable:
        options = self.compile_options
        if not passes:
            options = options._replace(optimization_level=0)
        start = time.perf_counter()
        executable = library.compile(module, platform, options)
        seconds = time.perf_counter() - start
        print(f"Compiled for {platform} in {seconds:.4f}s.", file=sys.stderr)
        return executable

    def _arguments(self, module: HloModule, iteration: int) -> list[np.ndarray]:
        seed = self.options.seed + (iteration if self.options.different_random_seeds else 0)
        large = self.options.use_large_float_range
        arrays = fake_arguments(module, seed, large_range=large)
        if not self.options.random_init_input_literals:
            arrays = [np.zeros_like(a) for a in arrays]
        return arrays

    def _execute(
        self, executable: library.Executable, platform: str, arrays: list[np.ndarray]
    ) -> list[np.ndarray]:
        print(f"Running HLO module with runner {platform}...", file=sys.stderr)
        start = time.perf_counter()
        results = executable.execute(arrays)
        print(f"... ran in {time.perf_counter() - start:.4f}s.", file=sys.stderr)
        self._show(f"result on {platform}", results)
        return results

    def _show(self, what: str, arrays: list[np.ndarray]) -> None:
        if self.options.print_literals:
            for i, array in enumerate(arrays):
                literal = Literal(array)
                print(f"** {what} {i}: {literal.shape} {literal_text(literal)}")

    def _judge(
        self, file: str, expected: dict[str, list[np.ndarray]], got: list[np.ndarray]
    ) -> None:
        """Compare one run with everything there is to compare it with."""
        agreed = [self._agrees(file, origin, want, got) for origin, want in expected.items()]
        self.compared |= bool(agreed)
        self.failed += not all(agreed)

    def _agrees(
        self, file: str, origin: str, want: list[np.ndarray], got: list[np.ndarray]
    ) -> bool:
        names = f"{self.options.platform} and {origin}"
        mismatches = compare_results(want, got, self.tolerance)
        if not mismatches:
            print(f"\n** Results on {names} are close enough. **", file=sys.stderr)
            return True
        print(f"\n** Results on {names} DIFFER ({file}). **", file=sys.stderr)
        for mismatch in mismatches:
            print(mismatch, file=sys.stderr)
        _keep(mismatches, want, got)
        return False


def _recorded_arguments(given: Snapshot, file: str) -> list[np.ndarray] | None:
    """The arguments that came with a module, None if none did."""
    assert given.module.entry is not None
    parameters, _ = given.module.entry.program_shape
    wanted = [leaf for shape in parameters for leaf in shape.flatten() if leaf.is_array]
    held = [leaf for literal in given.arguments for leaf in literal.leaves()]
    if not held and wanted:
        return None
    if [_kind(leaf.shape) for leaf in held] != [_kind(shape) for shape in wanted]:
        have, want = (", ".join(map(str, shapes)) for shapes in ([x.shape for x in held], wanted))
        raise UsageError(
            f"{file}: the snapshot holds arguments {have or 'none'}, its program takes "
            f"{want or 'none'}; --force_fake_data ignores them"
        )
    return [leaf.array for leaf in held]


def _kind(shape: Shape) -> tuple[PrimitiveType, tuple[int, ...]]:
    return shape.element_type, shape.dimensions


def _keep(mismatches: list[Mismatch], want: list[np.ndarray], got: list[np.ndarray]) -> None:
    """Write what differed to files, to be looked at later."""
    folder = Path(tempfile.mkdtemp(prefix="run_hlo_module-"))
    for mismatch in mismatches:
        for name, arrays in (("expected", want), ("actual", got)):
            if mismatch.leaf < len(arrays):
                literal = Literal(arrays[mismatch.leaf])
                path = folder / f"{name}-{mismatch.leaf}.txt"
                path.write_text(f"{literal.shape} {literal_text(literal)}\n", encoding="utf-8")
    print(f"expected and actual literals are in {folder}", file=sys.stderr)


def console() -> None:
    """The console script."""
    run_tool(main)


if __name__ == "__main__":
    console()
