"""Functions that put trees of one structure together, written for it: displays of the containers
with the leaves in their places, as one would write them by hand,

    lambda a: {'attention': {'k': a[0], 'q': a[1]}, 'mlp': [a[2], a[3]], 'norm': c0(scale=a[4])}

which Python runs in a fifth of the time of a walk over the structure. Layer: core.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.tree_nodes import PLAIN_KEYS

# Python's own compiler recurses through displays.
_DEEPEST = 40
_MOST_NODES = 1000
_BRACKETS = {dict: ("{", "}"), tuple: ("(", ")"), list: ("[", "]")}

# The type, the keys, the children; of a class with attributes, also those that are no children.
Node = tuple[type, Sequence[str | int] | None, Sequence[Any]] | tuple[Any, ...]


def builder_of(root: Any, node_of: Callable[[Any], Node | None]) -> Callable[[Any], Any] | None:
    """What gives the tree from a list or tuple of its leaves; None if the structure has other nodes
    than dicts with plain keys, tuples, lists, None and calls of classes, or is very large or deep.

    Args:
      node_of: the type, the keys and the children of a structure; None: it is a leaf. Classes are
        called with their children, by name if there are keys; a fourth item has the names and
        values of what they get beside these. Keys that are None: a function, which is the fourth
        item, is called with the fifth and the children.
    """
    parts: list[str] = []
    names: dict[str, Any] = {}
    nodes = leaves = 0

    def constant(value: Any) -> str:
        name = f"c{len(names)}"
        names[name] = value
        return name

    def write(structure: Any, depth: int) -> bool:
        nonlocal nodes, leaves
        node = node_of(structure)
        if node is None:
            parts.append(f"a[{leaves}],")
            leaves += 1
            return True
        nodes += 1
        cls, keys, children, *others = node
        if nodes > _MOST_NODES or depth > _DEEPEST:
            return False
        if cls is type(None):
            parts.append("None,")
            return True
        opening, closing = _BRACKETS.get(cls) or (f"{constant(cls)}(", ")")
        if keys is None:
            function, data = others
            opening, closing = f"{constant(function)}({constant(data)},(", "))"
            others = []
        parts.append(opening)
        for key, value in others[0] if others else ():
            if not _is_name(key):
                return False
            parts.append(f"{key}={constant(value)},")
        for i, child in enumerate(children):
            if cls is dict:
                if type(keys[i]) not in PLAIN_KEYS:
                    return False
                # (Of very long integers there is no text.)
                parts.append(f"{keys[i]!r}:" if type(keys[i]) is str else f"{constant(keys[i])}:")
            elif keys:
                if not _is_name(keys[i]):
                    return False
                parts.append(f"{keys[i]}=")
            if not write(child, depth + 1):
                return False
        parts.append(closing + ",")
        return True

    if not write(root, 0):
        return None
    return eval(f"lambda a: {''.join(parts)[:-1]}", names)


def _is_name(key: str) -> bool:
    return key.isidentifier() and not keyword.iskeyword(key)
