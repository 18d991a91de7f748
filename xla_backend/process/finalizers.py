"""Finalizers without byte code.

Between two byte codes of the main thread Python may run a signal handler, and one that raises
(Ctrl-C does) ends a `__del__` half-way: Python prints the exception and forgets it, and what the
method had not done yet is never done. A C function is not interrupted.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import attrgetter
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


def reading(*properties: str) -> Any:
    """A `__del__` that reads these properties of `self`, one after the other.

    Make the first one of a function written in C, `property(list.append)` say, that keeps what must
    not be lost; others may be interrupted.
    """
    return _as_method(attrgetter(*properties))
