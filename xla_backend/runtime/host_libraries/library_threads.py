"""How many threads SciPy's linear algebra uses while programs call it.

OpenBLAS's threads wait for each other in loops that never sleep: beside other work a factorisation
takes a hundred times as long as on one thread, since each of its many joints waits for somebody
who is not running. So calls made here use one thread, but for matrices so large that there is much
work between two joints. The size alone decides, not the load of the machine: another number of
threads rounds differently, and a program gives the same bits whenever it runs. (Large calls that
several threads make at the same time share the processors, one each.) Whatever the process itself
does with SciPy keeps its threads: the number is put back when the last of our calls ends.

API
  on_library_threads(size, work, *arguments)    calls into LAPACK; `size`: that of a square matrix
  size_of(shape)                                that with as much work as one of this shape
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import scipy.linalg.cython_lapack

from xla_backend.runtime.host_threads import num_threads

# Below this size a second thread gains little even on an idle machine, and loses much on others.
_LARGE = 1024
_PREFIXES = ("scipy_", "")
_SUFFIXES = ("", "64_", "_64")
Result = TypeVar("Result")


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


class _Lent:
    """The thread count of the process, while calls of ours are inside LAPACK."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may call LAPACK, too
        self.calls: list[int] = []  # of all threads: the size of each
        self.changed = False  # and not put back yet
        self.found = 0  # the process's own number
        self.used = 0  # what was set instead

    def after_fork(self) -> None:
        """In a forked child: the calls of other threads ended with those."""
        self.lock = threading.RLock()
        self.calls.clear()
        self.put_back()

    def choose(self, wanted: int) -> None:
        blas = _blas()
        assert blas.set is not None and blas.get is not None
        with self.lock:
            now = blas.get()
            if not self.changed or now != self.used:
                self.found = now
            # Several threads at once share the processors: one each.
            wanted = min(wanted, self.found) if len(self.calls) == 1 else 1
            self.changed, self.used = True, wanted
            if wanted != now:
                blas.set(wanted)

    def put_back(self) -> None:
        """If a signal handler's exception comes first, the end of the next call does it."""
        blas = _blas()
        with self.lock:
            if self.calls or not self.changed or blas.get is None or blas.set is None:
                return
            # A number that the process has set meanwhile is what it wants.
            if blas.get() == self.used != self.found:
                blas.set(self.found)
            self.changed = False


_lent = _Lent()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lent.after_fork)


def size_of(shape: Sequence[int]) -> int:
    """The size of the square matrix whose factors take as much work as one of this shape (a batch
    counts as one): a tall matrix of few columns has little work between two joints.

    >>> size_of((1024, 1024)), size_of((100_000, 8))
    (1024, 186)
    """
    rows, columns = shape[-2:]
    return round((rows * columns * min(rows, columns)) ** (1 / 3))


def on_library_threads(size: int, work: Callable[..., Result], *arguments: Any) -> Result:
    """`work(*arguments)`, with LAPACK on one thread, or on all of ours if the work is large."""
    if _blas().set is None:
        return work(*arguments)
    calls = _lent.calls
    calls += (size,)
    try:
        _lent.choose(1 if size < _LARGE else num_threads())
        return work(*arguments)
    finally:
        if calls:  # in a forked child it is gone
            del calls[-1]
        _lent.put_back()
