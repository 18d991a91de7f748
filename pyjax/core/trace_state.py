"""The current trace of each thread.

Layer: core.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pyjax._config.blocks import Leaving, take_out_of_last

Result = TypeVar("Result")
# Where every thread starts: core.trace puts the eval trace here.
_first: list[Any] = []


class _ThreadState(threading.local):
    """`traces`: the current trace first, then what will be current when the open blocks end.

    Code that works under another trace has a list of its own, put there and back without a call in
    between that a signal handler could interrupt:

        outer = state.traces
        state.traces = [trace]
        try:
            ...
        finally:
            state.traces = outer

    So a generator's block that was opened in that code and is open when it ends is of no effect
    any more, and the end of one that was opened before does not change the trace of that code.
    """

    traces: list[Any]

    def __init__(self) -> None:
        self.traces = [*_first]


state = _ThreadState()

# Something for each block of a trace other than plain evaluation that is open in any thread.
# Reading a thread's own trace takes longer than finding this empty, so call paths test
# `not entered or state.traces[0] is eval_trace`: whether this thread traces, whatever others do.
# Adding and removing an element is one step each; a lock here could be held by nobody after a fork.
entered: set[Any] = set()


def start_with(trace: Any) -> None:
    """Every thread starts with this trace."""
    _first[:] = [trace]
    state.traces[:] = _first


def under(trace: Any, function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, where `bind` goes to `trace`, which is not the eval trace."""
    outer, mark = state.traces, object()
    state.traces = [trace]
    try:
        entered.add(mark)
        return function(*arguments)
    finally:
        state.traces = outer
        entered.discard(mark)


class set_current_trace:
    """Context manager: `bind` goes to `trace` inside, in this thread.

    >>> with take_current_trace() as outside, set_current_trace(outside):
    ...     print(find_top_trace(()) is outside)
    True
    """

    __slots__ = ("__weakref__", "_opened", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self._opened: list[list[Any]] = []  # the lists in which it is, the last one first

    def __enter__(self) -> Any:
        if not self.trace.is_eval:
            # It goes with this object, a moment after the block at the latest; no code must run for
            # it that a signal handler could interrupt.
            entered.add(weakref.ref(self, entered.discard))
        traces = state.traces
        self._opened[:0] = (traces,)
        traces[:0] = (self.trace,)
        return self.trace

    __exit__ = Leaving(lambda manager: take_out_of_last(manager._opened, manager.trace))


def current_trace() -> Any:
    """The trace that `bind` goes to in this thread."""
    return state.traces[0]
