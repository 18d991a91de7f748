"""Modules of tests that run in a process of their own, over eight devices of the CPU, and print
what they found as JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EIGHT = {"JAX_NUM_CPU_DEVICES": "8"}


def printed(
    module: str, *arguments: str, given: str = "", timeout: float = 600, **environment: str
) -> str:
    """What a module prints.

    Args:
      given: its standard input.  timeout: in seconds.
      environment: in place of eight devices.
    """
    run = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **(environment or EIGHT)},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-10_000:]
    return run.stdout
