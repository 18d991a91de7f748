"""Threads that the library begins, on whatever thread and in the middle of whatever signals.

  begin_thread(name, work)    another thread, which does `work()`
  Service(name, work)         the one thread of this process for some purpose
      .begin()                begin it, if this process has none
      .is_there()             whether this process has it

`threading.Thread.start()` waits until the thread has come that far. Where that is on the main
thread, and the handler of a signal forks in the middle of it, the child waits for ever: it has no
such thread. Where a handler raises, a lock may stay taken. So nothing is waited for here: beginning
a thread is one call in C. What `threading` knows of it is what it knows of threads of other
libraries, and a name.

They end with the process.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable
from functools import partial


def begin_thread(name: str, work: Callable[[], object]) -> None:
    """`work()`, which raises nothing, on another thread.

    Raises:
      RuntimeError: the system has no thread for it.
    """
    _thread.start_new_thread(_named, (name, work))


def _named(name: str, work: Callable[[], object]) -> None:
    threading.current_thread().name = name
    work()


class Service:
    """The thread of this process for some purpose; a child of `fork` begins its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = 0  # which has the thread

    def begin(self, work: Callable[[], object]) -> None:
        """Have it do `work()`, if there is none. Two threads that come here at the same moment may
        begin one each.

        Raises:
          RuntimeError: the system has no thread for it.
        """
        # The number is taken first: a handler that comes before the end of this may fork, and its
        # child, which goes on here, has no such thread.
        process = os.getpid()
        if self._process != process:
            begin_thread(self._name, partial(self._serve, work))
            self._process = process

    def _serve(self, work: Callable[[], object]) -> None:
        try:
            work()
        finally:
            self._process = 0

    def is_there(self) -> bool:
        """Whether this process has the thread."""
        return self._process == os.getpid()

    def is_this_thread(self) -> None:
        """The thread has forked, and is all there is in this process."""
        self._process = os.getpid()
