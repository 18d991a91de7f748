"""Each stress scenario for a moment; `make stress` runs them for longer."""

import sys

import pytest

from tests.sampling import sampled
from tests.stress.runner import SCENARIOS, run_scenario

SECONDS = 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks and reads /proc")
@sampled("name", sorted({*SCENARIOS} - {"processes"}), every=2)
def test_scenario(name):
    outcome = run_scenario(name, 0, SECONDS)
    assert outcome.passed, str(outcome)


def test_a_failure_says_how_to_repeat_it(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    outcome = run_scenario("threads", 7, 3)
    assert not outcome.passed
    assert "again: python -m tests.stress threads --seed 7 --seconds 3" in str(outcome)
