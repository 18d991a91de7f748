"""Queues of programs: each runs what it is given in order, on a thread of its own that knows
nothing of Python, so that it never waits for the interpreter lock.

A program in a queue has a *ticket*, memory of its submitter in which it says how it went. Whoever
submits it keeps what it uses until the ticket is done. A ticket may name others of the same queue
that it comes after: if one of them failed it does not run, and has failed as well.

To wake a thread takes longer than some programs. So a program runs on the thread of who waits for
it, if that is there first, and it will not be long; the queue's *turn* is with one thread at a
time.

API
  queue_library()      pyjax_queue_submit, pyjax_queue_wait, pyjax_queue_help
"""

from __future__ import annotations

import ctypes
import sys

from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.process.bounded_cache import once
from xla_backend.process.on_first_use import on_first_use
from xla_backend.targets.cpu.routines.kept_objects import kept_object
from xla_backend.targets.cpu.routines.python_calls import bridge_library

# Of entries on disk.
QUEUE = "queue"
_queue_text = on_first_use("xla_backend.targets.cpu.routines.queue_functions", "queue_text")
_LINUX = sys.platform.startswith("linux")


@once
def queue_library() -> Library:
    """The functions of queues. The library is never unmapped: its threads do not end."""
    target = host_target()
    code = kept_object(QUEUE, target, lambda: _queue_text(target, _LINUX))
    library = Library(code, bridge_library().addresses())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library
