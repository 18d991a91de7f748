"""Forks while other threads are at work: the child gets whole data and free locks.

A child has only the thread that forked. What another thread held at that moment would stay locked
for ever in the child, and what it was changing would stay half changed; inside LLVM as well. So a
fork first takes every lock that is registered here, as soon as its holder gives it away, and lets
go afterwards in both processes. Locks are taken in order, holders of earlier ones may wait for
later ones:

  GROUPS   held while kernels are compiled
  CODE     held around calls into LLVM
  LEAF     held for moments, by holders who wait for nothing

The wait is bounded. A child that was forked before a lock came free can read its arrays and run
what is compiled; where it would have to wait for that lock, `check_forked` raises.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

GROUPS, CODE, LEAF = range(3)
# Seconds a fork waits for other threads: many times what LLVM takes for one module.
_BOUND = 30.0


class Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


class ForkedWhileCompilingError(RuntimeError):
    """This process was forked while another thread was inside the compiler, and stayed there."""


class Visitors:
    """A lock that any number of threads may visit at the same time, when nobody has acquired it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()  # held by who acquires this
        self._inside = 0

    @contextmanager
    def visit(self) -> Iterator[None]:
        with self._condition:
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._condition.acquire(blocking, timeout):
            return False
        if self._condition.wait_for(lambda: not self._inside, timeout if timeout >= 0 else None):
            return True
        self._condition.release()
        return False

    def release(self) -> None:
        self._condition.release()


_locks: list[tuple[int, Lock]] = []
_taken: list[Lock] = []
_never_free: list[Lock] = []  # in a child


def take_for_forks(lock: Lock, order: int) -> None:
    """From now on, fork only while this thread has the lock."""
    _locks.append((order, lock))
    _locks.sort(key=lambda entry: entry[0])


def check_forked() -> None:
    """Call before waiting for a lock of order GROUPS or CODE.

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
    for _, lock in _locks:
        if lock.acquire(timeout=max(0.0, end - time.monotonic())):
            _taken.append(lock)


def _after() -> None:
    while _taken:
        _taken.pop().release()


def _after_in_child() -> None:
    _never_free.extend(lock for _, lock in _locks if not any(lock is t for t in _taken))
    _after()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
