"""What became of programs that were asked for: for whoever counts or logs it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple


class Outcome(enum.Enum):
    """What happened to one request."""

    REQUESTED = "requested"  # a program was asked for that may be on disk
    FOUND = "found"  # it was
    NOT_FOUND = "not found"  # it was not, and is compiled
    KEPT = "kept"  # what was compiled is on disk now
    DISABLED = "disabled"  # nobody looked: the cache is switched off


class CacheEvent(NamedTuple):
    """One thing that happened.

    Fields:
      outcome: what; module: the program's name; key: of its entry.
      seconds: that it took to load it.
      saved: that compiling it took once, less `seconds`.
    """

    outcome: Outcome
    module: str = ""
    key: str = ""
    seconds: float = 0.0
    saved: float = 0.0


_listeners: list[Callable[[CacheEvent], None]] = []


def on_cache_event(listener: Callable[[CacheEvent], None]) -> None:
    """Call `listener(event)` at every event of the persistent cache."""
    _listeners.append(listener)


def announce(event: CacheEvent) -> None:
    """Tell the listeners."""
    for listener in _listeners:
        listener(event)
