"""Mistakes with several devices are told what happened, where, why, and what to write instead."""

from __future__ import annotations

import json
import re

import pytest

from tests.eight_devices import printed
from tests.pyjax.parallel.mistakes import IN_ONE_LINE, MISTAKES


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    return json.loads(printed("tests.pyjax.parallel.mistakes"))


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
