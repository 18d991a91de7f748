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

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xla_backend.runtime.host_libraries.lent_threads import blas, lent_threads
from xla_backend.runtime.host_threads import num_threads

# Below this size a second thread gains little even on an idle machine, and loses much on others.
_LARGE = 1024
Result = TypeVar("Result")


class _Lent:
    """The calls of threads of Python that are inside LAPACK. Native code has calls of its own; what
    follows from both is `lent_threads`'s to say."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may call LAPACK, too
        self.calls: list[int] = []  # the size of each

    def after_fork(self) -> None:
        """In a forked child: the calls of other threads ended with those."""
        self.lock = threading.RLock()
        self.calls.clear()

    def choose(self, wanted: int) -> None:
        functions = lent_threads()
        with self.lock:
            functions.choose(wanted, len(self.calls))

    def put_back(self) -> None:
        """If a signal handler's exception comes first, the end of the next call does it."""
        functions = lent_threads()
        with self.lock:
            functions.put_back(len(self.calls))


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


def threads_of(size: int) -> int | None:
    """How many threads a call of this size has; None: as many as our own pool."""
    return 1 if size < _LARGE else None


def on_library_threads(size: int, work: Callable[..., Result], *arguments: Any) -> Result:
    """`work(*arguments)`, with LAPACK on one thread, or on all of ours if the work is large."""
    if blas().set is None:
        return work(*arguments)
    calls = _lent.calls
    calls += (size,)
    try:
        _lent.choose(threads_of(size) or num_threads())
        return work(*arguments)
    finally:
        if calls:  # in a forked child it is gone
            del calls[-1]
        _lent.put_back()
