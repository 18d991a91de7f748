"""Functions that put trees of one structure together, written for it: displays of the containers
with the leaves in their places, as one would write them by hand,

    lambda a: {'attention': {'k': a[0], 'q': a[1]}, 'mlp': [a[2], a[3]]}

which Python runs in a fifth of the time of a walk over the structure. Layer: core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# Python's own compiler recurses through displays.
_DEEPEST = 40
_MOST_NODES = 1000
_BRACKETS = {dict: ("{", "}"), tuple: ("(", ")"), list: ("[", "]")}

Node = tuple[type, Sequence[str] | None, Sequence[Any]]


def builder_of(root: Any, node_of: Callable[[Any], Node | None]) -> Callable[[Any], Any] | None:
    """What gives the tree from a list or tuple of its leaves; None if the structure has other nodes
    than dicts with string keys, tuples, lists and None, or is very large or deep.

    Args:
      node_of: the type, the keys and the children of a structure; None: it is a leaf.
    """
    parts: list[str] = []
    nodes = leaves = 0

    def write(structure: Any, depth: int) -> bool:
        nonlocal nodes, leaves
        node = node_of(structure)
        if node is None:
            parts.append(f"a[{leaves}],")
            leaves += 1
            return True
        nodes += 1
        cls, keys, children = node
        if nodes > _MOST_NODES or depth > _DEEPEST:
            return False
        if cls is type(None):
            parts.append("None,")
            return True
        if cls not in _BRACKETS:
            return False
        opening, closing = _BRACKETS[cls]
        parts.append(opening)
        for i, child in enumerate(children):
            if keys is not None:
                if type(keys[i]) is not str:
                    return False
                parts.append(f"{keys[i]!r}:")
            if not write(child, depth + 1):
                return False
        parts.append(closing + ",")
        return True

    if not write(root, 0):
        return None
    return eval(f"lambda a: {''.join(parts)[:-1]}")
