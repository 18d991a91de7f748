"""Native code that takes trees apart, once there is some; who has it puts it here.

Layer: core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Flattened = tuple[list[Any], Any]


class KnownTrees:
    """
    Attributes:
      find: gives the leaves and the structure of a tree, or None if it does not know such trees.
      learn: is told of a tree and its structure what Python has found, which `find` did not know;
        the structure is the one object for such trees.
    """

    __slots__ = ("find", "learn")

    def __init__(self) -> None:
        self.find: Callable[[Any], Flattened | None] | None = None
        self.learn: Callable[[Any, Any], None] | None = None


known_trees = KnownTrees()
