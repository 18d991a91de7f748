"""Command line: python -m xla_backend.tools.fuzz --count 1000 --seed 0."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from time import monotonic

from xla_backend.tools.fuzz.checks import RAISED, Failure, check_module
from xla_backend.tools.fuzz.data import PROFILES, profile_of
from xla_backend.tools.fuzz.first_code_checks import check_first_code
from xla_backend.tools.fuzz.mutants import report
from xla_backend.tools.fuzz.partitioned_checks import check_partitioned, cut_at_random
from xla_backend.tools.fuzz.program import generate
from xla_backend.tools.fuzz.regressions import case_text, check_case, shrink
from xla_backend.tools.fuzz.text_checks import damage_check, samples_in
from xla_backend.tools.fuzz.workers import Check, check_all, check_once


def check_seed(seed: int) -> Failure | None:
    """Generate the program of a seed and check it."""
    return check_module(generate(seed), seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xla_backend.tools.fuzz",
        description="Run random programs with the evaluator, compiled without and with "
        "optimisation, and compare. Exit status 1 if one fails.",
    )
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    parser.add_argument(
        "--profile", choices=sorted(PROFILES), help="only seeds with this kind of data"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one program")
    parser.add_argument("--no-shrink", action="store_true", help="only report failures")
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="plant known bugs in the compiler, one at a time, and see that each is found",
    )
    parser.add_argument(
        "--texts",
        type=Path,
        nargs="?",
        const=Path(),
        help="damage texts and protobufs of random programs, or of those in a folder, and see that "
        "the parsers refuse them",
    )
    parser.add_argument(
        "--partitioned",
        action="store_true",
        help="cut the arrays of random programs in random ways, and see that the programs of "
        "several devices give the same",
    )
    parser.add_argument(
        "--first-code",
        action="store_true",
        help="run random programs with their threaded code and their optimised code, and see that "
        "no bit is different",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz-failures"), help="folder for shrunk failures"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.mutants:
        return 0 if report(options.count, options.jobs, options.seed) else 1
    if options.texts is not None:
        samples = samples_in(options.texts) if options.texts != Path() else []
        return 1 if _campaign(options, partial(damage_check, samples)) else 0
    # Objects of random programs are no use to anybody else.
    with tempfile.TemporaryDirectory(prefix="pyjax-fuzz-") as folder:
        os.environ["PYJAX_CACHE_DIR"] = folder
        failures = _campaign(options, _check(options))
        for seed, failure in _distinct(failures):
            if not (options.no_shrink or options.first_code):
                _shrink_apart(seed, failure, options)
    return 1 if failures else 0


def _check(options: argparse.Namespace) -> Check:
    if options.first_code:
        return check_first_code
    return check_partitioned if options.partitioned else check_seed


def _campaign(options: argparse.Namespace, check: Check) -> list[tuple[int, Failure]]:
    """Check all seeds; print each failure and the count of those that pass."""
    seeds = _seeds(options)
    failures = []
    started, done = monotonic(), 0
    for seed, failure in check_all(check, seeds, options.jobs, options.timeout):
        done += 1
        if failure is not None:
            failures.append((seed, failure))
            print(f"seed {seed}: {failure}", flush=True)
        if done % 500 == 0:
            rate = done / (monotonic() - started)
            print(f"{done} programs, {len(failures)} failures, {rate:.1f} a second", flush=True)
    seconds = monotonic() - started
    kind = f" with {options.profile} data" if options.profile else ""
    print(f"{done} programs{kind} of seeds {seeds[0]}..{seeds[-1]} in {seconds:.0f} s: ", end="")
    print(f"{len(failures)} failures" if failures else "no divergence, no crash")
    return failures


def _seeds(options: argparse.Namespace) -> list[int]:
    """The first seeds from the given one on, of one profile if that is asked for."""
    wanted = (s for s in count(options.seed) if options.profile in (None, profile_of(s)))
    return list(islice(wanted, options.count))


def _distinct(failures: list[tuple[int, Failure]]) -> list[tuple[int, Failure]]:
    """One failure of each exception; all divergences and crashes, which may differ in cause."""
    chosen: dict[object, tuple[int, Failure]] = {}
    for seed, failure in failures:
        told = failure.kind in RAISED
        chosen.setdefault(failure.signature if told else seed, (seed, failure))
    return list(chosen.values())


def _shrink_apart(seed: int, failure: Failure, options: argparse.Namespace) -> None:
    """Shrink in a process of its own: a smaller program may crash where the first one did not."""

    def work() -> Failure | None:
        return _write_case(seed, failure, options)

    problem = check_once(work, 20.0 * options.timeout)
    if problem is not None:
        print(f"seed {seed}: not shrunk: {problem}", flush=True)


def _write_case(seed: int, failure: Failure, options: argparse.Namespace) -> Failure | None:
    module = cut_at_random(generate(seed), seed) if options.partitioned else generate(seed)
    try:
        small = shrink(module, seed, failure, options.timeout)
    except ValueError:  # it passed this time: it depends on what ran before, or on threads
        return Failure(failure.kind, failure.stage, "it does not fail when run again")
    again = check_once(lambda: check_case(small, seed), options.timeout)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"seed_{seed}.hlo"
    path.write_text(case_text(small, seed, again or failure), encoding="utf-8")
    print(f"seed {seed}: shrunk to {path}", flush=True)
    return None


if __name__ == "__main__":
    sys.exit(main())
