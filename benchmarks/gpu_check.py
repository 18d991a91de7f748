"""Checks pyjax on a machine with an NVIDIA GPU and writes one report: `make gpu-check`, or

    python benchmarks/gpu_check.py [--corpus FOLDER] [--report FILE] [--seconds 570] [--only PART]

A plain script: it needs this folder and a Python that has CuPy, llvmlite, NumPy, SciPy, ml_dtypes
and opt_einsum, but no network, no virtual environment and no installed pyjax. It runs the tests
that are marked `gpu` (with pytest, or where that is missing with `plain_tests`), the corpus of
reference programs if a folder is given, compute-sanitizer and ncu on a sample, and the benchmarks
beside JAX on the same card. Each part is a process with so much of the time; what it leaves goes to
those behind it, and what runs over is stopped. The report is written anew after each part, and says
of parts that did not run why not.

Exit status: 0 if everything that ran passed, 1 if something failed, 2 if nothing ran on a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("numpy", "scipy", "llvmlite", "ml_dtypes", "opt_einsum", "cupy")
# Output of a part that the report keeps: its end.
_KEPT_LINES = 250
# Until a part that is over its time has cleaned up.
_GRACE = 5.0

# `config/` is the package `pyjax._config` once pyjax is installed. Where it is not, each Python
# process finds it through this module, which Python imports as it starts.
_SITECUSTOMIZE = """
import importlib.util, sys

class FindsConfig:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pyjax._config":
            return importlib.util.spec_from_file_location(
                name, {file!r}, submodule_search_locations=[{folder!r}]
            )

sys.meta_path.append(FindsConfig)
"""

_METRICS = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)

# What a profiler or checker says where it cannot work on the machine.
_UNABLE = re.compile(
    r"Device not supported|LibraryNotLoaded|ERR_NVGPUCTRPERM|Unable to attach|"
    r"debugger is not supported|Failed to initialize the profiler"
)


@dataclass(frozen=True)
class Machine:
    """What parts want to know.

    Attributes:
      no_gpu: why nothing can run on a GPU; empty if it can.
      corpus: folder of reference programs, or None.
      python: how Python is started.
    """

    no_gpu: str
    corpus: Path | None = None
    python: str = sys.executable
    has_pytest: bool = True


class NotRun(Exception):
    """A part cannot run here; the reason."""


@dataclass(frozen=True)
class Part:
    """One part of the check: its share of the time, and the command for so many seconds (or
    NotRun)."""

    name: str
    share: float
    command: Callable[[Machine, float], list[str]]
    needs_gpu: bool = True


@dataclass
class Result:
    """What became of a part: "passed", "failed", "stopped" or "not run"."""

    name: str
    state: str
    reason: str = ""
    seconds: float = 0.0
    output: str = ""

    @property
    def line(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        took = f" ({self.seconds:.0f} s)" if self.state != "not run" else ""
        return f"{self.state}{why}{took}"


# -- the parts -------------------------------------------------------------------------------------


def _doctor(machine: Machine, seconds: float) -> list[str]:
    return [machine.python, "-m", "pyjax", "doctor"]


def gpu_tests(root: Path = ROOT) -> list[str]:
    """Files with tests that are marked `gpu`."""
    mark = re.compile(r"^(@|pytestmark = |    )pytest\.mark\.gpu\b", re.MULTILINE)
    files = sorted((root / "tests").rglob("test_*.py"))
    return [str(f.relative_to(root)) for f in files if mark.search(f.read_text("utf-8"))]


def _tests(machine: Machine, seconds: float) -> list[str]:
    files = gpu_tests()
    if not files:
        raise NotRun("no test is marked gpu")
    if not machine.has_pytest:
        return [machine.python, "-m", "benchmarks.plain_tests", *files]
    flags = ["-q", "-m", "gpu", "--import-mode=importlib", "-p", "no:cacheprovider"]
    return [machine.python, "-m", "pytest", "--override-ini=addopts=", *flags, *files]


def _corpus(machine: Machine, seconds: float) -> list[str]:
    if machine.corpus is None:
        raise NotRun("no folder was given (--corpus FOLDER)")
    if not machine.corpus.is_dir():
        raise NotRun(f"{machine.corpus} is no folder")
    words = ["--platform", "cuda", "--texts", "hlo", "--stages", "run"]
    tool = "xla_backend.tools.score_corpus"
    return [machine.python, "-m", tool, str(machine.corpus), *words]


def _sample(machine: Machine) -> list[str]:
    return [machine.python, "-m", "benchmarks.gpu_sample", "--platform", "cuda"]


def _found(tool: str) -> str:
    """Where a tool of CUDA is."""
    path = shutil.which(tool)
    for folder in ("/usr/local/cuda/bin", "/opt/cuda/bin"):
        path = path or shutil.which(tool, path=folder)
    if path is None:
        raise NotRun(f"{tool} was not found (it comes with the CUDA toolkit)")
    return path


def _sanitizer(check: str) -> Callable[[Machine, float], list[str]]:
    def command(machine: Machine, seconds: float) -> list[str]:
        tool = _found("compute-sanitizer")
        return [tool, "--tool", check, "--error-exitcode", "9", *_sample(machine)]

    return command


def _profile(machine: Machine, seconds: float) -> list[str]:
    limits = ["--launch-count", "30", "--clock-control", "none"]
    return [_found("ncu"), "--metrics", ",".join(_METRICS), *limits, *_sample(machine), "--large"]


def _benchmarks(machine: Machine, seconds: float) -> list[str]:
    # Its last row may take a while after that.
    most = max(5, int(0.8 * seconds))
    return [machine.python, "-m", "benchmarks", "--platform", "gpu", "--seconds", str(most)]


PARTS = (
    Part("doctor", 60, _doctor, needs_gpu=False),
    Part("gpu tests", 150, _tests),
    Part("benchmarks", 150, _benchmarks),
    Part("corpus", 100, _corpus),
    Part("memcheck", 45, _sanitizer("memcheck")),
    Part("racecheck", 45, _sanitizer("racecheck")),
    Part("ncu", 40, _profile),
)


# -- running ---------------------------------------------------------------------------------------


@dataclass
class Budget:
    """Shares out time: each part gets its share of what is left for it and those behind it."""

    deadline: float
    clock: Callable[[], float] = field(default=time.monotonic)

    def limit(self, part: Part, behind: Sequence[Part]) -> float:
        left = max(0.0, self.deadline - self.clock())
        return left * part.share / (part.share + sum(p.share for p in behind))


def run_part(part: Part, machine: Machine, seconds: float, environment: dict[str, str]) -> Result:
    """Run a part for at most so many seconds."""
    if part.needs_gpu and machine.no_gpu:
        return Result(part.name, "not run", machine.no_gpu)
    if seconds < 1:
        return Result(part.name, "not run", "the time was used up before it")
    try:
        command = part.command(machine, seconds)
    except NotRun as reason:
        return Result(part.name, "not run", str(reason))
    start = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status = _wait(process, seconds)
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    took = time.monotonic() - start
    unable = _UNABLE.search(output)
    if status is None:
        return Result(part.name, "stopped", f"after its {seconds:.0f} s", took, output)
    if status and unable:
        return Result(part.name, "not run", f"{command[0]}: {unable[0]}", took, output)
    if status:
        return Result(part.name, "failed", f"exit status {status}", took, output)
    return Result(part.name, "passed", "", took, output)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit status; None if it had to be stopped, with all that it had started."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(_GRACE)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        process.wait()
        return None


def report(results: Sequence[Result], facts: Sequence[str], seconds: float) -> str:
    """The report as Markdown."""
    lines = ["# GPU check", "", *(f"- {fact}" for fact in facts), f"- {seconds:.0f} s in all", ""]
    lines += ["| part | what became of it |", "|---|---|"]
    lines += [f"| {r.name} | {r.line} |" for r in results]
    for result in results:
        if result.output.strip():
            kept = result.output.rstrip().splitlines()
            left_out = len(kept) - _KEPT_LINES
            kept = kept[-_KEPT_LINES:]
            if left_out > 0:
                kept.insert(0, f"({left_out} lines before these are left out)")
            lines += ["", f"## {result.name}: {result.line}", "", "```text", *kept, "```"]
    return "\n".join(lines) + "\n"


def exit_status(results: Sequence[Result], parts: Sequence[Part]) -> int:
    """See the head of this file. What was stopped counts as failed, but for the benchmarks and
    ncu, which measure as long as they may."""
    measures = {"benchmarks", "ncu"}
    for result in results:
        if result.state == "failed" or (result.state == "stopped" and result.name not in measures):
            return 1
    on_gpu = {p.name for p in parts if p.needs_gpu}
    ran = any(r.state != "not run" and r.name in on_gpu for r in results)
    return 0 if ran else 2


# -- the machine -----------------------------------------------------------------------------------


def missing_gpu() -> str:
    """Why nothing can run on a GPU here; empty if it can."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    # In a process of its own: a driver that hangs or crashes is a reason, too.
    look = "import cupy; print(cupy.cuda.runtime.getDeviceCount())"
    try:
        done = subprocess.run(
            [sys.executable, "-c", look], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return "CuPy did not count the devices within 60 s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"CuPy finds no device: {last}"
    return "" if done.stdout.strip() != "0" else "CuPy finds no device"


def machine_facts() -> list[str]:
    """What the report says of the machine."""
    commit = _line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    query = "--query-gpu=name,driver_version,memory.total"
    return [
        f"{time.strftime('%Y-%m-%d %H:%M:%S %Z')}, commit {commit or 'unknown'}",
        f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} CPUs",
        _line(["nvidia-smi", query, "--format=csv,noheader"]) or "nvidia-smi: not found",
    ]


def _line(command: list[str]) -> str:
    """The first line that a program prints; empty if there is none or no such program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def environment(folder: Path) -> dict[str, str]:
    """Environment of the parts: pyjax of this folder, and caches of their own in `folder`."""
    paths = [str(ROOT)]
    # In a folder without pyjax, so that what is asked for is the installed one.
    look = [sys.executable, "-c", "import pyjax._config"]
    if subprocess.run(look, cwd=folder, capture_output=True).returncode:
        text = _SITECUSTOMIZE.format(
            file=str(ROOT / "config" / "__init__.py"), folder=str(ROOT / "config")
        )
        (folder / "sitecustomize.py").write_text(text, "utf-8")
        paths.insert(0, str(folder))
    before = os.environ.get("PYTHONPATH")
    paths += [before] if before else []
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "PYJAX_CACHE_DIR": str(folder / "cache"),
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, help="folder of reference programs")
    parser.add_argument("--report", type=Path, default=Path("gpu-report.md"))
    parser.add_argument("--seconds", type=float, default=570.0, help="for all parts together")
    parser.add_argument(
        "--only", action="append", choices=[p.name for p in PARTS], help="this part (repeatable)"
    )
    chosen = parser.parse_args(words)
    start = time.monotonic()
    budget = Budget(start + chosen.seconds)
    parts = [p for p in PARTS if not chosen.only or p.name in chosen.only]
    corpus = None if chosen.corpus is None else chosen.corpus.resolve()
    has_pytest = importlib.util.find_spec("pytest") is not None
    machine = Machine(missing_gpu(), corpus, has_pytest=has_pytest)
    facts = machine_facts()
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        variables = environment(Path(folder))
        for number, part in enumerate(parts):
            limit = budget.limit(part, parts[number + 1 :])
            results.append(run_part(part, machine, limit, variables))
            print(f"{part.name}: {results[-1].line}", flush=True)
            chosen.report.write_text(report(results, facts, time.monotonic() - start), "utf-8")
    print(f"the report is in {chosen.report}")
    return exit_status(results, parts)


if __name__ == "__main__":
    sys.exit(main())
