"""Options that choose devices and distribute work."""

from __future__ import annotations

import itertools
import re

import numpy as np

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.observe import error_of
from tests.config.effects.table import effect, inert

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
