"""Random partitions of many functions: partitioned_sweep.py says which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_partitioned_functions(seed: int) -> None:
    command = [sys.executable, "-m", "tests.pyjax.parallel.partitioned_sweep", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
