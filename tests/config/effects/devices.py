"""Options that choose devices and distribute work."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
from collections.abc import Callable

import numpy as np

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.observe import error_of, records_of
from tests.config.effects.table import effect, inert
from tests.pyjax import toy_platform

inert("jax_rocm_visible_devices", "0", "pyjax has no AMD runtime")


@effect("jax_platforms", "interpreter", default="cpu", changed="interpreter", at_start=True)
def platforms() -> str:
    return (jnp.arange(3) * 2).device.platform


@effect(
    "jax_platforms",
    "abacus",
    default="",
    changed=re.compile(r"^RuntimeError: unknown platform 'abacus' in jax_platforms"),
    at_start=True,
)
def platforms_unknown() -> str:
    return error_of(lambda: jnp.arange(3))


@effect("jax_platform_name", "interpreter", default="cpu", changed="interpreter", at_start=True)
def platform_name() -> str:
    return (jnp.arange(3) * 2).device.platform


@effect("jax_num_cpu_devices", 3, default=[0], changed=[0, 1, 2], at_start=True)
def num_cpu_devices() -> list[int]:
    """Devices that arrays can be put on and computed with."""
    found = [pyjax.device_put(jnp.ones(2), device) + 1 for device in pyjax.devices()]
    assert [x.tolist() for x in found] == [[2, 2]] * len(found)
    return [x.device.id for x in found]


@effect("jax_default_device", "interpreter", default="cpu", changed="interpreter")
def default_device() -> str:
    pyjax.config.update("jax_platforms", "cpu,interpreter")
    return (jnp.ones(2) + 1).device.platform


# Each more than what was freed before.
SIZES = itertools.count(64 << 20, 64 << 20)


@effect("jax_cpu_memory_limit", 1 << 20, default="", changed=re.compile("^MemoryError: "))
def cpu_memory_limit() -> str:
    nbytes = next(SIZES)
    return error_of(lambda: jnp.zeros(nbytes, np.uint8).block_until_ready())


def transfers() -> dict[str, Callable[[], object]]:
    """Explicit and implicit transfers in each direction. The toy platform has memory of its own, as
    GPUs have; CPU arrays are read where they are."""
    pyjax.config.update("jax_num_cpu_devices", 2)
    pyjax.config.update("jax_platforms", "cpu,toy")
    if "toy" not in PLATFORMS:
        toy_platform.register()
        PLATFORMS.append("toy")
    with pyjax.transfer_guard("allow"):
        x, second = jnp.arange(3.0), pyjax.devices("cpu")[1]
        there = pyjax.device_put(np.arange(3.0), pyjax.devices("toy")[0])
    return {
        "put": lambda: pyjax.device_put(np.arange(3.0)),
        "operand": lambda: x + np.float32(1.0),
        "move": lambda: pyjax.device_put(x, second),
        "follow": lambda: x + there,
        "get": lambda: pyjax.device_get(there),
        "read": lambda: np.asarray(there),
        "view": lambda: np.asarray(x),
    }


PLATFORMS: list[str] = []


def refused() -> list[str]:
    return [name for name, move in transfers().items() if "Disallowed" in error_of(move)]


def logged() -> list[str]:
    return [name for name, move in transfers().items() if "transfer of" in records_of(move)]


@effect("jax_transfer_guard", "disallow", default=[], changed=["operand", "follow", "read"])
def guard_all() -> list[str]:
    return refused()


@effect("jax_transfer_guard", "log", default=[], changed=["operand", "follow", "read"])
def guard_all_log() -> list[str]:
    return logged()


GUARDED = ["put", "operand", "move", "follow", "get", "read"]


@effect("jax_transfer_guard", "disallow_explicit", default=[], changed=GUARDED)
def guard_all_explicit() -> list[str]:
    return refused()


@effect("jax_transfer_guard", "log_explicit", default=[], changed=GUARDED)
def guard_all_log_explicit() -> list[str]:
    return logged()


@effect("jax_transfer_guard_host_to_device", "disallow", default=[], changed=["operand"])
def guard_to_device() -> list[str]:
    return refused()


@effect(
    "jax_transfer_guard_host_to_device",
    "disallow_explicit",
    default=[],
    changed=["put", "operand"],
)
def guard_to_device_explicit() -> list[str]:
    return refused()


@effect("jax_transfer_guard_device_to_device", "disallow", default=[], changed=["follow"])
def guard_between_devices() -> list[str]:
    return refused()


@effect(
    "jax_transfer_guard_device_to_device",
    "disallow_explicit",
    default=[],
    changed=["move", "follow"],
)
def guard_between_devices_explicit() -> list[str]:
    return refused()


@effect("jax_transfer_guard_device_to_host", "disallow", default=[], changed=["read"])
def guard_to_host() -> list[str]:
    return refused()


@effect(
    "jax_transfer_guard_device_to_host", "disallow_explicit", default=[], changed=["get", "read"]
)
def guard_to_host_explicit() -> list[str]:
    return refused()


# More than any machine's own number.
ONE_MORE = (os.cpu_count() or 1) + 1


def threads_started() -> int:
    """How many threads large loops start."""
    tasks = "/proc/self/task"
    before = len(os.listdir(tasks))
    jnp.sin(jnp.ones((1024, 1024))).block_until_ready()
    return len(os.listdir(tasks)) - before


@effect(
    "jax_num_threads",
    ONE_MORE,
    default=lambda n: 1 <= n < ONE_MORE,
    changed=ONE_MORE,
    ways=("environment", "update", "flag"),
)
def num_threads() -> int:
    """How many threads run loops, in a process that has none yet and nothing left to compile."""
    threads_started()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return 1 + pool.apply(threads_started)


@effect("jax_num_threads", 1, default=True, changed=False, ways=("context",))
def num_threads_of_a_program() -> bool:
    """Whether a program hands blocks to other threads."""
    lowered = pyjax.jit(lambda x: jnp.sin(x) * 2).lower(jnp.ones((1024, 1024)))
    return "@pyjax_parallel_for" in lowered.compile().as_text("llvm")
