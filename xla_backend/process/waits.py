"""Waits for other threads that a signal ends, whenever it arrives.

Python's handler in C notes a signal, and the main thread runs the handler in Python when it next
looks. A wait for a lock looks when a signal interrupts it. One that arrives after the last look and
before the system lets the thread sleep interrupts nothing, and neither does one that the system
gives to another thread: a wait without an end would go on as if there had been none. So waits end
now and then and begin again, and Python looks in between.
"""

from __future__ import annotations

from typing import Protocol

# Seconds between two looks at signals.
LOOK_EVERY = 0.5


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...


def acquire(lock: _Lock) -> None:
    """`lock.acquire()`, in which no signal waits longer than half a second.

    >>> import threading
    >>> lock = threading.Lock()
    >>> acquire(lock)
    >>> lock.locked()
    True
    """
    while not lock.acquire(True, LOOK_EVERY):
        pass
