"""Processes that are started to help another one, and end with it, however that ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


def end_after(wait: Callable[[], object]) -> None:
    """This process ends at once, with status 1, when `wait()` returns, which runs on a thread.

    A process that is ended by a signal says nothing to those that it has started: these see that
    something of it is gone, for example the other end of a pipe.
    """

    def end() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=end, name="pyjax: ends with its parent", daemon=True).start()
