"""Finalizers without byte code.

Between two byte codes of the main thread Python may run a signal handler, and one that raises
(Ctrl-C does) ends a `__del__` half-way: Python prints the exception and forgets it, and what the
method had not done yet is never done. A C function is not interrupted.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from operator import attrgetter, call, itemgetter
from typing import Any

_as_method = ctypes.pythonapi.PyInstanceMethod_New
_as_method.argtypes = [ctypes.py_object]
_as_method.restype = ctypes.py_object


def handing_over(receive: Callable[[Any], object]) -> Any:
    """A `__del__` that calls `receive(self)`, for a function written in C such as `list.append` or
    `SimpleQueue.put` of some list or queue.

    The object lives on in there. Python calls a finalizer once: when the object goes for good,
    nothing happens.

    >>> gone = []
    >>> class Block(int):
    ...     __del__ = handing_over(gone.append)
    >>> block = Block(64)
    >>> del block
    >>> gone
    [64]
    """
    return _as_method(receive)


def handing_over_then(
    receive: Callable[[Any], object],
    then: Callable[[], object],
    wanted: Iterator[bool] | None = None,
) -> dict[str, Any]:
    """Members of a class whose objects go to `receive(self)`, as with `handing_over`, after which
    `then()` runs, which may be of Python: each time, or if the next of `wanted`, which is not, is
    true.

    In the main thread it runs a moment later, between two byte codes of whatever goes on there, so
    that what a signal handler raises meanwhile arrives; once for all objects that went till then.

    >>> gone = []
    >>> members = handing_over_then(gone.append, lambda: print(len(gone), "went"))
    >>> block = type("Block", (int,), {"__slots__": (), **members})(64)
    >>> del block
    1 went
    """
    noted = map(_due.setdefault, repeat(then))
    posted = map(_add_pending_call, map(_first, zip(repeat(_is_true), noted)), repeat(id(_run_due)))
    ways = (then, posted.__next__)
    here = map(_in_main_thread.get, map(call, repeat(threading.get_ident)), repeat(False))
    taken = map(call, map(ways.__getitem__, here))
    if wanted is not None:
        taken = map(call, map((bool, taken.__next__).__getitem__, wanted))  # bool() is nothing
    return {
        "_received": property(receive),
        "_then": property(partial(next, taken)),  # called with self, which `next` does not return
        "__del__": _as_method(attrgetter("_received", "_then")),
    }


_first = itemgetter(0)
_due: dict[Callable[[], object], None] = {}


class _RunDue:
    """Its truth value is asked by Python's main loop, which passes on what is raised."""

    def __bool__(self) -> bool:
        while _due:
            _due.popitem()[0]()
        return False


_run_due = _RunDue()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_run_due))  # asked until the very end of the process
_is_true = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value
_add_pending_call = ctypes.pythonapi.Py_AddPendingCall
_add_pending_call.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

_in_main_thread = {threading.main_thread().ident: True}


def _note_main_thread() -> None:
    _in_main_thread.clear()
    _in_main_thread[threading.get_ident()] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_main_thread)
