"""Context managers whose blocks end as they should whatever signals arrive.

Python runs signal handlers on the main thread: at the start of a function, after a call, at the end
of a turn of a loop. A handler may raise (Ctrl-C does). An `__exit__` in Python that is interrupted
at its start does nothing, and what it was to put back stays for good as it was inside the block. A
function in C is not interrupted, so here it is one that ends the block.

API
  Leaving(how)                the `__exit__` of a context manager
  drop_last(stack)            for Leaving: takes the last element off a list
  put_back(stack, before)     for Leaving: gives a list the elements `before`

What is in force in a thread is a list; entering a block puts an element on it, as the last thing
that `__enter__` does and without a call: `stack += (element,)`. `try` ... `finally` blocks are as
good, if the `finally` begins with what must happen and does that without a call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

_object = ctypes.py_object
# The last three arguments are those of `__exit__`. A C function does not see arguments beyond its
# own, and what these return, 0, lets exceptions pass.
_delete_item = ctypes.PYFUNCTYPE(ctypes.c_int, _object, ctypes.c_ssize_t, *[_object] * 3)(
    ("PySequence_DelItem", ctypes.pythonapi)
)
_set_item = ctypes.PYFUNCTYPE(ctypes.c_int, *[_object] * 6)(("PyObject_SetItem", ctypes.pythonapi))

Leave = Callable[[Any, Any, Any], Any]


def drop_last(stack: list[Any]) -> Leave:
    """An `__exit__` that takes the last element off `stack`.

    >>> stack = [1, 2]
    >>> drop_last(stack)(None, None, None)
    0
    >>> stack
    [1]
    """
    return partial(_delete_item, stack, -1)


def put_back(stack: list[Any], before: list[Any]) -> Leave:
    """An `__exit__` that gives `stack` the elements of `before`."""
    return partial(_set_item, stack, slice(None), before)


class Leaving:
    """Descriptor: `with` asks it for the function that ends the block before the block begins.

    Args:
      how: the function for a context manager; an `__exit__` that calls no Python code.
    """

    def __init__(self, how: Callable[[Any], Leave]) -> None:
        self._how = how

    def __get__(self, manager: Any, owner: type | None = None) -> Callable[..., Any]:
        return self._leave if manager is None else self._how(manager)

    def _leave(self, manager: Any, *exc: Any) -> Any:
        return self._how(manager)(*exc)  # type: ignore[call-arg]
