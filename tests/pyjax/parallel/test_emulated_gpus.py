"""Arrays and programs over eight emulated GPUs, each with memory of its own: the programs of
test_several_devices.py that depend on the platform."""

from __future__ import annotations

import pytest

from tests.pyjax.parallel.device_runs import answers_of
from tests.pyjax.parallel.test_several_devices import PROGRAMS

NAMES = (
    "device_put splits, and puts together",
    "every dtype, scalars and empty arrays",
    "parts come in the order of the mesh",
    "between shardings",
    "jit: in_shardings and out_shardings",
    "jit: the compiler chooses",
    "derivatives and loops",
    "what a program closes over",
    "donation",
    "references",
    "collectives are those of vmap",
    "shard_map with scan, random keys and a kernel of its own",
    "callbacks in shard_map",
    "effects happen once, those of parts on each device",
    "pmap",
    "a part that fails",
    "partners that never come",
    "explicit: gradients that are summed once",
)


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    return answers_of({name: PROGRAMS[name] for name in NAMES}, "gpu_emulator")


@pytest.mark.parametrize("name", NAMES)
def test_on_eight_emulated_gpus(answers: dict[str, str], name: str) -> None:
    assert not answers[name], answers[name]
