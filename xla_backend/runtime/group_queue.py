"""Programs of several devices that go on while their callers do.

One thread runs them one after the other, in the order of the calls; each has threads for its other
participants, and that thread for the first. It serves one caller's thread at a time: while there
are programs of another one, a thread runs its own itself, as it would without.

A program is submitted by one call of C, after which it runs whatever a signal handler raises there.
Its results are containers of buffers, which are empty until it has ended. No signal interrupts it:
what a handler raises ends the wait of whoever wants a result. A program whose results nobody has
any more is stopped when that keeps others from running, before the process ends, and in children of
a fork it is lost.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from xla_backend.process.background import work_goes_on
from xla_backend.process.own_threads import Service
from xla_backend.runtime.participant_threads import Task
from xla_backend.runtime.pending import LOST, STOPPED, Job, Origin

# Programs that may be under way before the next caller waits for the oldest one.
_MOST_RUNS = 32
_SLICE = 0.05  # seconds of a wait after which it is looked whether a thread is at work
# For programs to stop when they are told to: they ask every tenth of a second or so.
_STOP_SECONDS = 10.0


class _Run:
    """A program in the queue.

    Attributes:
      job: what its results have, as long as there are any.
      is_over: whether it has ended, or never will.   error: why it has no results.
    """

    __slots__ = (
        "_after",
        "_context",
        "_finished",
        "_origin",
        "_task",
        "_work",
        "error",
        "is_over",
        "job",
    )

    def __init__(self, work: Callable[[], None], after: Sequence[_Run], origin: Origin) -> None:
        self._work: Callable[[], None] | None = work
        self._after = after
        self._origin = origin
        self._task = Task()
        self._context: contextvars.Context | None = contextvars.copy_context()
        self._finished = threading.Lock()  # held until it has
        self._finished.acquire()
        self.is_over = False
        self.error: tuple[Origin, str] | None = None
        self.job: Callable[[], GroupJob | None] = lambda: None

    def run(self) -> None:
        """On the queue's thread, once. Raises nothing: those behind it would wait for ever."""
        work, context = self._work, self._context
        if self.is_over or work is None or context is None:
            return
        error: tuple[Origin, str] | None = None
        try:
            error = next((run.error for run in self._after if run.error is not None), None)
            if error is None:
                start = time.perf_counter_ns()
                context.run(self._task.run, work)
                self._origin.took(time.perf_counter_ns() - start)
        except BaseException as failure:
            error = (self._origin, STOPPED if self._task.is_interrupted else _text(failure))
        del work, context  # they refer to what it used
        self.end(error)

    def end(self, error: tuple[Origin, str] | None) -> None:
        self.error = error
        self._work = self._context = None
        self._after = ()
        self.is_over = True
        self._finished.release()

    def lose(self) -> None:
        """This process was forked from the one that runs it."""
        self.end((self._origin, LOST))

    def stop(self) -> None:
        self._task.interrupt()

    def look(self, seconds: float) -> None:
        """Wait so long for its end, or less."""
        if self._finished.acquire(timeout=min(seconds, _SLICE)):
            self._finished.release()


def _text(failure: BaseException) -> str:
    kind = type(failure).__name__
    try:
        return str(failure) or kind
    except Exception:  # of the failure's own class
        return f"{kind}, which raises where it is asked for its text"


class GroupJob(Job):
    """What the results of a program have that is in the queue."""

    __slots__ = ("__weakref__", "run")

    def __init__(self, run: _Run) -> None:
        self.run = run
        run.job = weakref.ref(self)

    def is_done(self) -> bool:
        return self.run.is_over

    def wait(self) -> None:
        try:
            while True:
                if self.run.is_over:
                    break
                self.run.look(_SLICE)
                _queue.wake()
        except BaseException:
            _queue.doubt()
            raise
        if self.run.error is not None:
            origin, message = self.run.error
            raise origin.error(message)


class GroupQueue:
    """The one of this process."""

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._service = Service("pyjax groups")
        self._owner = 0
        self._doubtful = False
        self.is_closed = False

    # -- programs ----------------------------------------------------------------------------------

    def takes(self, after: Sequence[Job]) -> bool:
        """Whether a program of this thread that uses results of these jobs may enter; waits while
        there are too many. Jobs of devices are waited for."""
        self.reap()
        runs, thread = self._runs, threading.get_ident()
        if self._doubtful and not any(type(job) is GroupJob for job in after):
            # Somebody gave up waiting: who needs nothing of what is here does not get in line.
            self._stop_abandoned()
            if runs:
                return False
        if (runs and self._owner != thread) or self.is_closed:
            return False
        for job in after:
            if type(job) is not GroupJob:
                job.wait()
        while len(runs) >= _MOST_RUNS:
            self._wait_for_first()
        self._owner = thread
        return True

    def _wait_for_first(self) -> None:
        try:
            first = self._runs[0]
        except IndexError:  # another thread has let go of all
            return
        try:
            while True:
                if first.is_over:
                    break
                first.look(_SLICE)
                self.wake()
        except BaseException:
            self.doubt()
            raise
        self.reap()

    def submit(self, work: Callable[[], None], after: Sequence[Job], origin: Origin) -> GroupJob:
        """The job of a program.

        Args:
          work: runs it, on another thread and in a copy of this context.
          after: jobs that make what it uses; where one fails, so does this.
        """
        runs = [job.run for job in after if type(job) is GroupJob]
        job = GroupJob(_Run(work, runs, origin))
        self._serve()
        self._runs.append(job.run)
        self.wake()
        return job

    def wake(self) -> None:
        """Have the thread look for programs."""
        self._wake.put(None)

    def reap(self) -> None:
        """Forget programs that have ended."""
        runs = self._runs
        while runs:
            try:
                first = runs[0]
                if not first.is_over:
                    return
                runs.remove(first)
            except (IndexError, ValueError):  # another thread does the same
                continue
        self._doubtful = False

    def _serve(self) -> None:
        # A second thread, begun at the same moment, finds nothing to do.
        self._service.begin(self._run_all)

    def _run_all(self) -> None:
        # That of this process: who begins the thread may be forked meanwhile.
        wake = self._wake
        while True:
            wake.get()
            with _one_at_a_time:
                for run in list(self._runs):
                    run.run()
                    del run
            self.reap()

    # -- ends --------------------------------------------------------------------------------------

    def doubt(self) -> None:
        """Somebody gave up waiting for a program: it may take for ever."""
        self._doubtful = True

    def _stop_abandoned(self) -> None:
        """Stop all programs if nobody has results of them."""
        if all(run.is_over or run.job() is None for run in list(self._runs)):
            self.stop(_STOP_SECONDS)

    def stop(self, seconds: float) -> None:
        """Stop all programs, and wait so long until they have."""
        for run in list(self._runs):
            run.stop()
        self.drain(seconds)

    def drain(self, seconds: float) -> None:
        """Wait so long until all have ended."""
        end = time.monotonic() + seconds
        for run in list(self._runs):
            while not run.is_over and (left := end - time.monotonic()) > 0:
                run.look(left)
        self.reap()

    def after_fork(self) -> None:
        """In a child, which has not the thread."""
        for run in list(self._runs):
            if not run.is_over:
                run.lose()
        self._runs.clear()
        self._wake = SimpleQueue()
        self._doubtful = False


_one_at_a_time = threading.Lock()
_queue = GroupQueue()
_is_ending = [False]


def group_queue() -> GroupQueue:
    """The queue of this process."""
    return _queue


def _before_fork(seconds: float) -> None:
    _queue.is_closed = True
    _queue.drain(seconds)


def _after_fork_in_parent() -> None:
    _queue.is_closed = _is_ending[0]


def _after_fork_in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()
    _queue.after_fork()
    _queue.is_closed = False


def _end() -> None:
    _is_ending[0] = _queue.is_closed = True
    _queue.stop(_STOP_SECONDS)


work_goes_on(_before_fork, _end)
if hasattr(os, "register_at_fork"):
    # A signal handler may raise at the start of either: so each has a second chance.
    for _ in range(2):
        os.register_at_fork(
            after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
        )
