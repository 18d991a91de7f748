"""Work that is done later, one piece after the other, on a thread of its own.

  Later(work)           a piece of work; it is done once
      .begin(seconds)   have it done when its turn comes, and not before so many seconds have passed
      .finish()         have it done now, and wait for it
  waiting()             how many pieces have not been done
  finish_all()          wait for all of them
  is_over()             whether nothing more is to begin, because the process ends
  is_here()             whether this is that thread

The thread runs no signal handlers, so that what it has begun comes to an end. Python code holds no
lock here: handlers and finalizers may begin other pieces, and wait for some.

A child of `fork` has no such thread. What was not done begins anew there, if it is of use to it.

When the process ends, pieces that are of use to others (`outlives`) are waited for, the others are
dropped. An interrupt ends that wait: then nothing is waited for but the piece that is under way,
which looks now and then whether it was dropped: a thread inside LLVM must not outlive Python.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from xla_backend.process.background import work_goes_on
from xla_backend.process.no_collections import leave_collector_alone
from xla_backend.process.own_threads import Service
from xla_backend.process.waits import LOOK_EVERY

# Seconds that the end of the process waits for a piece that was dropped while it was under way.
_END_SECONDS = 30.0
# Beside the thread of a caller, on one processor, it gets a quarter of the time.
_NICE = 5


class Later:
    """A piece of work.

    Attributes:
      is_done: it has ended, or was dropped.
      is_dropped: nobody wants it any more. Work under way may look here, and end early.
    """

    __slots__ = (
        "_claim",
        "_due",
        "_gate",
        "_in_child",
        "_outlives",
        "_work",
        "is_done",
        "is_dropped",
    )

    def __init__(
        self,
        work: Callable[[Later], object],
        outlives: Callable[[], bool] = lambda: False,
        in_child: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Args:
          work: is called with this object. What it raises is shown as that of a thread.
          outlives: whether it is of use when this process has ended.
          in_child: whether it is of use in a child of `fork`.
        """
        self._work: Callable[[Later], object] | None = work
        self._claim = [True]  # who takes the one element does it
        self._due = 0.0
        self._outlives = outlives
        self._in_child = in_child
        self._gate = threading.Lock()  # held until it is done
        self._gate.acquire()
        self.is_done = False
        self.is_dropped = False

    def begin(self, seconds: float = 0.0) -> None:
        """Have it done when its turn comes, and, if nobody waits for it, not before so many
        seconds have passed.

        Raises:
          RuntimeError: the system has no thread for it.
        """
        self._due = time.monotonic() + seconds
        _start()
        _pending[self] = None
        _queue.put(self)

    def finish(self) -> bool:
        """Have it done before all others, and wait for it. Whether it is done: code that such work
        runs, finalizers for example, cannot wait for it.

        Raises:
          RuntimeError: it waited for a thread that the system had not, and has not now either.
        """
        if not self.is_done and not is_here():
            _start()
            _urgent.append(self)
            _queue.put(self)
            while not self.is_done:
                self._wait()
                _start()  # a handler may have forked, and this be the child
        return self.is_done

    def _wait(self) -> None:
        """Wait until it is done, or for a moment."""
        if self._gate.acquire(True, LOOK_EVERY):
            self._gate.release()

    def _do(self) -> None:
        try:
            del self._claim[0]
        except IndexError:  # somebody has waited for it
            return
        work = self._work
        try:
            if work is not None and not self.is_dropped:
                work(self)
        except BaseException as error:  # nobody waits for this
            shown = (type(error), error, error.__traceback__, threading.current_thread())
            with suppress(BaseException):  # nowhere to show it; the thread stays, whatever hooks do
                threading.excepthook(threading.ExceptHookArgs(shown))
        finally:
            self._end()

    def _end(self) -> None:
        self._work = None  # it refers to what it used
        self.is_done = True
        self._gate.release()
        _pending.pop(self, None)


# What is not done, in order, and what somebody waits for.
_pending: dict[Later, None] = {}
_urgent: deque[Later] = deque()
_queue: SimpleQueue[Later] = SimpleQueue()
_service = Service("pyjax: later")
# Its number. Two threads may have started one at the same moment, which does no harm.
_workers: set[int] = set()
_is_known = False  # to who ends the process
_is_over = False
_is_interrupted = False
_is_child = False


def waiting() -> int:
    """How many pieces of work have not been done."""
    return sum([not piece.is_done for piece in tuple(_pending)])


def is_over() -> bool:
    """Whether nothing more is to begin: the process ends."""
    return _is_over


def finish_all() -> None:
    """Wait for all work that has begun so far. A signal handler may end the wait.

    >>> done = []
    >>> Later(lambda piece: done.append("this")).begin()
    >>> finish_all()
    >>> done
    ['this']
    """
    for piece in tuple(_pending):
        piece.finish()


def _start() -> None:
    global _is_known
    if not _is_known:
        work_goes_on(lambda seconds: None, _end)
        _is_known = True
    _service.begin(_serve)


def is_here() -> bool:
    """Whether this is the thread for such work."""
    return threading.get_ident() in _workers


def _give_way() -> None:
    """Where all processors are busy, who runs programs comes first. Threads that begin here would
    give way, too, for good: so none should (`meanwhile`)."""
    if sys.platform == "linux":  # elsewhere it is the whole process that gives way
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)


def _serve() -> None:
    # That of this process: who begins the thread may be forked meanwhile.
    queue = _queue
    leave_collector_alone()
    _give_way()
    _workers.add(threading.get_ident())
    in_turn: deque[Later] = deque()
    while True:
        with suppress(Empty):
            in_turn.append(queue.get(timeout=_left(in_turn[0]) if in_turn else None))
        while _urgent or (in_turn and not _left(in_turn[0])):
            # None must be referred to while the next one is awaited.
            (_urgent or in_turn).popleft()._do()


def _left(piece: Later) -> float:
    """Seconds until a piece is due; at the end of the process each is, and so is what is done."""
    over = _is_over or piece.is_done
    return 0.0 if over else max(0.0, piece._due - time.monotonic())


def _end() -> None:
    """Called at the end of the process, and once more in case that it was interrupted."""
    global _is_over, _is_interrupted
    drops_all = _is_interrupted or _is_child  # the parent does the same
    _is_over = _is_interrupted = True
    for piece in tuple(_pending):
        piece.is_dropped = drops_all or not piece._outlives()
        _queue.put(piece)  # what began it may have been interrupted
    if not drops_all:
        _await_end(float("inf"))
    _is_interrupted = False
    deadline = time.monotonic() + _END_SECONDS
    while _goes_on(deadline):
        # What is under way has to come to its end, whatever signals arrive.
        with suppress(KeyboardInterrupt):
            _await_end(deadline)


def _goes_on(deadline: float) -> bool:
    return bool(_pending) and _service.is_there() and time.monotonic() < deadline


def _await_end(deadline: float) -> None:
    while _goes_on(deadline):
        for piece in tuple(_pending)[:1]:
            piece._wait()


def _after_fork_in_child() -> None:
    global _queue, _is_child
    _is_child = True
    if is_here():  # a finalizer has forked: this thread goes on
        _service.is_this_thread()
        return
    _workers.clear()
    # The parent's thread may have been inside the old queue, whose lock nobody gives back then.
    _queue = SimpleQueue()
    for piece in tuple(_pending):
        if piece.is_done:
            _pending.pop(piece, None)
        elif piece._in_child():
            piece._claim = [True]
            _queue.put(piece)
        else:
            piece._end()
    if _pending:
        with suppress(RuntimeError):  # no thread: who waits for one of them meets that
            _start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
