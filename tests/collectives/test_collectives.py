"""Collectives give what JAX 0.10.2 gives: calls × where they are mapped × transformations × dtypes.

What it gives is recorded (record.py); JAX is not needed to run this. `make test` looks at every
fortieth row, `make test-slow` at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import pytest

from tests.collectives import compare
from tests.collectives.calls import CALLS, CALLS_OF_TWO, CENTRAL, CENTRAL_OF_TWO, OF_EVERY_DTYPE
from tests.collectives.known import KNOWN, reason_of
from tests.collectives.recorded import load
from tests.collectives.rows import OF_ONE, OF_TWO, ROWS, row_of
from tests.eight_devices import printed

_STEP = 40
_SAMPLE = frozenset(list(ROWS)[_STEP // 2 :: _STEP])


def outcomes(keys: Sequence[str]) -> dict[str, compare.Outcome]:
    lines = printed("tests.collectives.worker", given="\n".join(keys), timeout=1200).splitlines()
    return dict(zip(keys, map(json.loads, lines), strict=True))


@cache
def sample() -> dict[str, compare.Outcome]:
    return outcomes(sorted(_SAMPLE))


def _check(found: dict[str, compare.Outcome]) -> None:
    wrong = [
        f"{key}: {difference}\n    recorded {load()[key]}\n    found    {got}"
        for key, got in found.items()
        for difference in compare.differences(key, got)
        if reason_of(key, difference) is None
    ]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:30])


@pytest.mark.parametrize("context", [*OF_ONE, *OF_TWO])
def test_some_rows(context: str) -> None:
    _check({key: got for key, got in sample().items() if row_of(key).context == context})


@pytest.mark.slow
@pytest.mark.parametrize("context", [*OF_ONE, *OF_TWO])
def test_all_rows(context: str) -> None:
    _check(outcomes([key for key, row in ROWS.items() if row.context == context]))


# -- the tables themselves -------------------------------------------------------------------------


def test_all_rows_are_recorded() -> None:
    assert load().keys() == ROWS.keys()
    assert all(row_of(key) == row for key, row in ROWS.items())


def test_lists_of_calls_are_of_calls_that_there_are() -> None:
    one, two = ({c for calls in table.values() for c in calls} for table in (CALLS, CALLS_OF_TWO))
    assert {*CENTRAL, *OF_EVERY_DTYPE} <= one
    assert {*CENTRAL_OF_TWO} <= two


def test_most_values_are_compared_with_something() -> None:
    """Of what the reference refuses, values are those of a model or of another context."""
    refused = [key for key, want in load().items() if "error" in want]
    assert sum(map(compare.checked, refused)) > 0.4 * len(refused)


def test_a_wrong_value_fails() -> None:
    key = "lax.psum(x, 'i') | shard_map |  | float32 | 4x8"
    want = load()[key]
    assert [*compare.differences(key, want)] == []
    for change, expected in (
        ({"sum": 1}, ["value"]),
        ({"inside": "f32[4,8]{V:i}"}, ["types"]),
        ({"error": "TypeError"}, ["refused"]),
    ):
        assert [*compare.differences(key, {**want, **change})] == expected


@pytest.mark.slow
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known.what}: {known.rows}")
def test_known_differences_are_there(known: object) -> None:
    rows = [
        key
        for key in load()
        if any(known.covers(key, what) for what in known.what.split(", "))  # type: ignore[attr-defined]
    ]
    found = outcomes(rows[:40])
    assert any(
        known.covers(key, what)  # type: ignore[attr-defined]
        for key, got in found.items()
        for what in compare.differences(key, got)
    ), "nothing differs: remove the entry from known.py"
