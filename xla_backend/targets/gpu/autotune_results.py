"""Files of what was measured: `--xla_gpu_dump_autotune_results_to` writes one, and
`--xla_gpu_load_autotune_results_from` reads it, so that another process, or a machine whose GPU is
busy, computes products the same way.

    {"version": 1, "seconds": {key: {candidate: seconds}}}

A key belongs to a product, to the model of the device, and to flags and versions: results of others
are in nobody's way.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from xla_backend.debug_options import FlagError

_VERSION = 1
_READ = "--xla_gpu_load_autotune_results_from"
Seconds = Mapping[str, float]
_WRITE = "--xla_gpu_dump_autotune_results_to"
# What this process has to say, by file; who writes holds the lock.
_written: dict[str, dict[str, Seconds]] = {}
_lock = threading.Lock()


def read_results(path: str) -> Mapping[str, Seconds]:
    """The results in a file.

    Raises:
      FlagError: it cannot be read, or is none that was written here.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FlagError(f"{_READ}={path}: the file cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise FlagError(f"{_READ}={path}: the file is no JSON ({error})") from error
    seconds = content.get("seconds") if isinstance(content, dict) else None
    if (
        not isinstance(seconds, dict)
        or not all(isinstance(found, dict) for found in seconds.values())
        or content.get("version") != _VERSION
    ):
        raise FlagError(
            f"{_READ}={path}: the file has no results; take one that "
            "--xla_gpu_dump_autotune_results_to wrote with this version"
        )
    return seconds


def write_result(path: str, key: str, seconds: Seconds) -> None:
    """Put a result into a file, beside others of this process; candidates that cannot run (of
    infinite time) are left out.

    Raises:
      FlagError: the file cannot be written.
    """
    with _lock:
        results = _written.setdefault(path, {})
        results[key] = {name: time for name, time in seconds.items() if math.isfinite(time)}
        text = json.dumps({"version": _VERSION, "seconds": results}, indent=1)
        # Who reads meanwhile finds the one before.
        beside = f"{path}.{os.getpid()}"
        try:
            Path(beside).write_text(text, encoding="utf-8")
            os.replace(beside, path)
        except OSError as error:
            raise FlagError(
                f"{_WRITE}={path}: the file cannot be written ({error.strerror})"
            ) from error
