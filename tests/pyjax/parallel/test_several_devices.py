"""Arrays and programs over eight devices of this machine. In a process of its own, where there are
as many; each entry of the tables (device_programs_*.py) is a test."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.pyjax.parallel import (
    device_programs_arrays,
    device_programs_custom,
    device_programs_errors,
    device_programs_explicit,
    device_programs_plan,
    device_programs_shard_map,
)

PROGRAMS = {
    **device_programs_arrays.PROGRAMS,
    **device_programs_shard_map.PROGRAMS,
    **device_programs_custom.PROGRAMS,
    **device_programs_errors.PROGRAMS,
    **device_programs_explicit.PROGRAMS,
    **device_programs_plan.PROGRAMS,
}

START = """
import json, re, textwrap, traceback
import numpy as np
import pyjax, pyjax.numpy as jnp
from pyjax import lax
from pyjax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
pyjax.config.update("jax_num_cpu_devices", 8)
devices = pyjax.devices()
mesh = Mesh(np.array(devices).reshape(2, 4), ("a", "b"))
DATA = np.arange(64, dtype=np.float32).reshape(8, 8)
over = lambda spec: NamedSharding(mesh, spec)
put = lambda x, spec: pyjax.device_put(x, over(spec))

def raises(kind, message, function):
    try:
        function()
    except kind as error:
        assert re.search(message, str(error)), str(error)
        return True
    return False

answers = {}
for name, text in programs.items():
    try:
        exec(textwrap.dedent(text), dict(globals()))
        answers[name] = ""
    except BaseException:
        answers[name] = traceback.format_exc()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    code = f"programs = {PROGRAMS!r}\n{START}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_eight_devices(answers: dict[str, str], name: str) -> None:
    assert not answers[name], answers[name]
