"""The current trace of each thread, and one process-wide flag that says if anybody traces.

Layer: core.
"""

from __future__ import annotations

import threading
from typing import Any


class _ThreadState(threading.local):
    # Set on the class by core.trace: every thread starts under the eval trace.
    trace: Any = None


class _Flags:
    """`tracing`: how many non-eval traces are entered in the process; 0 means plain execution."""

    __slots__ = ("tracing",)

    def __init__(self) -> None:
        self.tracing = 0


state = _ThreadState()
trace_state = _Flags()
_lock = threading.Lock()


class set_current_trace:
    """Context manager: `bind` goes to `trace` inside."""

    __slots__ = ("counted", "previous", "trace")

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.counted = not trace.is_eval
        self.previous: Any = None

    def __enter__(self) -> Any:
        self.previous = state.trace
        state.trace = self.trace
        if self.counted:
            with _lock:
                trace_state.tracing += 1
        return self.trace

    def __exit__(self, *exc: Any) -> None:
        state.trace = self.previous
        if self.counted:
            with _lock:
                trace_state.tracing -= 1


def current_trace() -> Any:
    """The trace that `bind` goes to in this thread."""
    return state.trace
