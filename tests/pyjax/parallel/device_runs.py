"""Runs tables of programs (device_programs_*.py) over eight devices, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

START = """
import faulthandler, json, re, sys, textwrap, traceback
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
    # One that never ends says where it waits, before the run as a whole is given up.
    print("runs:", name, file=sys.stderr, flush=True)
    faulthandler.dump_traceback_later(240, exit=True)
    try:
        exec(textwrap.dedent(text), dict(globals()))
        answers[name] = ""
    except BaseException:
        answers[name] = traceback.format_exc()
print(json.dumps(answers))
"""


def answers_of(
    programs: Mapping[str, str], platform: str = "cpu", before: str = ""
) -> dict[str, str]:
    """What went wrong with each program on a platform; empty: nothing. `before`: what is run before
    devices are used."""
    code = f"programs = {dict(programs)!r}\n{before}\n{START}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "JAX_PLATFORMS": platform},
    )
    assert run.returncode == 0, run.stderr[-20_000:]
    return json.loads(run.stdout)
