"""Work inside LLVM is done where no signal handler interrupts it.

API
  apart(work, *arguments)    work(*arguments), on a thread that runs no signal handlers
  given_back_apart           class decorator: `give_back()` of an object that nobody refers to any
                             more is called on that thread

Python runs signal handlers on the main thread, between any two of its byte codes. One that raises
(Ctrl-C does) would end llvmlite's bookkeeping half-way: a string of LLVM's freed but not forgotten,
and so freed twice; LLVM's lock taken and never given back. So the main thread hands such work to
another thread and waits; that wait can be interrupted, the work goes on to its end. Threads other
than the main one run no handlers and do their work themselves.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from xla_backend.process.finalizers import handing_over
from xla_backend.process.forks import ForkedWhileCompilingError, check_forked
from xla_backend.process.own_threads import Service
from xla_backend.process.waits import LOOK_EVERY

Kind = TypeVar("Kind")
Result = TypeVar("Result")


class _Job:
    """One call, made on the other thread, that somebody here waits for."""

    __slots__ = ("arguments", "caller", "claim", "done", "error", "finished", "result", "work")

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.work = work
        self.arguments = arguments
        self.caller = threading.get_ident()
        self.claim = [True]  # who takes the one element does it
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.finished = threading.Lock()  # held until it is
        self.finished.acquire()

    def run(self) -> None:
        try:
            del self.claim[0]
        except IndexError:  # it was handed over twice, before a fork and in the child
            return
        try:
            self.result = self.work(*self.arguments)
        except BaseException as error:  # raised again by the caller
            _clear_frames(error)
            self.error = error
        self.done = True
        self.finished.release()


# Jobs, and objects with something to give back.
_handed_over: SimpleQueue[Any] = SimpleQueue()
_given_back: list[type] = []  # the classes of the latter
_unfinished: set[_Job] = set()
_service = Service("pyjax: LLVM")


def apart(work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of `work(*arguments)`, which runs to its end whatever signals arrive.

    Raises:
      What `work` raises, and what a signal handler raises meanwhile.
    """
    if sys.is_finalizing():  # the other thread does not run any more
        return work(*arguments)
    _start()
    if threading.current_thread() is not threading.main_thread():
        return work(*arguments)
    job = _Job(work, arguments)
    _unfinished.add(job)
    try:
        _handed_over.put(job)
        while True:
            if job.finished.acquire(True, LOOK_EVERY):
                break
            _start()  # a handler may have forked, and this be the child
        if job.error is not None:
            raise job.error
        return cast(Result, job.result)
    finally:
        _unfinished.discard(job)
        del job  # it keeps the error, whose traceback keeps this frame


def given_back_apart(kind: type[Kind]) -> type[Kind]:
    """Class decorator: when the last reference to an object goes, on whatever thread, its
    `give_back()` is called on the thread that runs no signal handlers."""
    _given_back.append(kind)
    kind.__del__ = handing_over(_handed_over.put)  # type: ignore[attr-defined]
    return kind


def _start() -> None:
    """Make sure that the thread is there. A second one, begun at the same moment, does no harm."""
    _service.begin(_serve)


def _serve() -> None:
    # That of this process: who begins the thread may be forked meanwhile.
    handed_over = _handed_over
    while True:
        item = handed_over.get()
        if not isinstance(item, _Job):
            _give_back(item)
        else:
            item.run()
        del item  # it must not wait for the next one


def _give_back(item: Any) -> None:
    """Nobody waits for this: an error is shown as that of a thread, but this one goes on."""
    try:
        item.give_back()
    except BaseException as error:
        _clear_frames(error)
        current = threading.current_thread()
        with suppress(Exception):  # nowhere to show it
            threading.excepthook(
                threading.ExceptHookArgs((type(error), error, error.__traceback__, current))
            )


def _clear_frames(error: BaseException | None) -> None:
    """Let go of LLVM's objects in the frames of a traceback."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _after_fork_in_child() -> None:
    """A child has no such thread. A fork in a signal handler leaves its caller waiting here too."""
    global _handed_over
    # The parent's thread may have been inside the old queue, whose own lock nobody gives back then.
    # What was in it to be given back stays in the child's memory.
    _handed_over = SimpleQueue()
    for kind in _given_back:
        kind.__del__ = handing_over(_handed_over.put)  # type: ignore[attr-defined]
    mine = [job for job in _unfinished if job.caller == threading.get_ident()]
    _unfinished.clear()
    for job in mine:  # done, but its caller does not know yet
        if job.done and job.finished.locked():
            job.finished.release()
    lost = [job for job in mine if not job.done]
    if not lost:
        return
    try:
        check_forked()
    except ForkedWhileCompilingError as error:
        for job in lost:
            job.error = error
            job.finished.release()
        return
    _start()
    for job in lost:
        job.claim = [True]
        _handed_over.put(job)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
