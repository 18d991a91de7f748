"""Waiting for events of a device, in a way that signal handlers run meanwhile."""

from __future__ import annotations

import time
from typing import Any

_NOT_READY = 600
# Asked again and again at first, since most waits are short; then after naps that grow.
_EAGER_SECONDS = 2e-4
_LONGEST_NAP = 1e-3


def is_over(runtime: Any, event: Any) -> bool:
    """Whether an event is over.

    Raises:
      CUDARuntimeError: the device reported an error.
    """
    status = runtime.eventQuery(event.ptr)
    if status == _NOT_READY:
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
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
