"""What holds memory of devices now, in the format of pprof. Layer: profiler."""

from __future__ import annotations

import gzip
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyjax.profiler.formats import SCHEMA
from pyjax.runtime.devices import backends, get_backend


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays and programs that live on devices, by type and device, as pprof reads it: `pprof
    -top FILE` lists what takes how many bytes.

    Args:
      backend: the platform; default all.
    Returns:
      A compressed profile with the numbers of objects and their bytes. An array or a program is a
      function there, named by its type; where it was made is not recorded.
    Raises:
      RuntimeError: there is no such platform.

    >>> device_memory_profile()[:2] == bytes([0x1F, 0x8B])
    True
    """
    clients = backends().values() if backend is None else [get_backend(backend)]
    counts: Counter[tuple[str, str, str]] = Counter()
    sizes: Counter[tuple[str, str, str]] = Counter()
    for client in clients:
        for array in client.live_arrays():
            key = (array.spec.aval.str_short(), "buffer", str(array.spec.device))
            counts[key] += 1
            sizes[key] += array.spec.kind.nbytes
        for executable in client.live_executables():
            key = ("program", "executable", str(executable.device))
            counts[key] += 1
            sizes[key] += executable.held_bytes
    return gzip.compress(SCHEMA.encode("Profile", _profile(counts, sizes)))


def _profile(
    counts: Counter[tuple[str, str, str]], sizes: Counter[tuple[str, str, str]]
) -> dict[str, Any]:
    texts = {"": 0}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    samples, locations, functions = [], [], []
    for number, (key, count) in enumerate(sorted(counts.items()), 1):
        name, kind, device = key
        functions.append({"id": number, "name": text(name), "system_name": text(name)})
        locations.append({"id": number, "line": [{"function_id": number}]})
        labels = [{"key": text("kind"), "str": text(kind)}]
        labels.append({"key": text("device"), "str": text(device)})
        samples.append({"location_id": [number], "value": [count, sizes[key]], "label": labels})
    return {
        "sample_type": [
            {"type": text("allocations"), "unit": text("count")},
            {"type": text("space"), "unit": text("bytes")},
        ],
        "sample": samples,
        "location": locations,
        "function": functions,
        "string_table": list(texts),
        "time_nanos": time.time_ns(),
    }


def save_device_memory_profile(filename: str, backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "memory.prof")
    ...     pyjax.profiler.save_device_memory_profile(str(file))
    ...     file.stat().st_size > 0
    True
    """
    Path(filename).write_bytes(device_memory_profile(backend))
