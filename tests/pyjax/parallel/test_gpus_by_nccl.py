"""Arrays and programs over eight GPUs whose collectives are NCCL's: programs of
test_several_devices.py, on a stand-in for CuPy and NCCL that runs the generated kernels."""

from __future__ import annotations

import pytest

from tests.pyjax.parallel.device_runs import answers_of
from tests.pyjax.parallel.test_several_devices import PROGRAMS

GPUS = """
import pytest
from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import run_generated
monkeypatch = pytest.MonkeyPatch()
fake_cupy.install(monkeypatch, 8)
run_generated(monkeypatch)
"""
NAMES = (
    "device_put splits, and puts together",
    "every dtype, scalars and empty arrays",
    "jit: in_shardings and out_shardings",
    "derivatives and loops",
    "donation",
    "references",
    "collectives are those of vmap",
    "shard_map with scan, random keys and a kernel of its own",
    "callbacks in shard_map",
    "effects happen once, those of parts on each device",
    "pmap",
    "a part that fails",
    "partners that never come",
)


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    return answers_of({name: PROGRAMS[name] for name in NAMES}, "cuda", GPUS)


@pytest.mark.parametrize("name", NAMES)
def test_on_eight_gpus(answers: dict[str, str], name: str) -> None:
    assert not answers[name], answers[name]
