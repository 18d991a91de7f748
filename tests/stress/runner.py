"""Runs one scenario in a process of its own, and says how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCENARIOS = sorted(p.stem for p in (HERE / "scenarios").glob("[a-z]*.py"))
# A loaded machine takes its time to start Python and to compile.
_GRACE = 120


@dataclass(frozen=True)
class Outcome:
    name: str
    seed: int
    seconds: float
    took: float
    status: int | None  # None: it ran past its time
    output: str

    @property
    def passed(self) -> bool:
        return self.status == 0

    def __str__(self) -> str:
        line = f"{'ok  ' if self.passed else 'FAIL'} {self.name} seed {self.seed} {self.took:.0f} s"
        if self.passed:
            said = self.output.strip().rpartition("\n")[2]
            return f"{line}: {said}" if said else line
        how = "ran past its time" if self.status is None else f"status {self.status}"
        again = f"python -m tests.stress {self.name} --seed {self.seed} --seconds {self.seconds:g}"
        return f"{line}: {how}\n{self.output}\nagain: {again}"


def run_scenario(name: str, seed: int, seconds: float) -> Outcome:
    """Run tests/stress/scenarios/NAME.py SEED SECONDS, with an object cache of its own."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile() as output:
        environment = {
            **os.environ,
            "PYJAX_CACHE_DIR": cache,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": str(HERE.parent.parent),
        }
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.stress.scenarios.{name}", str(seed), str(seconds)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(seconds + _GRACE)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # prints where every thread is
            time.sleep(1)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # its children, too
            except ProcessLookupError:
                pass  # it has ended, and left none
            process.wait()
        took = time.monotonic() - start
        output.seek(0)
        text = output.read()[-40_000:].decode(errors="replace")
    return Outcome(name, seed, seconds, took, status, text)
