"""Joining other processes."""

from __future__ import annotations

from typing import Any

from xla_backend.runtime.processes.exchanges import Exchanges
from xla_backend.runtime.processes.gatherings import Gatherings
from xla_backend.runtime.processes.joined import Joined, set_joined
from xla_backend.runtime.processes.mpi import MpiTransport
from xla_backend.runtime.processes.peers import own_name
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
    gatherings = Gatherings(world)
    made = Joined(world, Exchanges(world, gatherings), KeyValueStore(world))
    parts = gatherings.gather(own_name(), kind="distributed.initialize", seconds=seconds)
    world.start([part.label for part in parts])
    set_joined(made)
    return made
