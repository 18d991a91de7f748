"""Waiting for events of a device, in a way that signal handlers run meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

NOT_READY = 600
# Asked again and again at first, since most waits are short; then after naps that grow.
_EAGER_SECONDS = 2e-4
_LONGEST_NAP = 1e-3


class _Watches(threading.local):
    def __init__(self) -> None:
        self.all: list[Callable[[], object]] = []


_watches = _Watches()


class watching:
    """While it is entered, waits of this thread call `watch` again and again, which may raise: for
    events that never come once something else has failed."""

    def __init__(self, watch: Callable[[], object]) -> None:
        self._watch = watch

    def __enter__(self) -> None:
        _watches.all.append(self._watch)

    def __exit__(self, *_: object) -> None:
        _watches.all.remove(self._watch)


def is_over(runtime: Any, event: Any) -> bool:
    """Whether an event is over.

    Raises:
      CUDARuntimeError: the device reported an error.
    """
    status = runtime.eventQuery(event.ptr)
    if status == NOT_READY:
        return False
    if status:
        runtime.check_status(status)
    return True


def wait_for(runtime: Any, event: Any) -> None:
    """Return when an event is over. What a signal handler raises ends the wait.

    Raises:
      CUDARuntimeError: the device reported an error.
    """
    start = time.perf_counter()
    nap = _EAGER_SECONDS / 4
    while not is_over(runtime, event):
        if time.perf_counter() - start > _EAGER_SECONDS:
            for watch in _watches.all:
                watch()
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
