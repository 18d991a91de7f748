"""pmap, on vmap and on shard_map: the same results. In a process with four devices."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Printed: for each program, results with each value of the option. `devices` is there.
PROGRAMS = {
    "arguments and results by axes": """
        f = pyjax.pmap(lambda x, y: (x + y["a"], x.sum() + lax.psum(x, "i").sum()), "i",
                       in_axes=(1, None), out_axes=(-1, 0))
        result = f(jnp.arange(24.0).reshape(2, 4, 3), {"a": jnp.ones(3)})
    """,
    "static arguments, other devices": """
        f = pyjax.pmap(lambda x, n: x * n + lax.axis_index("i"), "i",
                       static_broadcasted_argnums=1, devices=devices[1:3])
        result = f(jnp.ones((2, 3)), 3)
        assert result.devices() == {*devices[1:3]}
    """,
    "derivative": """
        f = pyjax.pmap(lambda x: lax.psum(jnp.sin(x), "i") * x, "i")
        result = pyjax.grad(lambda x: f(x).sum())(jnp.arange(8.0).reshape(4, 2))
    """,
    "under vmap": """
        f = pyjax.pmap(lambda x: lax.pmean(jnp.sin(x), "i") * x, "i")
        result = pyjax.vmap(f)(jnp.arange(24.0).reshape(3, 4, 2))
    """,
    "the same everywhere": """
        f = pyjax.pmap(lambda x: lax.psum(x, "i"), "i", out_axes=None)
        result = f(jnp.arange(8.0).reshape(4, 2))
    """,
    "keywords": """
        result = pyjax.pmap(lambda x, *, y: x + y)(jnp.ones((4, 2)), y=jnp.arange(4.0))
    """,
    "no name": """
        result = pyjax.pmap(lambda x: x[::-1])(jnp.arange(8.0).reshape(4, 2))
    """,
    "a size": """
        f = pyjax.pmap(lambda x, y: x + y + lax.axis_index("i"), "i", in_axes=(None, 0),
                       axis_size=3)
        result = f(1, jnp.arange(3))
    """,
    "loops with collectives": """
        step = lambda c, x: (lax.pmax(c, "i") + x, lax.ppermute(c, "i", [(0, 1), (1, 0)]))
        f = pyjax.pmap(lambda c, xs: lax.scan(step, c, xs), "i", in_axes=(0, 1))
        result = f(jnp.arange(2.0), jnp.arange(6.0).reshape(3, 2))
    """,
}

START = """
import json, textwrap
import numpy as np
import pyjax, pyjax.numpy as jnp
from pyjax import lax
pyjax.config.update("jax_num_cpu_devices", 4)
pyjax.config.update("jax_enable_x64", True)
devices = pyjax.devices()
answers = {}
for name, text in programs.items():
    for merged in (False, True):
        pyjax.config.update("jax_pmap_shmap_merge", merged)
        scope = {"pyjax": pyjax, "jnp": jnp, "lax": lax, "devices": devices}
        exec(textwrap.dedent(text), scope)
        leaves = pyjax.tree.leaves(scope["result"])
        answers.setdefault(name, []).append([x.tolist() for x in leaves])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, list[list[object]]]:
    code = f"programs = {PROGRAMS!r}\n{START}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_vmap_and_on_shard_map(name: str, answers: dict[str, list[list[object]]]) -> None:
    on_vmap, on_shard_map = answers[name]
    assert len(on_vmap) == len(on_shard_map)
    for x, y in zip(on_vmap, on_shard_map):
        assert _close(x, y), (x, y)


def _close(x: object, y: object) -> bool:
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(_close, x, y))
    return bool(x == pytest.approx(y, rel=1e-12, abs=1e-12))
