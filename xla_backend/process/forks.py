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
from importlib import import_module
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
_never_free: list[Lock] = []  # in a child
_is_registered = False


class _Fork:
    """One that is under way on some thread.

    Attributes:
      end: when its wait is over.   has_tried: whether it has asked for each lock.
      taken: those that it has.   raised: by signal handlers in the middle of it.
    """

    __slots__ = ("end", "has_tried", "raised", "taken")

    def __init__(self) -> None:
        self.end = time.monotonic() + _BOUND
        self.has_tried = False
        self.taken: list[Lock] = []
        self.raised: list[BaseException] = []

    def has_all(self) -> bool:
        return all(any(lock is taken for taken in self.taken) for _, lock in _locks)

    def seconds_left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def take_all(self) -> None:
        """In order, from the first: a lock that came meanwhile may stand before some that are taken
        here, and whoever has it may wait for these."""
        self.release_taken()
        for _, lock in tuple(_locks):
            # One call in C, so that no signal handler raises when it is acquired and not yet noted.
            acquire = methodcaller("acquire", True, self.seconds_left())
            self.taken.extend(filter(acquire, (lock,)))
        self.has_tried = True

    def release_taken(self) -> None:
        # Taken out and released by one call in C, so that no handler raises in between.
        with suppress(IndexError):
            for _ in map(methodcaller("release"), iter(self.taken.pop, None)):
                pass


_forks: dict[int, _Fork] = {}  # by thread


def take_for_forks(lock: Lock, order: int) -> None:
    """From now on, fork only while this thread has the lock."""
    _register_once()
    if any(lock is known for _, known in _locks):
        return
    _locks[:] = sorted([*_locks, (order, lock)], key=lambda entry: entry[0])


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
    me = threading.get_ident()
    fork = _forks.setdefault(me, _Fork())
    for drain in drains:
        try:
            drain(fork.seconds_left())
        except BaseException as error:
            fork.raised.append(error)
    while True:
        try:
            if fork.has_all() or (fork.has_tried and not fork.seconds_left()):
                _forks[me] = fork  # a handler that forked, too, has taken it out
                return
            fork.take_all()
        except BaseException as error:
            fork.raised.append(error)


def _after() -> list[BaseException]:
    """Everything is given back; what handlers have raised."""
    fork = _forks.get(threading.get_ident())
    if fork is None:
        return []
    try:
        fork.release_taken()
    except BaseException as error:
        fork.raised.append(error)
        fork.release_taken()
    _forks.pop(threading.get_ident(), None)
    return fork.raised


def _after_in_parent() -> None:
    errors = _after()
    if not errors:
        return
    if any(isinstance(error, KeyboardInterrupt) for error in errors):
        _thread.interrupt_main()
    raise errors[0]  # Python prints it, and forgets it


def _after_in_child() -> None:
    fork = _forks.get(threading.get_ident())
    if fork is not None and fork.has_tried:
        _never_free.extend(lock for _, lock in _locks if not any(lock is t for t in fork.taken))
        fork.has_tried = False  # what is given back now was not never free
    _after()
    _forks.clear()


def _register_once() -> None:
    global _is_registered
    if _is_registered or not hasattr(os, "register_at_fork"):
        return
    # What is registered last is called first, and `logging` takes its lock before a fork. It comes
    # before, lest a fork has that lock while it waits for a thread that logs.
    import_module("logging")
    # A signal handler may raise at the start of any of them: so each has a second chance.
    for _ in range(2):
        os.register_at_fork(
            before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
        )
    _is_registered = True
