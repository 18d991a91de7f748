"""The current trace of each thread.

Layer: core.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from pyjax._config.blocks import Leaving, drop_last

Result = TypeVar("Result")
# Where every thread starts: core.trace puts the eval trace here.
_first: list[Any] = []


class _ThreadState(threading.local):
    """`traces`: the traces in force, the current one last. Put one there, and take it away, without
    a call in between that a signal handler could interrupt:

        traces = state.traces
        traces += (trace,)
        try:
            ...
        finally:
            del traces[-1]
    """

    traces: list[Any]

    def __init__(self) -> None:
        self.traces = [*_first]


state = _ThreadState()

# Something for each block of a trace other than plain evaluation that is open in any thread.
# Reading a thread's own trace takes longer than finding this empty, so call paths test
# `not entered or state.traces[-1] is eval_trace`: whether this thread traces, whatever others do.
# Adding and removing an element is one step each; a lock here could be held by nobody after a fork.
entered: set[Any] = set()


def start_with(trace: Any) -> None:
    """Every thread starts with this trace."""
    _first[:] = [trace]
    state.traces[:] = _first


def under(trace: Any, function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, where `bind` goes to `trace`, which is not the eval trace."""
    traces, mark = state.traces, object()
    traces += (trace,)
    try:
        entered.add(mark)
        return function(*arguments)
    finally:
        del traces[-1]
        entered.discard(mark)


class set_current_trace:
    """Context manager: `bind` goes to `trace` inside, in this thread."""

    __slots__ = ("__weakref__", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace

    def __enter__(self) -> Any:
        if not self.trace.is_eval:
            # It goes with this object, a moment after the block at the latest; no code must run for
            # it that a signal handler could interrupt.
            entered.add(weakref.ref(self, entered.discard))
        traces = state.traces
        traces += (self.trace,)
        return self.trace

    __exit__ = Leaving(lambda manager: drop_last(state.traces))


def current_trace() -> Any:
    """The trace that `bind` goes to in this thread."""
    return state.traces[-1]
