"""Forks while other threads are at work: the child gets whole data and free locks.

A child has only the thread that forked. What another thread held at that moment would stay locked
for ever in the child, and what it was changing would stay half changed; inside LLVM as well. So a
fork first takes every lock that is registered here, as soon as its holder gives it away, and lets
go afterwards in both processes. Locks are taken in order, holders of earlier ones may wait for
later ones:

  START    held while a backend is started
  IMPORT   held while a module is imported on its first use
  LINK     held while a linker is made, which calls into LLVM
  CODE     held around calls into LLVM
  LEAF     held for moments, by holders who wait for nothing

Before that it waits for work that goes on without a thread of Python (`background`).

The wait is bounded. A child that was forked before a lock came free can read its arrays and run
what is compiled; where it would have to wait for that lock, `check_forked` raises.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import methodcaller
from typing import Any, Protocol

from xla_backend.process.background import drains

START, IMPORT, LINK, CODE, LEAF = range(5)
# Seconds a fork waits for other threads: many times what LLVM takes for one module.
_BOUND = 30.0


class Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class ForkedWhileCompilingError(RuntimeError):
    """This process was forked while another thread was inside the compiler, and stayed there."""


class Visitors:
    """A lock that any number of threads may visit at the same time, when nobody has acquired it.

    Visits are for threads on which no signal handler runs, so that each of them ends.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()  # held by who acquires this
        self._condition = threading.Condition(self._lock)
        self._inside: set[object] = set()
        self.release = self._lock.release

    @contextmanager
    def visit(self) -> Iterator[None]:
        visitor = object()
        try:
            with self._lock:
                self._inside.add(visitor)
            yield
        finally:
            with self._lock:
                self._inside.discard(visitor)
                self._condition.notify_all()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        free = False
        try:
            if self._lock.acquire(blocking, timeout):
                free = self._condition.wait_for(
                    lambda: not self._inside, timeout if timeout >= 0 else None
                )
            return free
        finally:  # a signal handler may have raised after each of these calls
            if not free and self._lock._is_owned():
                self._lock.release()


_locks: list[tuple[int, Lock]] = []
_taken: list[Lock] = []
_never_free: list[Lock] = []  # in a child
_raised: list[BaseException] = []  # by signal handlers in the middle of this


def take_for_forks(lock: Lock, order: int) -> None:
    """From now on, fork only while this thread has the lock."""
    _locks.append((order, lock))
    _locks.sort(key=lambda entry: entry[0])


def check_forked() -> None:
    """Call before waiting for a lock of order START, IMPORT, LINK or CODE.

    Raises:
      ForkedWhileCompilingError: another thread of the parent process has the lock for ever.
    """
    if _never_free:
        raise ForkedWhileCompilingError(
            f"process {os.getpid()} cannot compile: it was forked while another thread of its "
            f"parent was compiling, and had been for more than {_BOUND:.0f} s. Fork before that "
            "thread starts, or use multiprocessing's 'spawn' or 'forkserver'"
        )


def _before() -> None:
    end = time.monotonic() + _BOUND
    for drain in drains:
        try:
            drain(max(0.0, end - time.monotonic()))
        except BaseException as error:
            _raised.append(error)
    for _, lock in _locks:
        if any(lock is taken for taken in _taken):
            continue
        try:
            acquire = methodcaller("acquire", True, max(0.0, end - time.monotonic()))
            # One call in C, so that no signal handler raises when it is acquired and not yet noted.
            _taken.extend(filter(acquire, (lock,)))
        except BaseException as error:
            _raised.append(error)


def _after() -> None:
    try:
        _release_taken()
    except BaseException as error:
        _raised.append(error)
        _release_taken()


def _release_taken() -> None:
    # Taken out and released by one call in C, too.
    with suppress(IndexError):
        for _ in map(methodcaller("release"), iter(_taken.pop, None)):
            pass


def _after_in_parent() -> None:
    _after()
    if not _raised:
        return
    errors = _raised[:]
    _raised.clear()
    if any(isinstance(error, KeyboardInterrupt) for error in errors):
        _thread.interrupt_main()
    raise errors[0]  # Python prints it, and forgets it


def _after_in_child() -> None:
    if _taken:
        _never_free.extend(lock for _, lock in _locks if not any(lock is t for t in _taken))
    _after()
    _raised.clear()


if hasattr(os, "register_at_fork"):
    # A signal handler may raise at the start of any of them: so each has a second chance.
    for _ in range(2):
        os.register_at_fork(
            before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
        )
