"""Results of public functions have the same bits on any number of threads, and before and after
LLVM has compiled what they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.edge_values.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]


def digests(table: str, *options: str) -> dict[str, list[str]]:
    """In a process with seven threads, as a block of options never raises their number."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.edge_values.bits", table, *options],
        capture_output=True,
        text=True,
        timeout=1800,
        cwd=ROOT,
        check=False,
        env={
            **os.environ,
            "PYJAX_NUM_THREADS": "7",
            "PYJAX_FIRST_CODE": "1" if "--first-code" in options else "0",
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_bits_depend_neither_on_threads_nor_on_when_code_was_made(table: str) -> None:
    optimised, first = digests(table), digests(table, "--first-code")
    assert any(" " in found[0] for found in optimised.values())  # not errors alone
    threads = [key for key, found in optimised.items() if len({*found[:3]}) + len({*found[3:]}) > 2]
    assert not threads
    assert not [key for key, found in first.items() if found != optimised[key]]
