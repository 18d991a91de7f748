"""The text of programs of several devices, in Shardy's words or HLO's (shardy_text.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.pyjax.parallel.shardy_text"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"},
    )
    assert run.returncode == 0, run.stderr[-5000:]
    return json.loads(run.stdout)


def test_texts_are_the_programs_again(answers: dict[str, str]) -> None:
    assert len(answers) > 40
    wrong = {name: answer for name, answer in answers.items() if answer}
    assert not wrong, "\n".join([*wrong, *wrong.values()])
