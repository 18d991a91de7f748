"""Attributes that are computed when somebody first asks.

`functools.cached_property` has one lock for an attribute of all objects until Python 3.12: who
forks while another thread computes it gets a child that waits for ever. This one has none; of two
threads that compute the same attribute, both get what the first one put there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
V = TypeVar("V")


class lazy(Generic[Owner, V]):
    """Decorator of a method without arguments, which becomes an attribute.

    >>> class Square:
    ...     side = 3.0
    ...
    ...     @lazy
    ...     def area(self) -> float:
    ...         return self.side**2
    >>> Square().area
    9.0
    """

    def __init__(self, function: Callable[[Owner], V]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy[Owner, V]: ...

    @overload
    def __get__(self, instance: Owner, owner: type | None = None) -> V: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._function(instance))
