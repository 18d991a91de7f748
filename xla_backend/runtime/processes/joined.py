"""The program of several processes that this process has joined, if any.

This loads with the library, the rest of the room when a process joins others, or has a client.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Joined(NamedTuple):
    """What processes share.

    Attributes:
      world: messages, a `World`.   exchanges: of programs, `Exchanges`.
      store: keys and barriers, a `KeyValueStore`.
    """

    world: Any
    exchanges: Any
    store: Any


_joined: list[Joined] = []


def joined() -> Joined | None:
    """None: this process is alone."""
    return _joined[0] if _joined else None


def set_joined(made: Joined | None) -> None:
    """From now on this process takes part; None: no more."""
    _joined[:] = [] if made is None else [made]
