"""Structures of pytrees as JSON values, and which types of users take part.

A leaf is null; a container is a list of its kind, what it has besides children, and its children.
Types of users are named by what they were registered under: reading looks the name up in this
process, and never imports anything.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from pyjax.core.errors import fail
from pyjax.core.tree_nodes import node_type_of
from pyjax.core.tree_util import PyTreeDef, tree_structure
from pyjax.export.container import malformed
from xla_backend.process.light_dataclasses import dataclass

T = TypeVar("T")
_MOST_NESTED = 150


@dataclass(frozen=True)
class _Registered:
    """How a type of users is written: as a name, bytes of its auxiliary data, and children."""

    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]
    build: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, _Registered] = {}
_by_name: dict[str, tuple[type, _Registered]] = {}


def _register(nodetype: type, entry: _Registered) -> None:
    if nodetype in _by_type:
        fail(
            ValueError,
            f"{nodetype.__qualname__} is already registered for serialization, as "
            f"{_by_type[nodetype].name!r}",
            "a type has one name in exported programs",
            "register each type once, where it is defined",
        )
    if entry.name in _by_name:
        fail(
            ValueError,
            f"the name {entry.name!r} already stands for {_by_name[entry.name][0].__qualname__}",
            "a name in exported programs stands for one type",
            "choose another serialized_name, such as one that begins with the module's name",
        )
    _by_type[nodetype] = entry
    _by_name[entry.name] = (nodetype, entry)


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Let a registered pytree node be part of serialized programs.

    Whoever reads such a program registers a type under the same name first.

    Args:
      nodetype: a type registered as a pytree node.
      serialized_name: stands for it in serialized programs.
      serialize_auxdata, deserialize_auxdata: its auxiliary data to bytes and back.
      from_children: (auxiliary data, children) to a node; None: as the type was registered.
    Returns:
      `nodetype`.
    Raises:
      ValueError: the type is no registered pytree node, or the type or the name is taken.

    >>> import json
    >>> import pyjax
    >>> @pyjax.tree_util.register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, x, unit):
    ...         self.x, self.unit = x, unit
    ...     def tree_flatten(self):
    ...         return (self.x,), self.unit
    ...     @classmethod
    ...     def tree_unflatten(cls, unit, children):
    ...         return cls(*children, unit)
    >>> _ = register_pytree_node_serialization(
    ...     Scaled, serialized_name="docs.Scaled",
    ...     serialize_auxdata=lambda unit: unit.encode(),
    ...     deserialize_auxdata=lambda data: data.decode())
    """
    node_type = node_type_of(nodetype)
    if node_type is None:
        fail(
            ValueError,
            f"{nodetype.__qualname__} is not registered as a pytree node",
            "only types that are taken apart can be part of a structure",
            "register it first, as with pyjax.tree_util.register_pytree_node",
        )
    unflatten = node_type.unflatten

    def build(aux: Any, children: Sequence[Any]) -> Any:
        return unflatten(aux, tuple(children))

    entry = _Registered(
        serialized_name, serialize_auxdata, deserialize_auxdata, from_children or build
    )
    _register(nodetype, entry)
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Let a named tuple be part of serialized programs.

    Args:
      nodetype: a type made by `collections.namedtuple` or `typing.NamedTuple`.
      serialized_name: stands for it in serialized programs.
    Returns:
      `nodetype`.
    Raises:
      ValueError: it is no named tuple, or the type or the name is taken; at reading, the type has
        other fields than the one that was written.

    >>> import collections
    >>> Point = collections.namedtuple("Point", "x y")
    >>> register_namedtuple_serialization(Point, serialized_name="docs.Point") is Point
    True
    """
    fields = getattr(nodetype, "_fields", None)
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and fields is not None):
        fail(
            ValueError,
            f"{nodetype!r} is no named tuple",
            "its fields are what is recorded of it",
            "use register_pytree_node_serialization for other types",
        )

    def build(names: Any, children: Sequence[Any]) -> Any:
        if names != list(fields):
            fail(
                ValueError,
                f"{serialized_name!r} was serialized with the fields {names}, and "
                f"{nodetype.__qualname__} has {list(fields)}",
                "a structure is rebuilt from fields of the same names in the same order",
                "register a named tuple with these fields under this name",
            )
        return nodetype(*children)

    entry = _Registered(
        serialized_name,
        lambda _: ",".join(fields).encode(),
        lambda data: data.decode().split(",") if data else [],
        build,
    )
    _register(nodetype, entry)
    return nodetype


# -- writing ---------------------------------------------------------------------------------------


def tree_to_json(tree: PyTreeDef) -> Any:
    """A structure as lists, strings, numbers and null.

    Raises:
      ValueError: it has a type that is not registered for serialization, or keys of a dict that
        are no strings, numbers, booleans or tuples of those.
    """
    node = tree.node_data()
    if node is None:
        return None
    kind, data = node
    children = [tree_to_json(child) for child in tree.children()]
    if kind is type(None):
        return ["none"]
    entry = _by_type.get(kind)
    if entry is not None:
        text = base64.b64encode(entry.to_bytes(data)).decode("ascii")
        return ["registered", [entry.name, text], children]
    if kind is tuple or kind is list:
        return [kind.__name__, None, children]
    if kind is dict or kind is OrderedDict:
        return [kind.__name__, [_key_to_json(key) for key in data], children]
    fail(
        ValueError,
        f"a structure with {kind.__qualname__} cannot be serialized",
        "nothing tells how to write its auxiliary data, and how to find the type when it is read",
        "register it with pyjax.export.register_pytree_node_serialization, or a named tuple with "
        "pyjax.export.register_namedtuple_serialization",
    )


def _key_to_json(key: Any) -> Any:
    if type(key) in (str, int, float, bool):
        return [type(key).__name__, key]
    if type(key) is tuple:
        return ["tuple", [_key_to_json(k) for k in key]]
    fail(
        ValueError,
        f"a dict with the key {key!r} cannot be serialized",
        "keys are written as strings, numbers, booleans and tuples of those",
        "use strings as keys",
    )


# -- reading ---------------------------------------------------------------------------------------


def tree_from_json(value: Any) -> PyTreeDef:
    """The structure that `tree_to_json` wrote.

    Raises:
      ValueError: it did not write this, or a name in it is not registered in this process.
    """
    return tree_structure(_example(value, 0))


def _example(value: Any, depth: int) -> Any:
    """A pytree of the structure; its leaves are numbers."""
    if value is None:
        return 0.0
    if value == ["none"]:
        return None
    if depth > _MOST_NESTED or type(value) is not list or len(value) != 3:
        _malformed(value)
    kind, data, children = value
    if type(children) is not list:
        _malformed(value)
    items = [_example(child, depth + 1) for child in children]
    if kind in ("tuple", "list") and data is None:
        return tuple(items) if kind == "tuple" else items
    if kind in ("dict", "OrderedDict") and type(data) is list and len(data) == len(items):
        keys = [_key_from_json(key, 0) for key in data]
        pairs = zip(keys, items)
        result = dict(pairs) if kind == "dict" else OrderedDict(pairs)
        if len(result) == len(items):
            return result
    if kind == "registered" and type(data) is list and [type(d) for d in data] == [str, str]:
        name, text = data
        if name not in _by_name:
            fail(
                ValueError,
                f"the program takes or returns a {name!r}, which is not registered in this process",
                "types of users are found by the names under which they are registered",
                "register the type under this name before you deserialize, with "
                "pyjax.export.register_pytree_node_serialization or "
                "pyjax.export.register_namedtuple_serialization",
            )
        entry = _by_name[name][1]
        return entry.build(entry.from_bytes(_bytes(text)), items)
    _malformed(value)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        malformed(f"auxiliary data are no base64: {error}")


_KEYS: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}


def _key_from_json(value: Any, depth: int) -> Any:
    if type(value) is list and len(value) == 2 and type(value[0]) is str and depth < _MOST_NESTED:
        kind, key = value
        if kind in _KEYS and type(key) is _KEYS[kind]:
            return key
        if kind == "tuple" and type(key) is list:
            return tuple([_key_from_json(k, depth + 1) for k in key])
    _malformed(value)


def _malformed(value: Any) -> NoReturn:
    malformed(f"this is no structure of a pytree: {value!r:.80}")
