"""The current trace of each thread.

Layer: core.
"""

from __future__ import annotations

import threading
from typing import Any


class _ThreadState(threading.local):
    # Set on the class by core.trace: every thread starts under the eval trace.
    trace: Any = None


state = _ThreadState()

# The `set_current_trace` blocks for traces other than plain evaluation that are open in any thread.
# Reading a thread's own trace takes longer than finding this empty, so call paths test
# `not entered or state.trace is eval_trace`: whether this thread traces, whatever others do. Adding
# and removing an element is one step each; a lock here could be held by nobody after a fork.
entered: set[Any] = set()


class set_current_trace:
    """Context manager: `bind` goes to `trace` inside, in this thread."""

    __slots__ = ("previous", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.previous: Any = None

    def __enter__(self) -> Any:
        self.previous = state.trace
        if not self.trace.is_eval:
            entered.add(self)
        state.trace = self.trace
        return self.trace

    def __exit__(self, *exc: Any) -> None:
        state.trace = self.previous
        entered.discard(self)


def current_trace() -> Any:
    """The trace that `bind` goes to in this thread."""
    return state.trace
