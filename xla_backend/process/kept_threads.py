"""Threads that are kept for later work.

A `threading.Thread` that goes is taken out of a set by a function in Python, of the standard
library. Where that is on the main thread, and the handler of a signal raises in it, Python prints
the exception and forgets it: a Ctrl-C is lost. So no thread of short work goes there: they are
kept, and those that are too many end by themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue

from xla_backend.process.own_threads import begin_thread

# Threads without work that are kept.
_MOST_IDLE = 256


class _Thread:
    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def run(self) -> None:
        stays = True
        while stays:
            task = self.tasks.get()
            task()
            del task  # it refers to what it used
            stays = len(_idle) < _MOST_IDLE
            if stays:
                _idle.append(self)


_idle: list[_Thread] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def on_kept_thread(task: Callable[[], object]) -> None:
    """Begin `task()`, which raises nothing, on another thread.

    Raises:
      RuntimeError: the system has no thread for it.
    """
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
        begin_thread("pyjax helper", thread.run)
    thread.tasks.put(task)
