"""Tracebacks without the library's own frames, as the option jax_traceback_filtering says.

Modes: `off`; `tracebackhide` marks frames for tools that honour `__tracebackhide__` (IPython,
  pytest);
`remove_frames` shows the user's frames and chains the full traceback as the cause;
`quiet_remove_frames` shows the user's frames and a note; `auto` is the second in IPython, else the
fourth. Layer: core.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from pyjax._config import options
from pyjax.core.host_program import in_ipython
from pyjax.core.source_info import is_internal_file

F = TypeVar("F", bound=Callable[..., Any])
_NOTE = (
    "--------------------\n"
    "For simplicity, pyjax has removed its internal frames from the traceback of this exception. "
    "Set JAX_TRACEBACK_FILTERING=off to include these."
)


class SimplifiedTraceback(Exception):
    """The cause attached in mode `remove_frames`: its traceback is the complete one."""

    def __str__(self) -> str:
        return "the stack trace above leaves out the frames of pyjax; the complete one is here"


class _Depth(threading.local):
    value = 0


_depth = _Depth()


def _mode() -> str:
    mode = options.traceback_filtering.value
    if mode != "auto":
        return mode
    return "tracebackhide" if in_ipython() else "quiet_remove_frames"


def user_entries(traceback: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback with the library's frames left out; None if nothing else is there."""
    frames = []
    while traceback is not None:
        if not is_internal_file(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    out = None
    for entry in reversed(frames):
        out = TracebackType(out, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return out


def _hide_frames(traceback: TracebackType | None) -> None:
    while traceback is not None:
        frame = traceback.tb_frame
        if is_internal_file(frame.f_code.co_filename):
            frame.f_locals["__tracebackhide__"] = True
        traceback = traceback.tb_next


def filter_exception(error: BaseException) -> BaseException:
    """Apply the configured mode to an exception that is about to leave the library."""
    mode = _mode()
    if mode == "off":
        return error
    if mode == "tracebackhide":
        _hide_frames(error.__traceback__)
        return error
    filtered = user_entries(error.__traceback__)
    if mode == "remove_frames":
        if isinstance(error.__cause__, SimplifiedTraceback):  # it has left a function before
            return error.with_traceback(filtered)
        complete = SimplifiedTraceback().with_traceback(error.__traceback__)
        complete.__cause__ = error.__cause__
        error.__cause__ = complete
    elif _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
    return error.with_traceback(filtered)


def leave(error: BaseException) -> None:
    """Filter an exception that is about to leave a function that users call, if it is the outermost
    of them. The handler then says `raise` without an exception, which, other than `raise error`,
    adds no entry for its own frame."""
    if not _depth.value:
        filter_exception(error)


def api_boundary(fun: F) -> F:
    """Decorator of functions users call: exceptions that leave the outermost one are filtered."""

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        _depth.value += 1
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            if _depth.value == 1:
                filter_exception(error)
            raise
        finally:
            _depth.value -= 1

    return call  # type: ignore[return-value]
