"""Programs of several processes, started as users start them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAMS = Path(__file__).parent / "programs"
_BESIDE = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(_BESIDE) if _BESIDE.exists() else shutil.which("mpiexec")

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec (pip install 'pyjax[mpi]')",
)


class Ended(NamedTuple):
    """What became of a program.

    Attributes:
      output: of all processes, both streams.
    """

    returncode: int
    output: str
    seconds: float


def run(
    program: str,
    processes: int,
    *arguments: object,
    devices: int = 1,
    flags: str = "",
    supervised: bool = False,
    seconds: float = 120,
) -> Ended:
    """Run a program of this folder.

    Args:
      devices: of each process.   flags: further ones of XLA.
      supervised: what the launcher starts outlives a process that is killed, for a while, so that
        it does not end the others.
    """
    assert MPIEXEC is not None
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {flags}",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PYTHONUNBUFFERED": "1",
    }
    outlive = ["sh", "-c", '"$@"; [ $? = 137 ] && sleep 15; exit 1', "sh"] if supervised else []
    command = [MPIEXEC, "-n", str(processes), *outlive, sys.executable]
    start = time.monotonic()
    done = subprocess.run(
        [*command, str(PROGRAMS / program), *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    return Ended(done.returncode, done.stdout, time.monotonic() - start)
