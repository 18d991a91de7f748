"""Objects of a class, wherever they are held, so that none needs a list of its own."""

from __future__ import annotations

import gc
from typing import TypeVar

_T = TypeVar("_T")


def instances_of(kind: type[_T]) -> list[_T]:
    """The objects of a class and of its subclasses that the garbage collector knows.

    Objects refer to their class. To ask for all objects there are (`gc.get_objects`) takes hold of
    tuples that other threads are about to make, which then fail with a SystemError.

    >>> class Node: ...
    >>> first, second = Node(), Node()
    >>> len(instances_of(Node))
    2
    """
    kinds = [kind]
    for known in kinds:  # becomes longer meanwhile
        kinds += [below for below in type.__subclasses__(known) if below not in kinds]
    # Proxies of other libraries lie about their class, and run code when asked: type(x) does not.
    return [x for x in gc.get_referrers(*kinds) if issubclass(type(x), kind)]
