"""The programs of `examples/devices/` compute over several devices what they do on one, and on JAX.

Each runs unmodified in a process of its own, `python -m pyjax.as_jax examples/devices/...`. The
results to reach are those of JAX 0.10.2 on 8 CPU devices.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pyjax.distributed.launch import MPIEXEC, needs_mpi

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "devices"
HELPERS = {"several.py", "transformer.py"}
NEEDS = {"data_parallel.py": "sklearn"}

RESULTS = {
    "data_parallel.py": 0.131599,
    "tensor_parallel.py": 2.8583,
    "pipeline_parallel.py": 3.4497,
    "sharded_optimizer.py": 0.302351,
    "ring_attention.py": 0.0689742,
    "n_body.py": -0.144502,
}
# What the compiled step is to exchange; more kinds would be gathered where nothing need be.
KINDS = {
    "data_parallel.py": {"all-reduce"},
    "tensor_parallel.py": {"all-reduce"},
    "pipeline_parallel.py": {"all-reduce", "collective-permute"},
    "sharded_optimizer.py": {"all-gather", "all-reduce", "reduce-scatter"},
    "ring_attention.py": {"all-reduce", "collective-permute"},
    "n_body.py": {"all-reduce", "collective-permute"},
}
QUICK = {("data_parallel.py", 8), ("n_body.py", 8)}


def _parameters() -> list[object]:
    return [
        pytest.param(p, n, id=f"{p}-{n}", marks=() if (p, n) in QUICK else pytest.mark.slow)
        for p in RESULTS
        for n in (8, 4, 1)
    ]


def run(
    program: str, devices: int, processes: int = 1, *more: str, platform: str = "cpu"
) -> dict[str, str]:
    """What a program prints, by name; the first line, of what it exchanges, is `first`."""
    needed = NEEDS.get(program)
    if needed and find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    launcher = [str(MPIEXEC), "-n", str(processes)] if processes > 1 else []
    command = [*launcher, sys.executable, "-m", "pyjax.as_jax", str(FOLDER / program)]
    done = subprocess.run(
        [*command, "--devices", str(devices), *more],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": platform},
    )
    assert done.returncode == 0, done.stderr
    printed = re.findall(r"^(\w+): (\S+)", done.stdout, re.MULTILINE)
    return {"first": done.stdout.partition("\n")[0], **dict(printed)}


def check(program: str, devices: int, printed: dict[str, str]) -> None:
    assert float(printed["result"]) == pytest.approx(RESULTS[program], rel=1e-4)
    assert float(printed["difference"]) < 1e-5
    kinds = set(re.findall(r"\d+ ([a-z]+-[a-z]+)", printed["first"]))
    share = float(printed["communication_share"])
    if devices == 1:
        assert not kinds and share == 0
    else:
        assert kinds == KINDS[program] and 0 < share < 0.3


@pytest.mark.parametrize(("program", "devices"), _parameters())
def test_example(program: str, devices: int) -> None:
    check(program, devices, run(program, devices))


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("program", RESULTS)
def test_example_of_several_processes(program: str, processes: int) -> None:
    check(program, 8, run(program, 8, processes))


def test_ring_attention_on_emulated_gpus() -> None:
    short = ("--length", "32", "--steps", "2")
    here, there = (
        run("ring_attention.py", 4, 1, *short, platform=p) for p in ("cpu", "gpu_emulator")
    )
    assert there["first"] == here["first"]
    assert float(there["result"]) == pytest.approx(float(here["result"]), rel=1e-4)


def test_every_example_is_tested_and_told() -> None:
    programs = {p.name for p in FOLDER.glob("*.py")} - HELPERS
    assert programs == set(RESULTS) == set(KINDS)
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert not [p for p in programs | HELPERS if p not in text]
