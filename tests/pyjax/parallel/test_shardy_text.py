"""The text of programs of several devices, in Shardy's words or HLO's (shardy_text.py)."""

from __future__ import annotations

import json

import pytest

from tests.eight_devices import printed


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    return json.loads(printed("tests.pyjax.parallel.shardy_text"))


def test_texts_are_the_programs_again(answers: dict[str, str]) -> None:
    assert len(answers) > 40
    wrong = {name: answer for name, answer in answers.items() if answer}
    assert not wrong, "\n".join([*wrong, *wrong.values()])
