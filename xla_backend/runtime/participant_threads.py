"""Threads for the participants of runs: tasks that wait for each other, and so need a thread each.

The caller's thread runs the first task, and sees the signals that come meanwhile. The others get
threads that are kept for later runs; each runs its task in a copy of the caller's context.

A handler of a signal may raise between any two steps of the main thread. What must not be left half
done is a task that runs apart from it: the caller waits, is interrupted there, and tells the task.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from xla_backend.process.kept_threads import on_kept_thread
from xla_backend.process.waits import LOOK_EVERY

Result = TypeVar("Result")


class Outcome(Generic[Result]):
    """What became of a task.

    Attributes:
      results: its result, alone; empty if there is an error.
    """

    __slots__ = ("error", "results")

    def __init__(self, task: Callable[[], Result]) -> None:
        self.results: list[Result] = []
        self.error: BaseException | None = None
        try:
            self.results.append(task())
        except BaseException as error:
            self.error = error


def run_together(
    tasks: Sequence[Callable[[], Result]], stop: Callable[[], None], *, takes_part: bool = True
) -> list[Outcome[Result]]:
    """Run tasks at the same time, and wait for all of them, whatever happens.

    Args:
      stop: called when the first task has failed, the caller is interrupted, or there is no thread
        for a task; the tasks are to end then.
      takes_part: whether the caller's thread runs the first one.
    Raises:
      RuntimeError: the system has no thread for a task, or this is a child that a signal's handler
        forked meanwhile, which has none of the threads. What a handler raises while the caller
        waits. All tasks of this process have ended then.
    """
    caller, thread = "caller", "thread"
    owners: dict[int, str] = {}  # of tasks: who takes one first runs it, or says that nobody does
    outcomes: dict[int, Outcome[Result]] = {}
    ended: SimpleQueue[None] = SimpleQueue()

    def started(number: int, task: Callable[[], Result]) -> None:
        context = contextvars.copy_context()

        def run() -> None:
            if owners.setdefault(number, thread) == thread:
                outcomes[number] = Outcome(lambda: context.run(task))
                ended.put(None)

        on_kept_thread(run)

    def waits() -> bool:
        if os.getpid() != process:
            return False  # nobody here runs them
        return any(owners.get(n, thread) == thread and n not in outcomes for n in others)

    process = os.getpid()
    others = range(takes_part, len(tasks))
    interrupt: BaseException | None = None
    begun = False
    while True:
        # What a call gives is lost where a handler raises after it: nothing here depends on that.
        try:
            if not begun:
                begun = True
                for number in others:
                    started(number, tasks[number])
                if takes_part:
                    outcomes[0] = Outcome(tasks[0])
                    if outcomes[0].error is not None:
                        stop()  # an interrupt may have come before the task could tell the others
            elif interrupt is not None:
                for number in others:
                    owners.setdefault(number, caller)
                stop()
            while True:
                if not waits():
                    break
                with suppress(Empty):
                    ended.get(timeout=LOOK_EVERY)
            break
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
    if os.getpid() != process:
        raise RuntimeError(
            f"process {os.getpid()} was forked, by the handler of a signal, while process {process}"
            " ran a program on several threads: the child has none of them, and so no results; run "
            "the program again there, or fork before or after it"
        )
    return [outcomes[number] for number in range(len(tasks))]


class Interrupted(Exception):
    """Whoever waits for this task was interrupted: it is to end."""


class Task:
    """Work on a thread for somebody who may be interrupted, and then tells it to end.

    Attributes:
      is_interrupted: whether it was told.
    """

    def __init__(self) -> None:
        self.is_interrupted = False
        self._stops: list[Callable[[], None]] = []

    def run(self, work: Callable[[], Result]) -> Result:
        """`work()`, in a context of its own, as a part of this."""
        _current.set(self)
        return work()

    def interrupt(self) -> None:
        """It is to end."""
        self.is_interrupted = True
        for stop in list(self._stops):
            stop()

    def run_until(self, stop: Callable[[], None], work: Callable[[], Result]) -> Result:
        self._stops.append(stop)
        try:
            if self.is_interrupted:
                stop()
            return work()
        finally:
            self._stops.remove(stop)


_current: contextvars.ContextVar[Task | None] = contextvars.ContextVar("task", default=None)


def check_interrupt() -> None:
    """What waits in a task calls this now and then.

    Raises:
      Interrupted: it is to end.
    """
    task = _current.get()
    if task is not None and task.is_interrupted:
        raise Interrupted("it was interrupted")


def stoppable(stop: Callable[[], None], work: Callable[[], Result]) -> Result:
    """`work()`, which `stop` ends early: called if the task that this is a part of is to end."""
    task = _current.get()
    return work() if task is None else task.run_until(stop, work)


def run_apart(work: Callable[[], Result]) -> Result:
    """`work()`, in which no handler of a signal raises: on the main thread, where these run, the
    caller waits for another one.

    Raises:
      what the work does; what a handler raises while the caller waits. The work was told, and has
      ended then.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    task = Task()
    (outcome,) = run_together([lambda: task.run(work)], task.interrupt, takes_part=False)
    if outcome.error is not None:
        raise outcome.error
    return outcome.results[0]
