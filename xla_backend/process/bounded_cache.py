"""Caches with limits, for every table that could grow with what a program does.

  Budget(name, entries=, nbytes=)   a limit that several caches share
  BoundedCache(budget, size)        a table within a budget; what was used longest ago goes first
  InternTable()                     one object per key for as long as somebody uses it
  once                              decorator: the function runs once per arguments, for good
  made_for_good                     the budget of what is made once
  clear_all()                       empties every cache but those within made_for_good
  statistics()                      what each budget holds

A hit is a look-up in a plain dictionary, `hot`. Recency costs nothing there, because a budget only
knows two generations: entries are young when they come or are asked for again, and all age together
when the young ones fill half of the budget. An aged entry is no longer in `hot`; the next call
finds it on the slow way, which makes it young again. Entries go from the end of the aged ones, so
one that was used while the last half of the budget came in stays.

Nobody waits for the bookkeeping. It may be interrupted, on the main thread by a signal handler and
on all by a garbage collection, and those run code that takes locks, compiles and forks; they would
wait for ever for a thread that waits for a lock held here. So tables change by single steps of the
interpreter; what budgets must know of it is put into a queue, `_news`; and whoever finds nobody at
work on the queue does what is in there. A piece of news leaves the queue when it is done: one that
a handler's exception ends half-way is done again. Steps are in such an order that, wherever they
end, the worst is an entry in a budget that its cache does not have; it goes when its turn comes.

`BoundedCache.make` runs the maker of a key once, other threads wait for it. Nobody waits in a
circle: a thread that would (a maker that asks for its own key; two that ask for each other's)
makes a copy of its own instead. A maker that fails makes way for the next thread. A child of `fork`
forgets what other threads were making.

This module stands below everything else: standard library only.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MISSING: Any = object()
_budgets: list[Budget] = []

_News = tuple[Callable[[Any, list[Any]], None], Any]
# What to do, and with what.
_news: deque[_News] = deque()
# Whoever takes the one element works on the queue. Taking it and giving it back are no calls, after
# which a signal handler could run and raise.
_turn = [True]
_holder = 0  # the thread that has it, or had it last


def _settle() -> None:
    """Do what is in the queue, unless somebody is at it: they do this, too."""
    global _holder
    turn, me = _turn, threading.get_ident()
    dropped: list[Any] = []  # values go when the turn is given back
    while _news:
        try:
            del turn[0]
        except IndexError:
            return
        _holder = me
        try:
            while True:
                if not _news:
                    break
                action, subject = _news[0]
                action(subject, dropped)
                del _news[0]
        finally:
            turn += (True,)


class _Entry:
    """A place in a cache, as its budget knows it. Compares by identity."""

    __slots__ = ("cache", "counted", "nbytes")

    def __init__(self, cache: weakref.ref[BoundedCache], nbytes: int) -> None:
        self.cache = cache
        self.nbytes = nbytes
        self.counted = False


# So many caches may be gone before their entries, which hold nothing any more, are looked for among
# all: functions that are made anew for each call have a cache each.
_MOST_GONE = 64


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
        # Called when a cache goes. A function in Python might be interrupted there.
        self._gone: deque[weakref.ref[BoundedCache]] = deque()
        _budgets.append(self)

    def __len__(self) -> int:
        _news.append((self._bury, None))
        _settle()
        return len(self._young) + len(self._aged)

    # News: done by who has the turn, and perhaps again.

    def _admit(self, entry: _Entry, dropped: list[Any]) -> None:
        """Count an entry in; what has to go for it goes."""
        if len(self._gone) > _MOST_GONE:
            self._bury(None, dropped)
        if entry not in self._young and entry not in self._aged:
            self._make_young(entry)
        if not entry.counted:
            entry.counted = True
            self.held_bytes += entry.nbytes
        if self._gone and self._is_over():
            self._bury(None, dropped)
        while self._is_over():
            oldest = next(iter(self._aged or self._young))
            if oldest is entry:  # the newest one stays, however large it is
                break
            self._evict(oldest, dropped)

    def _rejuvenate(self, entry: _Entry, dropped: list[Any]) -> None:
        """An aged entry was asked for."""
        if entry in self._aged:
            self._make_young(entry)
            del self._aged[entry]
        cache = entry.cache()
        if cache is not None and entry in self._young:
            cache._heat(entry)

    def _forget(self, entry: _Entry, dropped: list[Any]) -> None:
        """An entry is no longer in its cache."""
        if entry.counted:
            entry.counted = False
            self.held_bytes -= entry.nbytes
        if entry in self._young:
            del self._young[entry]
            self._young_bytes -= entry.nbytes
        self._aged.pop(entry, None)

    def _bury(self, nothing: None, dropped: list[Any]) -> None:
        """Forget the entries of caches that are gone."""
        if not self._gone:
            return
        count = len(self._gone)
        for entry in (*self._young, *self._aged):
            if entry.cache() is None:
                self._forget(entry, dropped)
        for _ in range(count):
            self._gone.popleft()

    def _is_over(self) -> bool:
        over = len(self._young) + len(self._aged) > self.entries
        return over or (self.nbytes is not None and self.held_bytes > self.nbytes)

    def _make_young(self, entry: _Entry) -> None:
        if self._half_is_young():
            self._age()
        if entry not in self._young:
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
                cache._cool(entry)
        for entry in self._young:  # to the end, also if an interrupt has left it in both
            self._aged.pop(entry, None)
        self._aged.update(self._young)
        self._young.clear()
        self._young_bytes = 0
        # Counted anew, lest an interrupt in the middle of some change stays in the sum.
        self.held_bytes = sum([entry.nbytes for entry in self._aged if entry.counted])

    def _evict(self, entry: _Entry, dropped: list[Any]) -> None:
        cache = entry.cache()
        if cache is not None:
            dropped.append(cache._take(entry))
        self._forget(entry, dropped)
        self.evictions += 1


class _Making:
    """A value on its way."""

    __slots__ = ("done", "gate", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.done = False
        # Held until it is done. A plain lock: unlike an Event's, it can be released after a fork,
        # whoever held it.
        self.gate = threading.Lock()
        self.gate.acquire()

    def wait(self) -> None:
        """Wait until it is done, or for a second: who waits looks around now and then. (A maker or
        a waiter may have been interrupted with the gate in its hand.)"""
        if not self.done and self.gate.acquire(timeout=1.0):
            self.gate.release()


_making: dict[tuple[int, Any], _Making] = {}
_waiting: dict[int, _Making] = {}  # thread -> what it waits for


def _would_wait_for_itself(making: _Making) -> bool:
    """Whether the thread that makes it waits, over any number of others, for this one."""
    me = threading.get_ident()
    seen: set[int] = set()
    while making.thread != me:
        waits_for = _waiting.get(making.thread)
        if making.thread in seen or waits_for is None or waits_for.done:
            return False
        seen.add(making.thread)
        making = waits_for
    return True


class BoundedCache(Generic[K, V]):
    """A table that keeps what was used last, within a budget.

    Attributes:
      hot: the young entries, for look-ups that cannot afford a call: `cache.hot.get(key)`. A miss
        there says nothing; ask `find` or `make`. Never write to it.
    """

    __slots__ = ("__weakref__", "_budget", "_entries", "_keys", "_self", "_size", "hot")

    def __init__(self, budget: Budget, size: Callable[[V], int] | None = None) -> None:
        """`size`: bytes of a value, asked for once, when it comes in."""
        self.hot: dict[K, V] = {}
        self._entries: dict[K, tuple[V, _Entry]] = {}
        self._keys: dict[_Entry, tuple[K, ...]] = {}  # more than one: aliases
        self._budget = budget
        self._size = size
        self._self = weakref.ref(self, budget._gone.append)

    def find(self, key: K, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        value = self.hot.get(key, _MISSING)
        if value is _MISSING:
            value = self._touch(key)
        return default if value is _MISSING else value

    def put(self, key: K, value: V) -> V:
        """Remember a value; the one that is there already stays. Returns the one that is there."""
        present = self._touch(key)
        if present is not _MISSING:
            return present
        budget = self._budget
        entry = _Entry(self._self, 0 if self._size is None else self._size(value))
        self._keys[entry] = (key,)
        _news.append((budget._admit, entry))
        kept, its_entry = self._entries.setdefault(key, (value, entry))
        if its_entry is entry:
            self._set_hot(key, kept)
        else:
            self._keys.pop(entry, None)
            _news.append((budget._forget, entry))
        _settle()
        return kept

    def make(self, key: K, maker: Callable[[], V]) -> V:
        """The value of a key; `maker()` makes it if there is none, on one thread only."""
        value = self.hot.get(key, _MISSING)
        return self._make(key, maker) if value is _MISSING else value

    def _make(self, key: K, maker: Callable[[], V]) -> V:
        place = (id(self), key)
        mine = _Making()
        # A signal handler's maker may wait while the one that it interrupted waits.
        outer = _waiting.get(mine.thread)
        try:
            while True:
                other = _making.setdefault(place, mine)
                value = self._touch(key)  # it may have come while nobody was making it
                if value is not _MISSING:
                    return value
                if other is mine:
                    break
                if other.done:  # who made it was interrupted, and could not take it away
                    if _making.get(place) is other:
                        _making.pop(place, None)
                    continue
                # First say it, then look: of two that do this at the same time, one sees the other.
                _waiting[mine.thread] = other
                if _would_wait_for_itself(other):
                    break
                other.wait()
            _put_back_waiting(mine.thread, outer)
            return self.put(key, maker())
        finally:
            mine.done = True
            mine.gate.release()
            _put_back_waiting(mine.thread, outer)
            if _making.get(place) is mine:
                _making.pop(place, None)

    def alias(self, key: K, other: K) -> None:
        """Let the value of `key`, if it is still there, be found under `other`, too."""
        found = self._entries.get(key)
        if found is None:
            return
        value, entry = found
        self._keys[entry] = (*self._keys.get(entry, ()), other)
        if self._entries.setdefault(other, found) is found and key in self.hot:
            self._set_hot(other, value)

    def clear(self) -> None:
        """Forget everything."""
        self.hot.clear()
        dropped = self._entries
        self._entries = {}
        for _, entry in list(dropped.values()):
            self._keys.pop(entry, None)
            _news.append((self._budget._forget, entry))
        _settle()

    def __len__(self) -> int:
        """How many values; aliases do not count."""
        return len({entry for _, entry in list(self._entries.values())})

    def items(self) -> list[tuple[K, V]]:
        """The keys and values, as they are now; nothing counts as used."""
        return [(key, value) for key, (value, _) in list(self._entries.items())]

    def __iter__(self) -> Iterator[K]:
        """The keys, as they are now."""
        return iter(list(self._entries))

    def _touch(self, key: K) -> V:
        found = self._entries.get(key)
        if found is None:
            return _MISSING
        value, entry = found
        _news.append((self._budget._rejuvenate, entry))
        _settle()
        return value

    def _set_hot(self, key: K, value: V) -> None:
        self.hot[key] = value
        if key not in self._entries:  # it was cleared meanwhile
            self.hot.pop(key, None)

    # What follows is called by who has the turn.

    def _heat(self, entry: _Entry) -> None:
        for key in self._keys.get(entry, ()):
            found = self._entries.get(key)
            if found is not None and found[1] is entry:
                self._set_hot(key, found[0])

    def _cool(self, entry: _Entry) -> None:
        for key in self._keys.get(entry, ()):
            self.hot.pop(key, None)

    def _take(self, entry: _Entry) -> Any:
        value = None
        for key in self._keys.get(entry, ()):
            self.hot.pop(key, None)
            found = self._entries.get(key)
            if found is not None and found[1] is entry:
                value = self._entries.pop(key, None)
        self._keys.pop(entry, None)
        return value


def _put_back_waiting(thread: int, outer: _Making | None) -> None:
    if outer is None:
        _waiting.pop(thread, None)
    else:
        _waiting[thread] = outer


class _KeyedRef(weakref.ref):
    """`is_noted`: whether it is among the news that it refers to nothing."""

    __slots__ = ("is_noted", "key")
    key: Any
    is_noted: bool


class InternTable(Generic[K, V]):
    """One object per key, as long as somebody holds it; the objects must allow weak references.

    `refs.get(key)` is a weak reference or None: the look-up of callers that cannot afford a call.
    """

    __slots__ = ("__weakref__", "_gone", "refs")

    def __init__(self) -> None:
        self.refs: dict[K, _KeyedRef] = {}
        # Objects die anywhere, and a function in Python might be interrupted there: only noted.
        self._gone: deque[_KeyedRef] = deque()

    def find(self, key: K) -> V | None:
        """The object of this key, or None."""
        ref = self.refs.get(key)
        return None if ref is None else ref()

    def intern(self, key: K, value: V) -> V:
        """The object of this key: the one there is, else `value`."""
        refs = self.refs
        while self._gone:
            try:
                self._note(self._gone.popleft())
            except IndexError:
                break  # another thread does the same
        ref = _KeyedRef(value, self._gone.append)
        ref.key, ref.is_noted = key, False
        while True:
            _settle()
            present = refs.setdefault(key, ref)
            if present is ref:
                return value
            found = present()
            if found is not None:
                return found
            self._note(present)
            if not _turn:
                if _holder == threading.get_ident():  # whom a signal handler interrupts
                    self._remove(present, [])
                else:
                    time.sleep(0)

    def _note(self, dead: _KeyedRef) -> None:
        """A reference is to be taken out. Noted once: who has the turn would never be through if
        all who wait for it asked at each look."""
        if not dead.is_noted:
            _news.append((self._remove, dead))
            dead.is_noted = True

    def _remove(self, dead: _KeyedRef, dropped: list[Any]) -> None:
        """Take a reference to nothing out. Done by who has the turn: hashing a key may be byte
        code, within which other threads go on."""
        refs, key = self.refs, dead.key
        if refs.get(key) is dead:
            removed = refs.pop(key, None)
            if removed is not None and removed is not dead:  # a signal handler was here
                refs.setdefault(key, removed)


_FOR_GOOD = 1 << 62
# `clear_all` leaves what is in it.
made_for_good = Budget("made once", entries=_FOR_GOOD)


class once(Generic[V]):
    """Decorator: the function runs once per arguments (positional, hashable), also if threads come
    at the same time. For few different arguments: nothing is forgotten but by `clear`.

    >>> once(lambda x: [x])(3)
    [3]
    """

    def __init__(self, function: Callable[..., V]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._results: BoundedCache[Any, V] = BoundedCache(made_for_good)

    def __call__(self, *args: Any) -> V:
        results = self._results
        found = results.hot.get(args, _MISSING)
        return results.make(args, lambda: self._function(*args)) if found is _MISSING else found

    def clear(self) -> None:
        """Forget the results."""
        self._results.clear()


def clear_all() -> None:
    """Empty every cache (what is made once for good, stays)."""
    _settle()
    for budget in list(_budgets):
        if budget is made_for_good:
            continue
        for cache in {entry.cache() for entry in (*budget._young, *budget._aged)}:
            if cache is not None:
                cache.clear()


def statistics() -> dict[str, dict[str, int]]:
    """For each budget: entries, bytes (as counted) and evictions so far."""
    return {
        b.name: {"entries": len(b), "bytes": b.held_bytes, "evictions": b.evictions}
        for b in list(_budgets)
    }


def _after_fork_in_child() -> None:
    # The threads that were making these are not here.
    _making.clear()
    _waiting.clear()
    # One of them may have had the turn; it left its news in the queue.
    if _holder != threading.get_ident():
        _turn[:] = [True]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
