"""The process of one package: it makes programs, calls and times them as the lines of its standard
input ask, each a JSON list `[what, *arguments]`, and answers each with a line of JSON.

  ["make", name, file]   make a program and call it: seconds of the first call, and until its
                         optimised code is there, resident bytes that later calls add at most; the
                         results are kept in the file
  ["time", name, seconds]    seconds of each call, for so long; the program was made before
  ["drop", name]         forget it
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.package import jax
from benchmarks.suite.programs import PROGRAMS

# Of each result, at most so many values are compared.
_COMPARED = 100_000
_STATUS = Path("/proc/self/status")


class Worker:
    def __init__(self) -> None:
        self._calls: dict[str, Callable[[], Any]] = {}

    def make(self, name: str, file: str) -> dict[str, Any]:
        program = PROGRAMS[name]
        fun, arguments = program.make()
        jax.block_until_ready(arguments)
        compiled = jax.jit(fun) if program.compiled else fun

        def call() -> Any:
            return jax.block_until_ready(compiled(*arguments))

        begin = time.perf_counter()
        result = call()
        first = settled = time.perf_counter() - begin
        if hasattr(jax, "compilation_barrier"):
            jax.compilation_barrier()
            settled = time.perf_counter() - begin  # from here on optimised code runs
        if program.tolerance is not None:
            np.savez(file, *_values(result))
        del result
        self._calls[name] = call
        return {"first": first, "settled": settled, "peak": _peak_of(call)}

    def time(self, name: str, seconds: float) -> list[float]:
        call = self._calls[name]
        call()
        taken: list[float] = []
        deadline = time.perf_counter() + seconds
        now = time.perf_counter()
        while now < deadline or len(taken) < 3:
            call()
            before, now = now, time.perf_counter()
            taken.append(now - before)
        return taken

    def drop(self, name: str) -> None:
        self._calls.pop(name, None)


def _values(result: Any) -> list[np.ndarray]:
    flat = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(result)]
    thinned = [a[:: max(1, a.size // _COMPARED)] for a in flat]
    # NumPy's files know no bf16.
    return [
        a.astype(np.float32) if a.dtype.kind == "V" or a.dtype.itemsize < 4 else a for a in thinned
    ]


def _peak_of(call: Callable[[], Any]) -> int | None:
    """Bytes that a call adds to what is resident at most; None where the system does not tell."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = _status("VmRSS")
        call()
        return _status("VmHWM") - before
    except OSError:
        return None


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in {_STATUS}")


def main() -> None:
    worker = Worker()
    answers: dict[str, Callable[..., Any]] = {
        "make": worker.make,
        "time": worker.time,
        "drop": worker.drop,
    }
    out = sys.stdout
    sys.stdout = sys.stderr  # what programs print is no answer
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            answer = {"value": answers[what](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
