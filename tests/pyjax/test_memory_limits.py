"""How much memory arrays may take: the option, the error, statistics, and what goes back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from xla_backend.runtime.memory import POOL

MB = 1 << 20


def run_alone(code: str, **environment: str) -> str:
    """Output of a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "import pyjax, pyjax.numpy as jnp\n" + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def limited() -> Iterator[None]:
    """80 MiB more than what is in use."""
    POOL.trim()
    pyjax.config.update("jax_cpu_memory_limit", POOL.bytes_reserved() + 80 * MB)
    yield
    pyjax.config.update("jax_cpu_memory_limit", -1)


def test_the_option_limits_memory(limited: None) -> None:
    x = jnp.zeros(8 * MB)  # 32 MiB
    with pytest.raises(MemoryError, match="the limit set for this process"):
        jnp.zeros(16 * MB)
    x.delete()
    assert float(jnp.zeros(16 * MB)[3]) == 0.0  # the first 32 MiB went back


def test_the_option_limits_temporaries_of_programs(limited: None) -> None:
    f = pyjax.jit(lambda x: jnp.sort(jnp.sin(x) + jnp.arange(16.0 * MB))[:3])
    with pytest.raises(MemoryError, match="cannot allocate"):
        f(1.0)
    assert POOL.stats()["bytes_in_use"] < POOL.limit
    pyjax.config.update("jax_cpu_memory_limit", -1)
    assert f(1.0).shape == (3,)


def test_the_error(limited: None) -> None:
    with pytest.raises(MemoryError) as error:
        jnp.zeros((1 << 10, 1 << 20))
    what, where, why, fix = str(error.value).split("\n  ")
    assert what == f"RESOURCE_EXHAUSTED: cannot allocate {1 << 32} bytes for an array"
    assert "test_memory_limits.py" in where
    assert "bytes in all" in why and "in use" in why and "free" in why
    assert "donate_argnums" in fix and "jax_cpu_memory_limit" in fix


def test_the_option_from_the_environment() -> None:
    output = run_alone(
        """
        print(pyjax.devices()[0].memory_stats()["bytes_limit"])
        try:
            jnp.zeros(1 << 28)
        except MemoryError as error:
            print(error)
        """,
        PYJAX_CPU_MEMORY_LIMIT=str(200 * MB),
    )
    assert output.startswith(f"{200 * MB}\nRESOURCE_EXHAUSTED: cannot allocate {1 << 30} bytes")


def test_statistics() -> None:
    device = pyjax.devices()[0]
    before = device.memory_stats()
    x = jnp.zeros(8 * MB).block_until_ready()
    during = device.memory_stats()
    assert during["bytes_in_use"] - before["bytes_in_use"] >= 32 * MB
    assert during["bytes_in_use"] <= during["peak_bytes_in_use"]
    assert during["bytes_in_use"] <= during["bytes_reserved"] <= during["bytes_limit"]
    view = np.asarray(x)
    x.delete()
    assert device.memory_stats()["bytes_in_use"] >= during["bytes_in_use"]  # a view has it
    del view
    after = device.memory_stats()
    assert abs(after["bytes_in_use"] - before["bytes_in_use"]) < MB
    assert after["peak_bytes_in_use"] >= during["bytes_in_use"]


def test_a_large_array_goes_back_to_the_system() -> None:
    output = run_alone(
        """
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

        jnp.ones(1 << 27).block_until_ready().delete()  # the compiler stays
        before = resident()
        x = jnp.ones(1 << 27).block_until_ready()
        during = resident()
        x.delete()
        print(during - before, resident() - before)
        """
    )
    during, after = map(int, output.split())
    assert during >= 500 and after <= 50


def test_one_array_at_a_time_in_a_small_address_space() -> None:
    run_alone(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        for megabytes in (256, 400, 640, 800, 900, 300, 900, 512):
            x = jnp.empty(megabytes * 250_000)
            assert x.nbytes == megabytes * 1_000_000
            del x
        """
    )


def test_a_list_for_which_there_is_no_memory() -> None:
    text = run_alone(
        """
        import resource
        x = jnp.ones(20_000_000)
        x.block_until_ready()
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), used + (200 << 20)))
        try:
            x.tolist()
        except MemoryError as error:
            print(error)
        """
    )
    what, where, why, fix = text.strip().splitlines()[:4]
    assert "<string>" in where
    assert "no memory for the list of 20000000 Python numbers" in what
    assert "32 bytes or more" in why
    assert "np.asarray(x)" in fix
