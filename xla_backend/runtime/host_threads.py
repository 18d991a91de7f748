"""How many threads computations on the host's processors use: one number for the process.

It is what the process may use, until a target has threads of its own whose number can be set: then
it is theirs. Libraries that the host calls for programs ask here, and so need not know the target.

API
  num_threads()              the number now, for this thread
  set_num_threads(n)         change it for the process
  at_most(n)                 context manager: fewer in this thread
  available_threads()        the number to begin with
  keep_number_in(read, write)     from now on `read()` gives the number, and `write(n)` sets it
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xla_backend.process.bounded_cache import once


@once
def available_threads() -> int:
    """CPUs this process may use: its affinity mask, cut by the container's quota.

    The first call decides: another number rounds differently, and programs give the same bits
    whenever they run.
    """
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _container_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def _container_quota() -> float | None:
    """Processors' worth of time that control groups grant this process: the least of its own group
    and those around it; None without a limit."""
    quotas = []
    for line in _lines("/proc/self/cgroup") or ["0::/"]:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root = Path("/sys/fs/cgroup")
        elif "cpu" in controllers.split(","):
            root = Path("/sys/fs/cgroup/cpu")
        else:
            continue
        # A container may see its own group as the root, whatever its path outside is.
        own = root / path.strip("/")
        for group in (own, *(p for p in own.parents if p.is_relative_to(root))):
            if not controllers:
                words = " ".join(_lines(group / "cpu.max")).split()
            else:
                words = _lines(group / "cpu.cfs_quota_us") + _lines(group / "cpu.cfs_period_us")
            if len(words) == 2 and words[0] not in ("max", "-1"):
                quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").split("\n")[:-1]
    except OSError:
        return []


_chosen: int | None = None


def _number_to_begin_with() -> int:
    return available_threads() if _chosen is None else _chosen


def _choose(n: int | None) -> None:
    global _chosen
    _chosen = n


_read: Callable[[], int] = _number_to_begin_with
_write: Callable[[int | None], None] = _choose


class _Limit(threading.local):
    value: int | None = None


_limit = _Limit()


def num_threads() -> int:
    """How many threads, the caller's included, computations use.

    >>> num_threads() >= 1
    True
    """
    most = _limit.value
    return _read() if most is None else min(most, _read())


def set_num_threads(n: int | None) -> None:
    """Change the number for the process, now; None: `available_threads()`.

    Raises:
      ValueError: n is not positive.
    """
    if n is not None and n < 1:
        raise ValueError(f"number of threads {n}: it must be at least 1 (1: no extra threads)")
    _write(n)


@contextmanager
def at_most(n: int) -> Iterator[None]:
    """What the host computes in this block, for a program that is limited to `n` threads."""
    outer = _limit.value
    _limit.value = n
    try:
        yield
    finally:
        _limit.value = outer


def keep_number_in(read: Callable[[], int], write: Callable[[int], None]) -> None:
    """A target's threads have the number from now on."""
    global _read, _write
    write(_read())
    _read = read
    _write = lambda n: write(available_threads() if n is None else n)
