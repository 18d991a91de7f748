"""Mistakes with several devices are told what happened, where, why, and what to write instead."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pyjax.parallel.mistakes import IN_ONE_LINE, MISTAKES

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.pyjax.parallel.mistakes"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"},
    )
    assert run.returncode == 0, run.stderr[-5000:]
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", MISTAKES)
def test_message(told: dict[str, list[str]], name: str) -> None:
    mistake, (kind, text) = MISTAKES[name], told[name]
    assert kind == mistake.kind, (kind, text)
    parts = [text] * 4 if name in IN_ONE_LINE else text.splitlines()
    assert len(parts) == 4, text
    for part, pattern in zip(parts[:1] + parts[2:], (mistake.what, mistake.why, mistake.fix)):
        assert re.search(pattern, part), (pattern, part)
    if name not in IN_ONE_LINE:
        assert re.match(r" +mistakes\.py:\d+ in ", parts[1]), parts[1]
