"""pyjax doctor: what this installation runs on, and whether it computes."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np

from pyjax._config import config
from pyjax.numpy import arange
from pyjax.runtime.devices import backends
from pyjax.runtime.placement import device_put
from pyjax.version import __version__
from xla_backend.persistent import store
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.host_threads import num_threads
from xla_backend.runtime.pages import memory_limit
from xla_backend.targets.gpu.cuda.report import facts as facts_of_gpus

_described_packs = on_first_use("xla_backend.tools.precompile", "described_packs")
_LIBRARIES = ("numpy", "scipy", "llvmlite", "ml_dtypes", "opt_einsum", "absl-py")


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="what pyjax runs on here, and whether it computes",
        description="Versions, machine, cache, what was compiled ahead, what NVIDIA GPUs need, "
        "devices and options; exit status 1 if a device does not compute.",
    )
    parser.set_defaults(run=run)


def facts() -> Iterator[tuple[str, str]]:
    """What is worth knowing of this process, but for its devices."""
    yield "pyjax", __version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "machine", f"{platform.system()} {platform.machine()}"
    for library in _LIBRARIES:
        yield library, metadata.version(library)
    yield "threads", str(num_threads())
    yield "memory", f"{memory_limit() >> 20} MiB"
    cache = store.status()
    used = f"{cache.entries} entries, {cache.bytes >> 10} KiB"
    yield "cache", f"{cache.directory}: {used}" if cache.enabled else "not used"
    yield from _described_packs().items()
    yield from facts_of_gpus()
    yield "XLA_FLAGS", os.environ.get("XLA_FLAGS", "") or "not set"


def check(device: Any) -> str:
    """What is wrong with a device; empty if it computes."""
    try:
        found = np.asarray(device_put(arange(4.0), device) * 2 + 1)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if found.tolist() == [1, 3, 5, 7] else f"it computes {found.tolist()}"


def run(chosen: argparse.Namespace) -> int:
    for name, value in facts():
        print(f"{name:12}{value}")
    healthy = True
    try:
        clients = backends()
    except RuntimeError as error:
        print(f"{'platforms':12}{error}")
        clients, healthy = {}, False
    for client in clients.values():
        for device in client.devices():
            problem = check(device)
            healthy &= not problem
            print(f"{'device':12}{device}: {problem or 'computes'}")
    print("options:")
    for line in config.explain().splitlines():
        print(f"  {line}")
    return 0 if healthy else 1
