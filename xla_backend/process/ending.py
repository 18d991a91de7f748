"""Ends of processes.

end_after(wait)    one that was started to help another one ends with it, however that ends
ended_in_order()   block: SIGTERM ends it as an interrupt does
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def end_after(wait: Callable[[], object]) -> None:
    """This process ends at once, with status 1, when `wait()` returns, which runs on a thread.

    A process that is ended by a signal says nothing to those that it has started: these see that
    something of it is gone, for example the other end of a pipe.
    """

    def end() -> None:
        wait()
        os._exit(1)

    threading.Thread(target=end, name="pyjax: ends with its parent", daemon=True).start()


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Context manager: the first SIGTERM, which ends a process where it stands, raises SystemExit
    in the block, so that files are removed and other processes ended; a second one ends the
    process. Only on the main thread, where handlers run. Not for blocks that take locks which
    other threads wait for, as those of pools: what is raised there may keep one.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(128 + number)  # what shells say of it

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
