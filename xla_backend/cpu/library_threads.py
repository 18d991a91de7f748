"""How many threads SciPy's linear algebra uses while programs call it.

OpenBLAS's threads wait for each other in loops that never sleep: beside other work a factorisation
takes a hundred times as long as on one thread, since each of its many joints waits for somebody
who is not running. So calls made here use one thread, but for matrices so large that there is much
work between two joints. The size alone decides, not the load of the machine: another number of
threads rounds differently, and a program gives the same bits whenever it runs. (Large calls that
several threads make at the same time share the processors, one each.) Whatever the process itself
does with SciPy keeps its threads: the number is put back when the last of our calls ends.

API
  library_threads(size)      context manager around calls into LAPACK; `size`: the largest dimension
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from types import TracebackType

import scipy.linalg.cython_lapack

from xla_backend.cpu.kernels.thread_pool import num_threads

# Below this size a second thread gains little even on an idle machine, and loses much on others.
_LARGE = 1024
_PREFIXES = ("scipy_", "")
_SUFFIXES = ("", "64_", "_64")


class _Blas:
    """The thread count of SciPy's OpenBLAS; `count` is None with another library, which has no such
    threads (or, as Accelerate, none that can be set)."""

    def __init__(self) -> None:
        # A handle of a module finds the symbols of what it links, too.
        handle = ctypes.PyDLL(scipy.linalg.cython_lapack.__file__)
        self.get = self.set = None
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                name = f"{prefix}openblas_{{}}_num_threads{suffix}"
                if self.set is None and hasattr(handle, name.format("set")):
                    self.get = handle[name.format("get")]
                    self.set = handle[name.format("set")]
                    self.set.argtypes, self.set.restype = (ctypes.c_int,), None


@cache
def _blas() -> _Blas:
    return _Blas()


class _Borrowed:
    """Calls of all threads that are inside LAPACK, and the thread count they found."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.calls = 0
        self.found = 0  # the process's own number
        self.used = 0  # what was set instead

    def after_fork(self) -> None:
        """In a forked child: the calls of other threads ended with those."""
        self.lock = threading.Lock()
        if self.calls:
            self.calls = 0
            self._put_back()

    def enter(self, wanted: int) -> None:
        blas = _blas()
        if blas.set is None or blas.get is None:
            return
        with self.lock:
            if not self.calls:
                self.found = self.used = blas.get()
            self.calls += 1
            # Several threads at once share the processors: one each.
            wanted = min(wanted, self.found) if self.calls == 1 else 1
            if wanted != self.used:
                blas.set(wanted)
                self.used = wanted

    def leave(self) -> None:
        if _blas().set is None:
            return
        with self.lock:
            self.calls -= 1
            if not self.calls:
                self._put_back()

    def _put_back(self) -> None:
        blas = _blas()
        # A number that the process has set meanwhile is what it wants.
        if blas.get is not None and blas.set is not None and blas.get() == self.used != self.found:
            blas.set(self.found)


_borrowed = _Borrowed()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_borrowed.after_fork)


class library_threads:
    """Context manager: LAPACK runs on one thread inside, or on all of ours if the work is large."""

    __slots__ = ("wanted",)

    def __init__(self, size: int) -> None:
        self.wanted = 1 if size < _LARGE else num_threads()

    def __enter__(self) -> None:
        _borrowed.enter(self.wanted)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _borrowed.leave()
