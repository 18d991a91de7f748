"""What options do beyond what the table of their effects shows (tests/config/effects)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from pyjax._config.registry import Source, all_options

import pyjax
import pyjax.numpy as jnp


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    for option in all_options().values():
        option.clear(Source.UPDATE)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_", "XLA_"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_weakly_typed_scalars_mix_under_strict_promotion() -> None:
    with pyjax.numpy_dtype_promotion("strict"):
        assert (jnp.ones(2, np.float32) + 1.5).dtype == np.float32


def test_jaxprs_carry_the_default_matmul_precision() -> None:
    f = lambda x: x @ x
    x = jnp.ones((2, 2))
    assert "HIGHEST" not in str(pyjax.make_jaxpr(f)(x)).upper()
    with pyjax.default_matmul_precision("highest"):
        assert "HIGHEST" in str(pyjax.make_jaxpr(f)(x)).upper()
    with pytest.raises(ValueError, match="default_matmul_precision"):
        with pyjax.default_matmul_precision("fantastic"):
            pass


def test_platform_of_a_process() -> None:
    code = "import pyjax; print(pyjax.default_backend())"
    assert run_python(code, JAX_PLATFORMS="interpreter").stdout.strip() == "interpreter"


def test_platforms_cannot_change_once_used() -> None:
    jnp.ones(1).block_until_ready()
    with pytest.raises(RuntimeError, match="initialised already"):
        pyjax.config.update("jax_platforms", "interpreter")


def test_several_cpu_devices_and_the_default_one() -> None:
    code = """
import pyjax, pyjax.numpy as jnp
print(pyjax.device_count(), jnp.ones(2).device.id)
with pyjax.default_device(pyjax.devices()[2]):
    x = jnp.ones(2)
    print(x.device.id, (x + 1).device.id)
y = pyjax.device_put(jnp.ones(2), pyjax.devices()[1])
print((y + 1).device.id, (y + jnp.ones(2)).device.id, pyjax.jit(lambda a: a * 2)(y).device.id)
try:
    y + pyjax.device_put(1.0, pyjax.devices()[3])
except ValueError as error:
    print("different devices" in str(error))
"""
    flag = "--xla_force_host_platform_device_count=2"
    result = run_python(code, JAX_NUM_CPU_DEVICES="4", XLA_FLAGS=flag)
    assert result.stdout.split("\n")[:4] == ["4 0", "2 2", "1 1 1", "True"], result.stderr


def test_number_of_cpu_devices_is_settled_with_the_first_use() -> None:
    before = """
import pyjax
pyjax.config.update("jax_num_cpu_devices", 3)
print(pyjax.device_count(), pyjax.local_device_count(), [d.id for d in pyjax.local_devices()])
"""
    assert run_python(before).stdout.strip() == "3 3 [0, 1, 2]"
    pyjax.devices()
    with pytest.raises(RuntimeError, match=r"(?s)jax_num_cpu_devices to 7.*initialised already"):
        pyjax.config.update("jax_num_cpu_devices", 7)


def test_pprint_use_color(monkeypatch: pytest.MonkeyPatch) -> None:
    jaxpr = pyjax.make_jaxpr(jnp.sin)(1.0).jaxpr
    assert "\x1b[" in jaxpr.pretty_print(use_color=True)
    assert "\x1b[" not in jaxpr.pretty_print(use_color=False)
    assert "\x1b[" not in str(jaxpr)  # the output of the tests is no terminal
    for session, colored in ((None, False), (object(), True)):
        # That something imported IPython is not enough: a session must run.
        ipython = SimpleNamespace(get_ipython=lambda session=session: session)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
        assert ("\x1b[" in str(jaxpr)) == colored


def test_high_dynamic_range_gumbel() -> None:
    key = pyjax.random.key(0)
    high = pyjax.random.gumbel(key, (4,), mode="high")
    low = pyjax.random.gumbel(key, (4,))
    with pyjax._config.options.high_dynamic_range_gumbel(True):
        np.testing.assert_array_equal(pyjax.random.gumbel(key, (4,)), high)
    assert not np.array_equal(low, high)


def test_xla_flags_mistakes_are_errors_not_crashes() -> None:
    code = "import pyjax.numpy as jnp; jnp.ones(2) + 1"
    result = run_python(code, XLA_FLAGS="--xla_force_host_platform_device_cout=2")
    assert result.returncode == 1
    assert "did you mean --xla_force_host_platform_device_count?" in result.stderr


@pytest.mark.parametrize("guard, ends", [("fatal", True), ("log", False), ("allow", False)])
def test_a_fatal_guard_ends_the_process_that_collects_an_array(guard: str, ends: bool) -> None:
    code = """
import gc, pyjax.numpy as jnp
gc.disable()
cycle = [jnp.ones((3, 4))]
cycle.append(cycle)
del cycle
gc.collect()
print("collected")
"""
    done = run_python(code, PYJAX_ARRAY_GARBAGE_COLLECTION_GUARD=guard)
    assert done.returncode == (-signal.SIGABRT if ends else 0), done.stderr
    assert ("collected" in done.stdout) is not ends
    assert ("float32[3,4], was freed by the garbage collector" in done.stderr) == (guard != "allow")
    assert ("'fatal': the process ends here" in done.stderr) is ends
