"""What is said of arguments only is propagated as JAX does it: propagated.json is made by
propagated_programs.py. Eight devices are in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.pyjax.parallel.propagated_programs import DIFFERENT, PATH, PROGRAMS

RECORDED: dict[str, list[str]] = json.loads(PATH.read_text())
RUN = """
import json
import pyjax
from tests.pyjax.parallel.propagated_programs import PROGRAMS, shardings_of
pyjax.config.update("jax_num_cpu_devices", 8)
print(json.dumps({name: shardings_of(pyjax, name) for name in PROGRAMS}))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    run = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_cut_as_in_jax(found: dict[str, list[str]], name: str) -> None:
    expected = RECORDED[name]
    if name in DIFFERENT:
        assert DIFFERENT[name].ours != expected
        expected = DIFFERENT[name].ours
    assert found[name] == expected


def test_everything_is_recorded() -> None:
    assert RECORDED.keys() == PROGRAMS.keys()
    assert DIFFERENT.keys() <= PROGRAMS.keys()
    assert all(different.why for different in DIFFERENT.values())
