"""Four processes of two devices each: steps that all do together, with delays, failures, processes
that miss a program, and interrupts (tests/pyjax/distributed/programs/stress.py). No wrong value, no
interrupt is lost, nobody waits for somebody who never comes."""

from __future__ import annotations

from importlib.util import find_spec

from tests.pyjax.distributed.launch import MPIEXEC, run
from tests.stress import work

_PROCESSES = 4
_GRACE = 100  # seconds to start and to end, on a loaded machine


def main() -> None:
    seed, seconds = work.arguments()
    if MPIEXEC is None or find_spec("mpi4py") is None:
        print("did not run: it needs mpi4py and mpiexec (pip install 'pyjax[mpi]')")
        return
    flags = "--xla_cpu_collective_timeout_seconds=60"
    limit = seconds + _GRACE
    done = run("stress.py", _PROCESSES, seed, seconds, devices=2, flags=flags, seconds=limit)
    assert done.returncode == 0, done.output
    assert done.output.count("is through") == _PROCESSES, done.output
    print(done.output)


if __name__ == "__main__":
    main()
