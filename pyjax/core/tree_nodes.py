"""What kinds of objects are nodes of pytrees: the registry, with the containers of the standard
library that are no tuples, lists or dicts.

What structures are made of these is in `core/pytree.py`. Layer: core.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakSet

from pyjax.core.errors import new_error
from xla_backend.process.bounded_cache import clear_all

Fields = tuple[tuple[str, ...], tuple[str, ...]]


class NodeType:
    """How one type is taken apart and put together.

    `flatten(x) -> (children, aux)`, `unflatten(aux, children) -> x`;
    `flatten_with_keys(x) -> ((key, child) pairs, aux)` or None. `fields`: the names of the
    attributes that are its children, and of those that are its auxiliary data, where this is all
    that `flatten` looks at.
    """

    __slots__ = ("cls", "fields", "flatten", "flatten_with_keys", "unflatten")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], tuple[Iterable[Any], Any]],
        unflatten: Callable[[Any, tuple[Any, ...]], Any],
        flatten_with_keys: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
        fields: Fields | None = None,
    ) -> None:
        self.cls = cls
        self.fields = fields
        self.flatten = flatten
        self.unflatten = unflatten
        self.flatten_with_keys = flatten_with_keys


node_types: dict[type, NodeType | None] = {}
# Types found to be leaves: neither registered nor named tuples.
leaf_types: set[type] = set()
MOST_LEAF_TYPES = 1024


def sorted_keys(d: dict) -> list[Any]:
    try:
        return sorted(d)
    except TypeError as error:
        raise new_error(
            ValueError,
            f"Comparator raised exception while sorting pytree dictionary keys: {list(d)!r:.80}",
            f"Leaves of dictionaries come in the order of their keys: {error}.",
            "Use keys of one type, or an OrderedDict, which has an order of its own.",
        ) from None


# Types of keys of dicts that are what they equal, among others of these types, and whose equality
# runs no code of the user's.
PLAIN_KEYS = frozenset({str, int})


def are_plain_keys(keys: Iterable[Any]) -> bool:
    """Whether structures of dicts with such keys may be one object for all that are equal.

    >>> are_plain_keys(["a", "b"]), are_plain_keys([0, 1]), are_plain_keys([0, True])
    (True, True, False)
    """
    return PLAIN_KEYS.issuperset(map(type, keys))


def is_node_type(kind: type) -> bool:
    """Whether instances of a type are nodes."""
    if kind in (type(None), tuple, list, dict) or kind in node_types:
        return True
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


# Classes of named tuples that somebody goes by as long as they are not registered.
_taken_as_tuples: WeakSet[type] = WeakSet()


def is_plain_namedtuple(kind: type) -> bool:
    """Whether instances of a type are named tuples whose children are what they hold as tuples.
    Who goes by that keeps it in a table that `clear_all` empties: the class may be registered."""
    plain = (
        issubclass(kind, tuple)
        and hasattr(kind, "_fields")
        and kind not in node_types
        and kind.__iter__ is tuple.__iter__
    )
    if plain:
        _taken_as_tuples.add(kind)
    return plain


def register_node(
    cls: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, tuple[Any, ...]], Any],
    flatten_with_keys: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
    fields: Fields | None = None,
) -> None:
    """Add a node type to the registry.

    Raises:
      ValueError: it is registered already.
    """
    if not isinstance(cls, type):
        raise new_error(TypeError, f"a pytree node type must be a class, got {cls!r}")
    if cls in node_types:
        raise new_error(
            ValueError,
            f"Duplicate custom PyTreeDef type registration for {cls}.",
            "Trees that were flattened rely on the functions that were registered.",
            "Register a class once, at the top level of the module that defines it.",
        )
    node_types[cls] = NodeType(cls, flatten, unflatten, flatten_with_keys, fields)
    leaf_types.discard(cls)
    if cls in _taken_as_tuples:
        clear_all()


def node_type_of(cls: type) -> NodeType | None:
    """Registry entry of a custom node type; None for built-in containers and leaves."""
    return node_types.get(cls)


def parts_of(node: NodeType, tree: Any) -> tuple[Iterable[Any], Any]:
    """The children and the auxiliary data of a node.

    Raises:
      ValueError: its function gives something else.
    """
    given: Any = node.flatten(tree)
    if type(given) is tuple and len(given) == 2 and type(given[0]) in _SEQUENCES:
        return given
    is_pair = isinstance(given, tuple | list) and len(given) == 2
    if not is_pair or not isinstance(given[0], Iterable):
        children = ", whose children are iterable" if is_pair else ""
        raise new_error(
            ValueError,
            f"The function that flattens {node.cls.__name__} must return a pair "
            f"(children, aux_data){children}, got {given!r:.80}.",
            "It is what the class was registered with.",
            "One child is a tuple, too: `return (x.child,), None`.",
        )
    return given[0], given[1]


_SEQUENCES = frozenset({tuple, list})
# Built-in containers are in the registry so that `type(x) in node_types` says "not a leaf".
node_types[tuple] = node_types[list] = node_types[dict] = None


def _flatten_ordered(d: Any) -> tuple[Iterable[Any], Any]:
    return list(d.values()), tuple(d)


def _flatten_default(d: Any) -> tuple[Iterable[Any], Any]:
    keys = tuple(sorted_keys(d))
    return [d[k] for k in keys], (d.default_factory, keys)


register_node(
    collections.OrderedDict,
    _flatten_ordered,
    lambda keys, values: collections.OrderedDict(zip(keys, values)),
)
register_node(
    collections.defaultdict,
    _flatten_default,
    lambda data, values: collections.defaultdict(data[0], zip(data[1], values)),
)
register_node(
    collections.deque,
    lambda d: (list(d), d.maxlen),
    lambda maxlen, values: collections.deque(values, maxlen=maxlen),
)
