"""Caches with limits, for every table that could grow with what a program does.

  Budget(name, entries=, nbytes=)   a limit that several caches share
  BoundedCache(budget, size)        a table within a budget; what was used longest ago goes first
  InternTable()                     one object per key for as long as somebody uses it
  once                              decorator: the function runs once per arguments, for good
  clear_all()                       empties every cache
  statistics()                      what each budget holds

A hit takes no lock: it is a look-up in a plain dictionary, `hot`. Recency costs nothing there,
because a budget only knows two generations: entries are young when they come or are asked for
again, and all age together when the young ones fill half of the budget. An aged entry is no longer
in `hot`; the next call finds it on the slow way, which makes it young again. Entries go from the
end of the aged ones, so one that was used while the last half of the budget came in stays.

`BoundedCache.make` runs the maker of a key once, other threads wait for it. Nobody waits in a
circle: a thread that would (a maker that asks for its own key; two that ask for each other's)
makes a copy of its own instead. A maker that fails makes way for the next thread. One lock guards
all bookkeeping, and nothing slow happens under it; values are let go outside it. `fork` waits for
the lock, and the child forgets what other threads were making.

This module stands below everything else: standard library, and `forks`.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from xla_backend.forks import LEAF, take_for_forks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Entered again by finalizers and signal handlers that run in the middle of a holder.
_LOCK = threading.RLock()
_MISSING: Any = object()
_budgets: list[Budget] = []


class _Entry:
    """A value of a cache, as its budget knows it. Compares by identity."""

    __slots__ = ("cache", "keys", "nbytes", "value")

    def __init__(self, cache: weakref.ref[BoundedCache], key: Any, value: Any, nbytes: int) -> None:
        self.cache = cache
        self.keys: tuple[Any, ...] = (key,)
        self.value = value
        self.nbytes = nbytes


class Budget:
    """How much the caches that share it may hold together.

    Attributes:
      name: for statistics.
      entries, nbytes: the limits; nbytes None: entries have no size worth counting.
      held_bytes, evictions: what there is now, and how many entries had to go so far.
    """

    def __init__(self, name: str, *, entries: int, nbytes: int | None = None) -> None:
        self.name = name
        self.entries = entries
        self.nbytes = nbytes
        self.held_bytes = 0
        self.evictions = 0
        # Both in order of age, oldest first.
        self._young: dict[_Entry, None] = {}
        self._aged: dict[_Entry, None] = {}
        self._young_bytes = 0
        # Entries of caches that are gone: finalizers may run anywhere, so they only note it.
        self._orphans: deque[_Entry] = deque()
        with _LOCK:
            _budgets.append(self)

    def __len__(self) -> int:
        with _LOCK:
            self._bury()
            return len(self._young) + len(self._aged)

    # What follows is called under the lock.

    def _admit(self, entry: _Entry) -> list[Any]:
        """Count a new entry in; returns values that had to go, to be let go outside the lock."""
        self._bury()
        self._rejuvenate(entry)
        self.held_bytes += entry.nbytes
        dropped: list[Any] = []
        while self._is_over():
            oldest = next(iter(self._aged or self._young))
            if oldest is entry:  # the newest one stays, however large it is
                break
            dropped.append(self._evict(oldest))
        return dropped

    def _is_over(self) -> bool:
        over = len(self._young) + len(self._aged) > self.entries
        return over or (self.nbytes is not None and self.held_bytes > self.nbytes)

    def _rejuvenate(self, entry: _Entry) -> None:
        if self._half_is_young():
            self._age()
        self._aged.pop(entry, None)
        self._young[entry] = None
        self._young_bytes += entry.nbytes

    def _half_is_young(self) -> bool:
        if 2 * len(self._young) >= self.entries:
            return True
        return self.nbytes is not None and 2 * self._young_bytes >= self.nbytes > 0

    def _age(self) -> None:
        for entry in self._young:
            cache = entry.cache()
            if cache is not None:
                for key in entry.keys:
                    cache.hot.pop(key, None)
        self._aged.update(self._young)
        self._young.clear()
        self._young_bytes = 0
        # Counted anew, lest an interrupt in the middle of some change stays in the sum.
        self.held_bytes = sum(entry.nbytes for entry in self._aged)

    def _evict(self, entry: _Entry) -> Any:
        self._forget(entry)
        self.evictions += 1
        cache = entry.cache()
        if cache is not None:
            cache._take(entry)
        return entry.value

    def _forget(self, entry: _Entry) -> None:
        if entry in self._young:
            del self._young[entry]
            self._young_bytes -= entry.nbytes
            self.held_bytes -= entry.nbytes
        elif entry in self._aged:
            del self._aged[entry]
            self.held_bytes -= entry.nbytes

    def _bury(self) -> None:
        while self._orphans:
            self._forget(self._orphans.popleft())


class _Making:
    """A value on its way."""

    __slots__ = ("_gate", "done", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.done = False
        # A plain lock: unlike an Event's, it can be released after a fork, whoever held it.
        self._gate = threading.Lock()
        self._gate.acquire()

    def finish(self) -> None:
        self.done = True
        self._gate.release()

    def wait(self) -> None:
        # The time limit is for a waiter that was interrupted with the gate in its hand.
        while not self.done:
            if self._gate.acquire(timeout=1.0):
                self._gate.release()


_making: dict[tuple[int, Any], _Making] = {}
_waiting: dict[int, _Making] = {}  # thread -> what it waits for


def _would_wait_for_itself(making: _Making) -> bool:
    """Whether the thread that makes it waits, over any number of others, for this one."""
    me = threading.get_ident()
    seen: set[int] = set()
    while making.thread != me:
        if making.thread in seen or making.thread not in _waiting:
            return False
        seen.add(making.thread)
        making = _waiting[making.thread]
    return True


class BoundedCache(Generic[K, V]):
    """A table that keeps what was used last, within a budget.

    Attributes:
      hot: the young entries, for look-ups that cannot afford a call: `cache.hot.get(key)`. A miss
        there says nothing; ask `find` or `make`. Never write to it.
    """

    __slots__ = ("__weakref__", "_budget", "_entries", "_self", "_size", "hot")

    def __init__(self, budget: Budget, size: Callable[[V], int] | None = None) -> None:
        """`size`: bytes of a value, asked for once, when it comes in."""
        self.hot: dict[K, V] = {}
        self._entries: dict[K, _Entry] = {}
        self._budget = budget
        self._size = size
        self._self = weakref.ref(self)

    def find(self, key: K, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        value = self.hot.get(key, _MISSING)
        if value is _MISSING:
            with _LOCK:
                value = self._touch(key)
        return default if value is _MISSING else value

    def put(self, key: K, value: V) -> V:
        """Remember a value; the one that is there already stays. Returns the one that is there."""
        nbytes = 0 if self._size is None else self._size(value)
        with _LOCK:
            present = self._touch(key)
            if present is not _MISSING:
                return present
            entry = _Entry(self._self, key, value, nbytes)
            self._entries[key] = entry
            self.hot[key] = value
            dropped = self._budget._admit(entry)
        del dropped
        return value

    def make(self, key: K, maker: Callable[[], V]) -> V:
        """The value of a key; `maker()` makes it if there is none, on one thread only."""
        value = self.hot.get(key, _MISSING)
        return self._make(key, maker) if value is _MISSING else value

    def _make(self, key: K, maker: Callable[[], V]) -> V:
        place = (id(self), key)
        mine = _Making()
        try:
            while True:
                with _LOCK:
                    value = self._touch(key)
                    if value is not _MISSING:
                        return value
                    other = _making.get(place)
                    if other is None or other.done:
                        _making[place] = mine
                        break
                    if _would_wait_for_itself(other):
                        break
                    _waiting[mine.thread] = other
                try:
                    other.wait()
                finally:
                    _waiting.pop(mine.thread, None)
            return self.put(key, maker())
        finally:
            mine.finish()
            with _LOCK:
                if _making.get(place) is mine:
                    del _making[place]

    def alias(self, key: K, other: K) -> None:
        """Let the value of `key`, if it is still there, be found under `other`, too."""
        with _LOCK:
            entry = self._entries.get(key)
            if entry is None or other in self._entries:
                return
            entry.keys = (*entry.keys, other)
            self._entries[other] = entry
            if key in self.hot:
                self.hot[other] = entry.value

    def clear(self) -> None:
        """Forget everything."""
        with _LOCK:
            dropped = self._entries
            self._entries = {}
            self.hot.clear()
            for entry in dropped.values():
                self._budget._forget(entry)

    def __len__(self) -> int:
        """How many values; aliases do not count."""
        with _LOCK:
            return len(set(self._entries.values()))

    def items(self) -> list[tuple[K, V]]:
        """The keys and values, as they are now; nothing counts as used."""
        with _LOCK:
            return [(key, entry.value) for key, entry in self._entries.items()]

    def __iter__(self) -> Iterator[K]:
        """The keys, as they are now."""
        with _LOCK:
            return iter(list(self._entries))

    def __del__(self) -> None:
        # Anywhere, also where the lock must not be waited for.
        for entry in self._entries.values():
            entry.keys, entry.value = (), None
            self._budget._orphans.append(entry)

    # What follows is called under the lock.

    def _touch(self, key: K) -> V:
        entry = self._entries.get(key)
        if entry is None:
            return _MISSING
        value: V = entry.value
        if entry in self._budget._aged:
            self._budget._rejuvenate(entry)
            for name in entry.keys:
                self.hot[name] = value
        return value

    def _take(self, entry: _Entry) -> None:
        for key in entry.keys:
            self.hot.pop(key, None)
            self._entries.pop(key, None)


class _KeyedRef(weakref.ref):
    __slots__ = ("key",)
    key: Any


class InternTable(Generic[K, V]):
    """One object per key, as long as somebody holds it; the objects must allow weak references.

    `refs.get(key)` is a weak reference or None: the look-up of callers that cannot afford a call.
    """

    __slots__ = ("__weakref__", "_gone", "refs")

    def __init__(self) -> None:
        self.refs: dict[K, _KeyedRef] = {}
        # Objects die anywhere, also where the lock must not be waited for: it is only noted.
        self._gone: deque[_KeyedRef] = deque()

    def find(self, key: K) -> V | None:
        """The object of this key, or None."""
        ref = self.refs.get(key)
        return None if ref is None else ref()

    def intern(self, key: K, value: V) -> V:
        """The object of this key: the one there is, else `value`."""
        with _LOCK:
            while self._gone:
                dead = self._gone.popleft()
                if self.refs.get(dead.key) is dead:
                    del self.refs[dead.key]
            found = self.find(key)
            if found is None:
                ref = self.refs[key] = _KeyedRef(value, self._gone.append)
                ref.key = key
                found = value
            return found


_FOR_GOOD = 1 << 62
_kept = Budget("made once", entries=_FOR_GOOD)


class once(Generic[V]):
    """Decorator: the function runs once per arguments (positional, hashable), also if threads come
    at the same time. For few different arguments: nothing is forgotten but by `clear`.

    >>> once(lambda x: [x])(3)
    [3]
    """

    def __init__(self, function: Callable[..., V]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._results: BoundedCache[Any, V] = BoundedCache(_kept)

    def __call__(self, *args: Any) -> V:
        return self._results.make(args, lambda: self._function(*args))

    def clear(self) -> None:
        """Forget the results."""
        self._results.clear()


def clear_all() -> None:
    """Empty every cache (what `once` keeps, stays)."""
    with _LOCK:
        entries = [
            entry
            for budget in _budgets
            if budget is not _kept
            for entry in (*budget._young, *budget._aged)
        ]
    for entry in entries:
        cache = entry.cache()
        if cache is not None:
            cache.clear()


def statistics() -> dict[str, dict[str, int]]:
    """For each budget: entries, bytes (as counted) and evictions so far."""
    with _LOCK:
        return {
            b.name: {"entries": len(b), "bytes": b.held_bytes, "evictions": b.evictions}
            for b in _budgets
        }


def _after_fork_in_child() -> None:
    # The threads that were making these are not here.
    _making.clear()
    _waiting.clear()


take_for_forks(_LOCK, LEAF)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
