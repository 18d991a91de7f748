"""Mistakes of users: the type of the exception, the file and line that the message names, operands,
reason, and the way out, which is run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyjax._config.registry import Source, all_options

from tests.user_mistakes.arrays import ARRAYS
from tests.user_mistakes.functions import FUNCTIONS
from tests.user_mistakes.mistake import Mistake, run
from tests.user_mistakes.surroundings import SURROUNDINGS
from tests.user_mistakes.tracers import TRACERS


@pytest.fixture(autouse=True)
def forget_options() -> Iterator[None]:
    """What the programs set, which would outrank other sources in other tests."""
    yield
    for option in all_options().values():
        option.clear(Source.UPDATE)


MISTAKES = (*ARRAYS, *TRACERS, *FUNCTIONS, *SURROUNDINGS)


def faults(row: Mistake) -> list[str]:
    """What the exception of a mistake lacks."""
    try:
        run(row.bad, row.file)
    except Exception as raised:
        error = raised
    else:
        return ["it raises nothing"]
    text = str(error)
    found = []
    if row.kind not in [kind.__name__ for kind in type(error).__mro__]:
        found.append(f"it is a {type(error).__name__}, not a {row.kind}")
    if not any(place in text for place in row.places):
        found.append(f"it does not name {row.places[0]}")
    found += [f"it does not say {part!r}" for part in row.says if part not in text]
    what, *others = text.splitlines()
    others = [line for line in others if row.file not in line]
    if not what.strip() or not others:
        found.append("it has no reason and no way out")
    return [*found, text] if found else []


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row.name)
def test_a_mistake_is_explained(row: Mistake) -> None:
    assert faults(row) == []


@pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row.name)
def test_the_way_out_runs(row: Mistake) -> None:
    run(row.good, "way_out_of_" + row.file)


def test_there_are_many_and_each_is_one() -> None:
    assert len(MISTAKES) >= 100
    assert (
        len({row.name for row in MISTAKES}) == len({row.bad for row in MISTAKES}) == len(MISTAKES)
    )


def test_a_message_that_says_nothing_fails() -> None:
    row = Mistake("bare", "ValueError", 'raise ValueError("no")', ("float32[3]",), "pass")
    assert len(faults(row)) == 4
    assert faults(Mistake("silent", "ValueError", "1", (), "pass")) == ["it raises nothing"]
