"""Arrays and programs over eight devices of this machine. In a process of its own, where there are
as many; each entry of the tables (device_programs_*.py) is a test."""

from __future__ import annotations

import pytest

from tests.pyjax.parallel import (
    device_programs_arrays,
    device_programs_custom,
    device_programs_errors,
    device_programs_explicit,
    device_programs_export,
    device_programs_plan,
    device_programs_ragged,
    device_programs_shard_map,
    device_programs_sums,
)
from tests.pyjax.parallel.device_runs import answers_of

PROGRAMS = {
    **device_programs_arrays.PROGRAMS,
    **device_programs_shard_map.PROGRAMS,
    **device_programs_custom.PROGRAMS,
    **device_programs_errors.PROGRAMS,
    **device_programs_explicit.PROGRAMS,
    **device_programs_export.PROGRAMS,
    **device_programs_plan.PROGRAMS,
    **device_programs_ragged.PROGRAMS,
    **device_programs_sums.PROGRAMS,
}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    return answers_of(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_eight_devices(answers: dict[str, str], name: str) -> None:
    assert not answers[name], answers[name]
