"""The program of several processes that this process has joined, if any."""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.runtime.processes.crossing import Exchanges
from xla_backend.runtime.processes.mpi import MpiTransport
from xla_backend.runtime.processes.store import KeyValueStore
from xla_backend.runtime.processes.world import World


class Joined(NamedTuple):
    """What processes share: messages, exchanges of programs, keys and barriers."""

    world: World
    exchanges: Exchanges
    store: KeyValueStore


_joined: list[Joined] = []


def joined() -> Joined | None:
    """None: this process is alone."""
    return _joined[0] if _joined else None


def join(transport: MpiTransport, heartbeat_timeout: float) -> Joined:
    """Begin to take part, once for a process.

    Args:
      heartbeat_timeout: seconds after which a silent process counts as gone.
    """
    world = World(transport, heartbeat_timeout)
    made = Joined(world, Exchanges(world), KeyValueStore(world))
    world.start()
    _joined.append(made)
    return made


def leave() -> None:
    """Take part no more."""
    _joined.clear()
