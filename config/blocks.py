"""Context managers whose blocks end as they should whatever signals arrive.

Python runs signal handlers on the main thread: at the start of a function, after a call, at the end
of a turn of a loop. A handler may raise (Ctrl-C does). An `__exit__` in Python that is interrupted
at its start does nothing, and what it was to put back stays for good as it was inside the block. A
function in C is not interrupted, so here it is one that ends the block.

API
  Leaving(how)                       the `__exit__` of a context manager
  take_out(stack, element)           for Leaving: takes the first such element out of a list
  take_out_of_last(opened, element)  the same, out of the list `opened[0]`, which goes too
  take_out_of_variables(variables, element)  the same, out of the tuples in context variables

What is in force in a thread is a list, innermost first; entering a block puts an element before the
others, as the last thing that `__enter__` does and without a call: `stack[:0] = (element,)`. Blocks
in generators end in any order: each takes out its own element, and what is in force is found from
those that are left. `try` ... `finally` blocks are as good, if the `finally` begins with what must
happen and does that without a call.

What is in force in a context (`contextvars`: a thread, or a task of asyncio) is a tuple, which
contexts may share. Entering a block sets another one, and must put the old one back if it is
interrupted in the call that does it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from itertools import repeat, tee
from operator import itemgetter, not_
from typing import Any

_object = ctypes.py_object
# The last three arguments are those of `__exit__`. A C function does not see arguments beyond its
# own. What these return here, None, lets exceptions pass.
_call = ctypes.PYFUNCTYPE(_object, *[_object] * 5)(("PyObject_CallObject", ctypes.pythonapi))
_next = ctypes.PYFUNCTYPE(_object, *[_object] * 4)(("PyIter_Next", ctypes.pythonapi))

Leave = Callable[[Any, Any, Any], Any]


def take_out(stack: list[Any], element: Any) -> Leave:
    """An `__exit__` that takes the first `element` out of `stack`.

    Args:
      element: compared by identity, or by an `==` that is no Python code.

    >>> stack = [1, 2, 1]
    >>> take_out(stack, 1)(None, None, None)
    >>> stack
    [2, 1]
    """
    return partial(_call, stack.remove, (element,))


def take_out_of_last(opened: list[list[Any]], element: Any) -> Leave:
    """An `__exit__` that takes the first list out of `opened`, and `element` out of that list.

    Which list that is shows when the block ends.

    >>> outer, inner = [1, 2], [1, 3]
    >>> take_out_of_last([inner, outer], 1)(None, None, None)
    >>> outer, inner
    ([1, 2], [3])
    """
    return partial(_next, map(list.remove, map(opened.pop, repeat(0)), repeat(element)))


def take_out_of_variables(variables: Sequence[ContextVar[tuple[Any, ...]]], element: Any) -> Leave:
    """An `__exit__` that sets each variable to its tuple without the first `element`.

    In the context where the block ends.

    >>> some, others = (ContextVar("v", default=values) for values in ((1, 2, 1), (3, 1)))
    >>> take_out_of_variables([some, others], 1)(None, None, None)
    False
    >>> some.get(), others.get()
    ((2, 1), (3,))
    """
    # All of it happens when the last of these is asked for an element; the tokens that `set`
    # returns become False, which lets exceptions pass.
    return partial(_next, map(not_, zip(*[_shortened(v, element) for v in variables])))


def _shortened(variable: ContextVar[tuple[Any, ...]], element: Any) -> Iterator[Any]:
    """Asked for an element, it sets the variable: what is in it, as a list, without the element, as
    a tuple, goes into it."""
    lists, same = tee(map(list, iter(variable.get, None)))
    shorter = map(itemgetter(1), zip(map(list.remove, lists, repeat(element)), same))
    return map(variable.set, map(tuple, shorter))


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
