"""Tables that hold their keys weakly and compare them by identity. Layer: core."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class WeakIdentityTable:
    """Remembers something about objects as long as they live, typically functions.

    Unlike `weakref.WeakKeyDictionary` it never compares objects with their own `==`: two callable
    objects that call themselves equal may still compute different things (`Scale(0.0)` and
    `Scale(-0.0)`). The address of an object that is gone may belong to another one now; an entry
    counts only for the object that it was made for.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any) -> Any:
        """What is remembered of an object; None if nothing is."""
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def set(self, key: Any, value: Any) -> None:
        """Remember `value`, which must not refer to `key`, or neither is ever forgotten.

        Raises:
          TypeError: the object cannot be held weakly.
        """
        entries, number = self._entries, id(key)
        # Called as pop(number, reference) when the object goes, before its address is used again. A
        # function in Python may be interrupted there by a signal handler, and the interrupt lost.
        entries[number] = (weakref.ref(key, partial(entries.pop, number)), value)

    def set_default(self, key: Any, value: Any) -> Any:
        """What is remembered of an object: `value`, if another thread has set nothing meanwhile.

        Raises:
          TypeError: the object cannot be held weakly.
        """
        entries, number = self._entries, id(key)
        entry = (weakref.ref(key, partial(entries.pop, number)), value)
        kept = entries.setdefault(number, entry)
        if kept[0]() is key:
            return kept[1]
        entries[number] = entry  # it was of an object that is gone
        return value


class PerFunction(Generic[Value]):
    """One thing for each function as it is now, held weakly with it.

    What is made must not refer to the function, or neither is ever forgotten.

    >>> counts = PerFunction(list)
    >>> def f(): ...
    >>> counts.of(f) is counts.of(f)
    True
    """

    __slots__ = ("_make", "_table")

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._table = WeakIdentityTable()

    def __len__(self) -> int:
        return len(self._table)

    def of(self, fun: Callable[..., Any]) -> Value:
        """What there is for `fun`; a new one each time if it cannot be held weakly."""
        found = self._table.get(fun)
        # Reloading a module replaces the code of a function that others hold.
        code = fun.__code__ if type(fun) is FunctionType else None
        if found is not None and found[0] is code:
            return found[1]
        made = (code, self._make())
        try:
            if found is None:  # threads that ask at once get the same
                kept = self._table.set_default(fun, made)
                if kept[0] is code:
                    return kept[1]
            self._table.set(fun, made)
        except TypeError:
            pass  # it cannot be held weakly
        return made[1]
