"""Both packages in processes of their own, asked in turn, alone and beside busy processes."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.suite.programs import PROGRAMS, Program

ROOT = Path(__file__).resolve().parents[2]
BUSY = (2, 4)
# Where a program of pyjax takes a greater part of JAX's time, one process of each does not tell
# which is ahead: where its pages lie, or who else computes in between, is worth a tenth or two.
CLOSE = 0.8
# Seconds of a look at whether a process is at rest, of which it may use a tenth, and of all looks.
_LOOK, _LONGEST_REST = 0.004, 1.0


@dataclass
class Figures:
    """What was measured of one program in one package, in seconds and bytes.

    Attributes:
      firsts: first calls, one for each process: `cold` with an empty cache on disk, `warm` with
        what the cold one kept; in both routines that come with the installation are there, unless
        they are left out. `settled`: from the beginning of the cold call until optimised code runs.
      cold, warm, settled: their medians.
      turns: of each turn, what its calls took: of the process that stays, and, where the packages
        are close, of those of the first calls.
      steady: the median of turns' medians; least: the shortest call.
      beside: the mean of calls beside so many busy processes; 0: alone, in the process that stays.
      peaks: bytes that a call adds to the resident ones at most, one for each process whose system
        tells; peak: their median.
      error: what it failed with; then there is nothing else.
    """

    firsts: dict[str, list[float]] = field(
        default_factory=lambda: {"cold": [], "settled": [], "warm": []}
    )
    turns: list[list[float]] = field(default_factory=list)
    beside: dict[int, float] = field(default_factory=dict)
    peaks: list[float] = field(default_factory=list)
    error: str | None = None

    def add_first(self, what: str, made: Mapping[str, Any]) -> None:
        """What a worker tells of a `cold` or a `warm` first call."""
        self.firsts[what].append(made["first"])
        if what == "cold":
            self.firsts["settled"].append(made["settled"])
        if made["peak"] is not None:
            self.peaks.append(made["peak"])

    @property
    def steady(self) -> float:
        return _median([statistics.median(turn) for turn in self.turns])

    @property
    def least(self) -> float:
        return min((min(turn) for turn in self.turns), default=math.nan)

    @property
    def peak(self) -> float:
        return _median(self.peaks)

    @property
    def cold(self) -> float:
        return _median(self.firsts["cold"])

    @property
    def settled(self) -> float:
        return _median(self.firsts["settled"])

    @property
    def warm(self) -> float:
        return _median(self.firsts["warm"])


def _median(taken: Sequence[float]) -> float:
    return statistics.median(taken) if taken else math.nan


@dataclass
class Measured:
    program: Program
    figures: dict[str, Figures]
    # How far the results are apart, relative to the largest; None: not compared.
    difference: float | None = None

    @property
    def close(self) -> bool:
        """Whether the packages' steady times have to be looked at again."""
        steady = {package: figures.steady for package, figures in self.figures.items()}
        return len(steady) == 2 and steady["pyjax"] > CLOSE * steady["jax"]


class WorkerError(Exception):
    """A program failed in its worker."""


class Worker:
    """A process of one package."""

    def __init__(
        self, package: str, python: str, cache: str, installed_routines: bool = True
    ) -> None:
        environment = os.environ | {
            "BENCHMARKED": package,
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            "PYJAX_CACHE_DIR": f"{cache}/pyjax",
            "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        # The directory of JAX's cache is an option of pyjax, too, which has its own anyway.
        if package == "pyjax":
            for name in [n for n in environment if n.startswith("JAX_") and "CACHE" in n]:
                del environment[name]
        if not installed_routines:
            environment["PYJAX_INSTALLED_DIR"] = ""
        self.package = package
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.suite.worker"],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, cwd=ROOT,
        )  # fmt: skip

    def ask(self, *request: Any) -> Any:
        """Raises:
        WorkerError: the program failed there, or the process ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerError("the process has ended") from None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"the process ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer["value"]

    def rest(self) -> None:
        """Waits until its threads do. Those of JAX spin for a tenth of a second after a call, on
        processors that the others' calls would have."""
        end, used = time.monotonic() + _LONGEST_REST, self._processor_time()
        while time.monotonic() < end:
            time.sleep(_LOOK)
            before, used = used, self._processor_time()
            if used - before < _LOOK / 10:
                return

    def _processor_time(self) -> float:
        """In seconds; 0 where the system does not tell that of another process."""
        if not sys.platform.startswith("linux"):
            return 0.0
        clock = (~self._process.pid << 3) | 2  # as clock_getcpuclockid has it
        try:
            return time.clock_gettime(clock)
        except OSError:  # it has ended
            return 0.0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes beside us that compute all the time."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def difference(files: Sequence[Path]) -> float | None:
    """How far the arrays of two files are apart at most, relative to the largest value of each."""
    if not all(file.exists() for file in files):
        return None
    ours, theirs = (list(np.load(file).values()) for file in files)
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return float("inf")
        a, b = (np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64) for x in (a, b))
        known = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~known], b[~known], equal_nan=True):
            return float("inf")
        if known.any():
            scale = np.abs(b[known]).max() or 1.0
            worst = max(worst, float(np.abs(a[known] - b[known]).max() / scale))
    return worst


def measured(
    pythons: Mapping[str, str],
    names: Sequence[str],
    seconds: float,
    rounds: int,
    installed_routines: bool = True,
) -> Iterator[Measured]:
    """Each program in each package (the keys; the values are interpreters that have it), asked in
    turn: `rounds` times for `seconds` each, and for its first calls in as many processes with an
    empty cache on disk, and as many that find what those kept; in these a turn for `seconds`, too,
    where the packages are close."""
    with TemporaryDirectory() as directory, ExitStack() as stack:
        begin = lambda turn: {
            package: Worker(package, python, str(Path(directory, str(turn))), installed_routines)
            for package, python in pythons.items()
        }
        staying = begin(0)
        for worker in staying.values():
            stack.enter_context(worker)
        done = [_measure_alone(staying, PROGRAMS[n], directory, seconds, rounds) for n in names]
        close = {each.program.name: each.close for each in done}
        for turn in range(rounds):
            for what in ("cold", "warm") if turn else ("warm",):
                with ExitStack() as leaving:
                    workers = begin(turn)
                    for worker in workers.values():
                        leaving.enter_context(worker)
                    for each in done:
                        again = seconds if close[each.program.name] else None
                        _measure_first(workers, each, what, directory, again)
        for count in BUSY:
            with busy(count):
                for each in done:
                    _measure_beside(staying, each, count, seconds, rounds)
        yield from done


def _measure_alone(
    workers: Mapping[str, Worker], program: Program, directory: str, seconds: float, rounds: int
) -> Measured:
    each = Measured(program, {package: Figures() for package in workers})
    files = [Path(directory, f"{package}.npz") for package in workers]
    for (package, worker), file in zip(workers.items(), files, strict=True):
        file.unlink(missing_ok=True)
        _let_rest(workers)
        try:
            made = worker.ask("make", program.name, str(file))
        except WorkerError as error:
            each.figures[package].error = str(error)
            continue
        each.figures[package].add_first("cold", made)
    for package, turns in _turns(workers, each, seconds, rounds).items():
        figures = each.figures[package]
        figures.turns += turns
        figures.beside[0] = statistics.fmean(chain(*turns))
    if len(files) == 2:
        each.difference = difference(files)
    print(f"{program.name}: {line(each)}", flush=True)
    return each


def _let_rest(workers: Mapping[str, Worker]) -> None:
    for worker in workers.values():
        worker.rest()


def _turns(
    workers: Mapping[str, Worker], each: Measured, seconds: float, rounds: int
) -> dict[str, list[list[float]]]:
    """What the calls of each turn took, by package."""
    turns: dict[str, list[list[float]]] = {
        p: [] for p, f in each.figures.items() if f.error is None
    }
    for _ in range(rounds):
        for package, taken in turns.items():
            _let_rest(workers)
            taken.append(workers[package].ask("time", each.program.name, seconds))
    return turns


def _measure_first(
    workers: Mapping[str, Worker],
    each: Measured,
    what: str,
    directory: str,
    seconds: float | None,
) -> None:
    """The first call in each worker, and those that follow for `seconds`, if they are asked for."""
    for package, worker in workers.items():
        figures = each.figures[package]
        if figures.error is None and (each.program.compiled or what == "cold"):
            _let_rest(workers)
            made = worker.ask("make", each.program.name, str(Path(directory, "again.npz")))
            figures.add_first(what, made)
            if seconds is not None:
                _let_rest(workers)
                figures.turns.append(worker.ask("time", each.program.name, seconds))
            worker.ask("drop", each.program.name)


def _measure_beside(
    workers: Mapping[str, Worker], each: Measured, count: int, seconds: float, rounds: int
) -> None:
    if each.program.compiled:
        for package, turns in _turns(workers, each, seconds, rounds).items():
            each.figures[package].beside[count] = statistics.fmean(chain(*turns))


def line(each: Measured) -> str:
    """The steady times, for who waits."""
    return ", ".join(
        f"{package} {figures.error or f'{figures.steady * 1e3:.4g} ms'}"
        for package, figures in each.figures.items()
    )
