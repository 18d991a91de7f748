"""Results of public functions have the same bits on any number of threads, before and after LLVM
has compiled what they run, and under `jit`, where an eager call is one program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.edge_values.bits import is_one_program
from tests.edge_values.rows import cases
from tests.edge_values.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]


def digests(table: str, *options: str) -> tuple[dict[str, list[str]], list[str]]:
    """Those of each case, and which are one program; found in a process with seven threads, as a
    block of options never raises their number."""
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
    found, programs = json.loads(done.stdout)
    return found, programs


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_bits_depend_neither_on_threads_nor_on_when_code_was_made(table: str) -> None:
    (optimised, programs), (first, _) = digests(table), digests(table, "--first-code")
    assert any(" " in found[0] for found in optimised.values())  # not errors alone
    threads = [key for key, found in optimised.items() if len({*found[:3]}) + len({*found[3:]}) > 2]
    assert not threads
    assert not [key for key, found in first.items() if found != optimised[key]]
    assert not [key for key in programs if len({*optimised[key]}) > 1]


@pytest.mark.parametrize(
    ("table", "key", "expected"),
    [
        ("numpy_elementwise", "numpy.exp f(u)", True),
        ("numpy_elementwise", "numpy.add f(m, t)", False),  # t is broadcast before
        ("numpy_reductions", "numpy.sum f(m, axis=1)", True),
        ("linalg", "lax.linalg.svd f(m, compute_uv=False)", True),
        ("linalg", "lax.linalg.svd f(m)[1]", False),  # what is not looked at is not computed
        ("scipy_stats", "scipy.stats.nbinom.pmf f(x, 2.5, 0.25)", False),
    ],
)
def test_which_calls_are_one_program(table: str, key: str, expected: bool) -> None:
    (case,) = [case for case in cases(TABLES[table]) if case.key == f"{key} float32"]
    assert is_one_program(case) == expected
