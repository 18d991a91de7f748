"""Work that goes on without a thread of Python: forks and the end of the process wait for it.

Functions of `atexit` run in the reverse order of their registration, and users' may still read
arrays: so this module loads with the library, however late there is such work.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable

# What to call before a fork, with the seconds that it may wait.
drains: list[Callable[[float], object]] = []
_stops: list[Callable[[], object]] = []


def work_goes_on(drain: Callable[[float], object], stop: Callable[[], object]) -> None:
    """There is work of some kind from now on.

    Args:
      drain: called before forks, with the seconds that it may wait for the work to end.
      stop: called when the process ends, while Python still works; more than once, maybe.
    """
    drains.append(drain)
    _stops.append(stop)


def _end() -> None:
    for stop in _stops:
        stop()


# A signal handler may raise at the start of it: so it has a second chance.
for _ in range(2):
    atexit.register(_end)
