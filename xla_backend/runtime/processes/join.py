"""Joining other processes."""

from __future__ import annotations

from typing import Any

from xla_backend.runtime.processes.crossing import Exchanges
from xla_backend.runtime.processes.joined import Joined, set_joined
from xla_backend.runtime.processes.mpi import MpiTransport
from xla_backend.runtime.processes.store import KeyValueStore
from xla_backend.runtime.processes.world import World


def join(mpi: Any, seconds: float, heartbeat_timeout: float) -> Joined:
    """Take part in MPI's world, once for a process.

    Args:
      mpi: the module `mpi4py.MPI`.   seconds: to wait for the others.
      heartbeat_timeout: seconds after which a silent process counts as gone.
    Raises:
      ProcessTimeout: the others have not come.
    """
    world = World(MpiTransport(mpi, seconds), heartbeat_timeout)
    made = Joined(world, Exchanges(world), KeyValueStore(world))
    world.start(seconds)
    set_joined(made)
    return made
