"""Programs of several processes: what they compute, and how they fail."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from .launch import needs_mpi, run

pytestmark = needs_mpi


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Results of one process with four devices."""
    return _results(1, tmp_path_factory.mktemp("alone"))


def _results(processes: int, folder: Path) -> dict[str, np.ndarray]:
    path = folder / "results.npz"
    done = run("collectives.py", processes, path, devices=4 // processes)
    assert done.returncode == 0, done.output
    with np.load(path) as results:
        return dict(results)


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_collectives_have_the_bits_of_one_process(
    processes: int, alone: dict[str, np.ndarray], tmp_path: Path
) -> None:
    found = _results(processes, tmp_path)
    assert found.keys() == alone.keys() and len(alone) > 30
    for name, value in alone.items():
        assert np.array_equal(found[name], value), name


def test_arrays() -> None:
    done = run("arrays.py", 2, devices=2)
    assert done.returncode == 0, done.output


def test_failures() -> None:
    flags = "--xla_cpu_collective_timeout_seconds=3"
    flags += " --xla_cpu_collective_call_warn_stuck_timeout_seconds=1"
    done = run("failures.py", 2, flags=flags)
    assert done.returncode == 0 and done.output.count("is through") == 2, done.output


def _slowest_error(output: str) -> float:
    """Seconds that processes waited for one that had ended."""
    return max(map(float, re.findall(r"an error after (\S+) s", output)))


@pytest.mark.parametrize(
    "how, text",
    [
        ("raise", "process 1 has ended with ValueError: the data ran out"),
        ("stop", "process 1 is silent for"),
    ],
)
def test_ends_of_one(how: str, text: str) -> None:
    """The other raises, with its line, and all end."""
    done = run("ending.py", 2, how)
    assert done.returncode != 0 and _slowest_error(done.output) < 20, done.output
    for part in ("process 0 waits in %all-reduce", text, "total(x)", "ending.py:2"):
        assert part in done.output, (part, done.output)


def test_circles_are_named() -> None:
    done = run("circles.py", 3)
    assert done.returncode == 0 and done.output.count("is through") == 3, done.output


def _shared_files() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("mpich_shm_*")}


@pytest.mark.parametrize("supervised", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_killed_process(supervised: bool) -> None:
    """The launcher ends the others. Where it does not notice, they say who is gone."""
    before = _shared_files()
    done = run("ending.py", 3, "kill", supervised=supervised)
    assert done.returncode != 0
    if supervised:
        assert _slowest_error(done.output) < 20, done.output
        assert "process 1 is gone without a word" in done.output, done.output
        assert "waits in %all-reduce" in done.output and "ending.py:2" in done.output
    assert _shared_files() <= before


@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.slow) for n in range(3)])
def test_steps_with_delays_failures_and_interrupts(seed: int) -> None:
    flags = "--xla_cpu_collective_timeout_seconds=60"
    done = run("stress.py", 4, seed, 40, devices=2, flags=flags, seconds=200)
    assert done.returncode == 0 and done.output.count("is through") == 4, done.output
