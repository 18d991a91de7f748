"""meanwhile(work): one thing is made on another thread while the body makes another.

For work that spends its time outside of the interpreter (inside LLVM), whose result is remembered
somewhere, and which the body's successor asks for anyway. So an error is not raised here: who asks
then makes it again, and gets the same error.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context

from xla_backend.process.kept_threads import on_kept_thread
from xla_backend.process.later import is_here
from xla_backend.process.waits import LOOK_EVERY


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """`work()` runs on another thread while the body runs; both have ended afterwards.

    >>> made = []
    >>> with meanwhile(lambda: made.append(1)):
    ...     pass
    >>> made
    [1]
    """

    # Nobody waits for that thread, and it begins no others; when Python ends, others run no more.
    if is_here() or sys.is_finalizing():
        with suppress(Exception):
            work()
        yield
        return
    parent = os.getpid()
    running = threading.Lock()
    running.acquire()

    def run() -> None:
        try:
            # Who needs the result makes it again, and meets the same error.
            with suppress(Exception):
                Context().run(work)
        finally:
            running.release()

    on_kept_thread(run)
    try:
        yield
    finally:
        # A handler may fork: a child has no such thread, and makes what it needs itself.
        while not running.acquire(True, LOOK_EVERY) and os.getpid() == parent:
            pass
