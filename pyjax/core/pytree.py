"""Pytrees: PyTreeDef, flatten and unflatten. The registry of node types is `core/tree_nodes.py`.

Functions over pytrees (map, reduce, transpose, paths) are in `core/tree_util.py`. Written for
speed: flattening is on the path of every transformed call. Layer: core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from operator import is_, itemgetter
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

from pyjax.core.errors import new_error
from pyjax.core.exact_keys import exact_key, register_exact_key
from pyjax.core.known_trees import known_trees
from pyjax.core.tree_messages import (
    DICT_KIND,
    LEAF_KIND,
    LIST_KIND,
    NONE_KIND,
    TUPLE_KIND,
    decode,
    encode,
)
from pyjax.core.tree_nodes import (
    MOST_LEAF_TYPES,
    PLAIN_KEYS,
    leaf_types,
    node_types,
    parts_of,
    sorted_keys,
)
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.process.on_first_use import on_first_use

builder_of = on_first_use("pyjax.core.tree_builders", "builder_of")


class _Leaf:
    def __repr__(self) -> str:
        return "*"


class _NoneNode:
    def __repr__(self) -> str:
        return "None"


class PyTreeDef:
    """The structure of a pytree. Equal when node types, auxiliary data and children are equal.

    Attributes:
      num_leaves, num_nodes: counts.

    >>> tree_structure([0, {"a": 0}]).num_leaves
    2
    """

    __slots__ = (
        "_build", "_children", "_data", "_exact", "_hash", "_items", "_type", "_unflattened",
        "is_shared", "num_leaves", "num_nodes", "paths",
    )  # fmt: skip
    num_leaves: int
    num_nodes: int
    # Whether there is one object for all such structures: nothing but tuples, lists, named tuples,
    # dicts with plain keys and registered nodes whose auxiliary data are the same objects.
    # Of these `tree_util` keeps the paths of the leaves here; False: only the tree tells.
    is_shared: bool
    paths: Any

    def __init__(self, node_type: Any, data: Any, children: tuple[PyTreeDef, ...]) -> None:
        self._type = node_type
        self._data = data
        self._children = children
        self._hash: int | None = None
        self._exact: Hashable = None
        self._items: Callable[[dict], Any] | None = None
        self._build: Callable[[Any], Any] | None = None
        self._unflattened = 0  # how often, until it is written a function for
        self.is_shared = False
        self.paths = None
        if children:
            leaves = 0
            nodes = 1
            for child in children:
                leaves += child.num_leaves
                nodes += child.num_nodes
            self.num_leaves = leaves
            self.num_nodes = nodes
        else:
            self.num_leaves = 1 if node_type is _Leaf else 0
            self.num_nodes = 1

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not PyTreeDef:
            return NotImplemented
        return (
            self._type is other._type
            and self.num_leaves == other.num_leaves
            and bool(self._data == other._data)
            and self._children == other._children
        )

    def __hash__(self) -> int:
        result = self._hash
        if result is None:
            # Auxiliary data need not have a hash: it is compared only.
            keys = tuple(self._data) if type(self._data) is list else None
            result = self._hash = hash((self._type, keys, self._children))
        return result

    def exact_key(self) -> Hashable:
        """For caches of programs. `==` calls structures equal whose keys and auxiliary data are
        equal, `{1: x}` and `{True: x}`; a function may treat them differently, so these keys
        compare types and bits too, of auxiliary data that has a hash; of other data `==` is asked.
        """
        result = self._exact
        if result is None:
            data = self._data
            if type(data) is list:
                data = (list, *map(exact_key, data))
            elif data is not None:
                try:
                    data = exact_key(data)
                except TypeError:
                    data = _Unhashable(data)
            children = [c._exact or c.exact_key() for c in self._children]
            result = self._exact = (self._type, data, *children)
        return result

    def __reduce__(self) -> Any:
        if self._type is _Leaf:
            return "LEAF"
        return (_rebuild, (self._type, self._data, self._children))

    # -- what one asks of a structure -----------------------------------------------------------

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The pytree of this structure with these leaves.

        Raises:
          ValueError: wrong number of leaves.
        """
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise new_error(
                ValueError,
                f"Too {'few' if len(leaves) < self.num_leaves else 'many'} leaves for PyTreeDef; "
                f"expected {self.num_leaves}, got {len(leaves)}.",
                f"The structure is {self}.",
                "Unflatten what flatten or leaves of such a tree gave.",
            )
        if self._build is not None:
            return self._build(leaves)
        if self is LEAF:
            return leaves[0]
        if self.is_shared:
            self._unflattened += 1
            if self._unflattened == _OFTEN:
                self._build = builder_of(self, _plain_node)
        if len(self._children) == len(leaves) == self.num_nodes - 1:  # only leaves below the root
            return make_node(self, list(leaves))
        return _unflatten(self, leaves, 0)

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """The structure with this root (see `node_data`; None: a leaf) and these children."""
        parts = tuple(children)
        if node_data is None:
            return LEAF
        kind, data = node_data
        return _node(_NoneNode if kind is type(None) else kind, data, parts)

    def serialize_using_proto(self) -> bytes:
        """The structure as bytes, which JAX reads, too.

        Raises:
          ValueError: it has other nodes than tuples, lists, dictionaries with text keys and None.
        """
        nodes: list[Any] = []

        def visit(treedef: PyTreeDef) -> None:
            for child in treedef._children:
                visit(child)
            kind = _MESSAGES.get(treedef._type)
            keys = treedef._data if kind == DICT_KIND else ()
            if kind is None or not all(type(k) is str for k in keys):
                raise ValueError(
                    f"{_type_name(treedef)} cannot be serialized: only tuples, lists, dictionaries "
                    "with text keys and None can; convert it first."
                )
            nodes.append((len(treedef._children), kind, keys))

        visit(self)
        return encode(nodes)

    @staticmethod
    def deserialize_using_proto(registry: Any, data: bytes) -> PyTreeDef:
        """The structure that `serialize_using_proto` made bytes of.

        Raises:
          ValueError: they are none of it.
        """
        kinds = {kind: cls for cls, kind in _MESSAGES.items()}
        stack: list[PyTreeDef] = []
        for arity, kind, keys in decode(data):
            if arity > len(stack):
                raise ValueError("no message of a PyTreeDef: a node lacks children")
            children = tuple(stack[len(stack) - arity :])
            del stack[len(stack) - arity :]
            if kind == LEAF_KIND:
                stack.append(LEAF)
            else:
                stack.append(
                    _node(kinds[kind], list(keys) if kind == DICT_KIND else None, children)
                )
        if len(stack) != 1:
            raise ValueError(f"no message of a PyTreeDef: {len(stack)} roots")
        return stack[0]

    def children(self) -> list[PyTreeDef]:
        return list(self._children)

    def node_data(self) -> tuple[type, Any] | None:
        """(type, auxiliary data) of the root; None for a leaf."""
        if self._type is _Leaf:
            return None
        return (type(None) if self._type is _NoneNode else self._type), self._data

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Subtrees of `tree` at the places of this structure's leaves.

        Raises:
          ValueError: this structure is not a prefix of `tree`.
        """
        if self is LEAF:
            return [tree]
        if self.is_shared and known_trees.find is not None:
            known = known_trees.find(tree)
            if known is not None and known[1] is self:
                return known[0]
        out: list[Any] = []
        if not _flattened_up_to(self, tree, out):
            out.clear()
            _flatten_up_to(self, tree, out, "")  # says where they differ
        return out

    def from_iterable_tree(self, tree: Any) -> Any:
        """The pytree of this structure whose leaves are those of nested iterables.

        Args:
          tree: at each node an iterable of as many items as the node has children (None has none),
            at each leaf the leaf.
        Raises:
          ValueError: a node has another number of items.
          TypeError: what stands for a node is not iterable.

        >>> tree_structure({"a": (0, 0), "b": 0}).from_iterable_tree([[1, 2], 3])
        {'a': (1, 2), 'b': 3}
        """
        leaves: list[Any] = []
        _leaves_of_iterables(self, tree, leaves)
        return self.unflatten(leaves)

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Every leaf of this structure replaced by `inner`."""
        if self._type is _Leaf:
            return inner
        return PyTreeDef(self._type, self._data, tuple(c.compose(inner) for c in self._children))

    def is_leaf(self) -> bool:
        return self._type is _Leaf

    def walk(self, node_fn: Callable, leaf_fn: Callable | None, leaves: Iterable[Any]) -> Any:
        """Fold bottom-up: `node_fn(children results, node data)`, `leaf_fn(leaf)`."""
        return self._walk(node_fn, leaf_fn, iter(leaves))

    def _walk(self, node_fn: Callable, leaf_fn: Callable | None, leaves: Any) -> Any:
        if self._type is _Leaf:
            leaf = next(leaves)
            return leaf if leaf_fn is None else leaf_fn(leaf)
        results = tuple(c._walk(node_fn, leaf_fn, leaves) for c in self._children)
        return node_fn(results, self._data)

    def __repr__(self) -> str:
        return f"PyTreeDef({self._text()})"

    def _text(self) -> str:
        cls = self._type
        parts = [c._text() for c in self._children]
        if cls is _Leaf:
            return "*"
        if cls is _NoneNode:
            return "None"
        if cls is tuple:
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if cls is list:
            return f"[{', '.join(parts)}]"
        if cls is dict:
            return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(self._data, parts)) + "}"
        if issubclass(cls, tuple) and cls not in node_types:
            fields = ", ".join(f"{f}={p}" for f, p in zip(cls._fields, parts))
            return f"{cls.__name__}({fields})"
        return f"CustomNode({cls.__name__}[{self._data}], [{', '.join(parts)}])"


class _Unhashable:
    """Auxiliary data without a hash, as part of a key: its own `__eq__` decides."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    def __hash__(self) -> int:
        return hash(type(self.data))

    def __eq__(self, other: object) -> bool:
        if type(other) is not _Unhashable:
            return NotImplemented
        return type(self.data) is type(other.data) and bool(self.data == other.data)


def _rebuild(node_type: Any, data: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    return _node(node_type, data, children)


register_exact_key(PyTreeDef, lambda treedef: (PyTreeDef, treedef.exact_key()))
LEAF = PyTreeDef(_Leaf, None, ())
NONE = PyTreeDef(_NoneNode, None, ())
LEAF.is_shared = NONE.is_shared = True
_structures = Budget("tree structures", entries=8192)
# Structures of containers whose children are all leaves: most arguments. (type, keys, size) -> def
_flat_defs: BoundedCache[Any, PyTreeDef] = BoundedCache(_structures)
# Of others whose children are shared: ids of the children, which the structure keeps alive, and the
# type or the keys.
_nested_defs: BoundedCache[Any, PyTreeDef] = BoundedCache(_structures)
# Dicts by their keys in the order in which they have them: the structure if all values are leaves.
_dict_defs: BoundedCache[tuple[str | int, ...], PyTreeDef] = BoundedCache(_structures)
# Auxiliary data of dataclasses that are the same objects from tree to tree, as a rule, and keep
# nothing alive; functions beside them.
_SAME = frozenset({str, int, bool, NoneType})
# From so many trees of a structure on, a function is written for it (some 3 us for each node).
_OFTEN = 64


def _node(cls: Any, data: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    if cls is dict:
        plain = PLAIN_KEYS.issuperset(map(type, data))
    else:
        plain = cls is tuple or cls is list
    if not plain and cls is not dict:
        return PyTreeDef(cls, data, children)
    if all(c is LEAF for c in children):
        return _flat_node(cls, data, len(children))
    return _nested_node(cls, data, children) if plain else PyTreeDef(cls, data, children)


def _nested_node(cls: Any, data: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    """Structure of a tuple, list, named tuple or dict with plain keys; remembered, if its children
    are."""
    key = (*map(id, children), *data) if cls is dict else (*map(id, children), cls)
    return _node_under(key, cls, data, children)


def _registered_node(cls: Any, data: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    """Structure of a registered node; remembered under what its auxiliary data are, which it
    keeps."""
    parts = data if type(data) is tuple else (data,)
    for value in parts:
        if type(value) not in _SAME and not _is_of_a_module(value):
            return PyTreeDef(cls, data, children)
    key = (*map(id, children), cls, type(data), *map(id, parts))
    return _node_under(key, cls, data, children)


def _is_of_a_module(value: Any) -> bool:
    """Whether it is a function that keeps nothing alive but its module, or that this keeps."""
    kind = type(value)
    if kind is BuiltinFunctionType:  # `array.sum` is one, too
        return type(value.__self__) is ModuleType
    if kind is not FunctionType:
        return False
    module = sys.modules.get(value.__module__)
    if module is None:
        return False
    if vars(module).get(value.__name__) is value:
        return True
    holds = value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__
    return value.__globals__ is vars(module) and not holds


def _node_under(key: Any, cls: Any, data: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    found = _nested_defs.hot.get(key)
    if found is None:
        found = PyTreeDef(cls, data, children)
        if all(c.is_shared for c in children):
            found.is_shared = True
            _nested_defs.put(key, found)
    return found


def _flat_node(cls: Any, data: Any, size: int) -> PyTreeDef:
    """Structure of a tuple, list or dict of `size` leaves; remembered."""
    # Keys of dicts may be equal and yet not the same (1 and True); plain ones are what they equal.
    if data is None:
        key: Any = (cls, size)
    elif PLAIN_KEYS.issuperset(map(type, data)):
        key = (cls, *data)
    else:
        key = (cls, *map(exact_key, data))
    found = _flat_defs.hot.get(key)
    if found is None:
        found = PyTreeDef(cls, data, (LEAF,) * size)
        # Numbers of NumPy do not say whether they are equal to keys that stand for them.
        found.is_shared = data is None or all(map(is_, key[1:], data))
        _flat_defs.put(key, found)
    return found


def _items_of(treedef: PyTreeDef) -> Callable[[dict], Any]:
    """What gets the values of a dict in the order of the structure."""
    found = treedef._items
    if found is None:
        keys = treedef._data
        # Two thirds of the time of a comprehension.
        found = itemgetter(*keys) if len(keys) > 1 else lambda d: [d[k] for k in keys]
        treedef._items = found
    return found


def _dict_def(tree: dict, keys: tuple[Any, ...], plain: bool) -> PyTreeDef:
    """The structure of a dict whose values are leaves."""
    flat = _flat_node(dict, sorted_keys(tree), len(keys))
    if plain:
        _dict_defs.put(keys, flat)
    return flat


def flatten_into(tree: Any, leaves: list[Any]) -> PyTreeDef:
    """Append the leaves of a pytree to a list; returns its structure."""
    cls = type(tree)
    if cls in leaf_types:
        leaves.append(tree)
        return LEAF
    if cls is dict:
        keys = tuple(tree)
        plain = PLAIN_KEYS.issuperset(map(type, keys))  # others may be equal and yet not the same
        flat = _dict_defs.hot.get(keys) if plain else None
        if flat is None:
            flat = _dict_def(tree, keys, plain)
        items = (flat._items or _items_of(flat))(tree)
        if leaf_types.issuperset(map(type, items)):
            leaves.extend(items)
            return flat
        parts = tuple([flatten_into(c, leaves) for c in items])
        return _nested_node(dict, flat._data, parts) if plain else _node(dict, flat._data, parts)
    if cls is tuple or cls is list:
        if leaf_types.issuperset(map(type, tree)):
            leaves.extend(tree)
            return _flat_node(cls, None, len(tree))
        return _node(cls, None, tuple([flatten_into(c, leaves) for c in tree]))
    if tree is None:
        return NONE
    node = node_types.get(cls)
    if node is not None:
        children, data = parts_of(node, tree)
        parts = tuple([flatten_into(c, leaves) for c in children])
        return _registered_node(cls, data, parts)
    if isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return _nested_node(cls, cls, tuple([flatten_into(c, leaves) for c in tree]))
    if len(leaf_types) >= MOST_LEAF_TYPES:  # of a program that makes classes
        leaf_types.clear()
    leaf_types.add(cls)
    leaves.append(tree)
    return LEAF


def _flatten_is_leaf(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> PyTreeDef:
    if is_leaf(tree):
        leaves.append(tree)
        return LEAF
    one = flatten_one_level_or_none(tree)
    if one is None:
        leaves.append(tree)
        return LEAF
    cls, children, data = one
    if cls is _NoneNode:
        return NONE
    return _node(cls, data, tuple(_flatten_is_leaf(c, leaves, is_leaf) for c in children))


def flatten_one_level_or_none(tree: Any) -> tuple[Any, Iterable[Any], Any] | None:
    """(node type, children, auxiliary data), or None for a leaf."""
    cls = type(tree)
    if tree is None:
        return _NoneNode, (), None
    if cls is tuple or cls is list:
        return cls, tree, None
    if cls is dict:
        keys = sorted_keys(tree)
        return cls, [tree[k] for k in keys], keys
    node = node_types.get(cls)
    if node is not None:
        children, data = parts_of(node, tree)
        return cls, children, data
    if isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return cls, tree, cls
    return None


_MESSAGES: dict[Any, int] = {
    _Leaf: LEAF_KIND,
    list: LIST_KIND,
    _NoneNode: NONE_KIND,
    tuple: TUPLE_KIND,
    dict: DICT_KIND,
}


def _plain_node(treedef: PyTreeDef) -> Any:
    """What `builder_of` must know of a structure."""
    cls = treedef._type
    if cls is _Leaf:
        return None
    if cls is _NoneNode:
        return NoneType, (), ()
    registered = node_types.get(cls)
    if registered is None:
        return cls, treedef._data if cls is dict else (), treedef._children
    if registered.fields is None:
        return cls, None, treedef._children, registered.unflatten, treedef._data
    constants = zip(registered.fields[1], treedef._data)
    return cls, registered.fields[0], treedef._children, tuple(constants)


def _unflatten(treedef: PyTreeDef, leaves: Any, at: int) -> Any:
    """The tree whose leaves begin at a place of a list or tuple."""
    items = []
    for child in treedef._children:
        count = child.num_leaves
        if child is LEAF:
            items.append(leaves[at])
        elif child.num_nodes == count + 1:  # only leaves below it, or None
            here = leaves[at : at + count]
            if child._type is dict:
                items.append(dict(zip(child._data, here)))
            else:
                items.append(make_node(child, list(here)))
        else:
            items.append(_unflatten(child, leaves, at))
        at += count
    return make_node(treedef, items)


def make_node(treedef: PyTreeDef, items: list[Any]) -> Any:
    """The root node of `treedef` with these children."""
    cls = treedef._type
    if cls is tuple:
        return tuple(items)
    if cls is dict:
        return dict(zip(treedef._data, items))
    if cls is list:
        return items
    if cls is _NoneNode:
        return None
    node = node_types.get(cls)
    if node is None:  # a namedtuple
        return cls(*items)
    return node.unflatten(treedef._data, tuple(items))


def _leaves_of_iterables(structure: PyTreeDef, tree: Any, leaves: list[Any]) -> None:
    if structure.is_leaf():
        leaves.append(tree)
        return
    items, children = list(tree), structure.children()
    if len(items) != len(children):
        raise new_error(
            ValueError,
            f"Arity mismatch between trees: {structure} has {len(children)} children, and "
            f"{tree!r} {len(items)} items.",
        )
    for child, item in zip(children, items):
        _leaves_of_iterables(child, item, leaves)


def _flattened_up_to(prefix: PyTreeDef, tree: Any, out: list[Any]) -> bool:
    """Append the subtrees at the places of a structure's leaves; whether it is a prefix."""
    cls = type(tree)
    if cls is dict is prefix._type:
        if len(tree) != len(prefix._data):
            return False
        try:
            children = _items_of(prefix)(tree)
        except KeyError:
            return False
    elif cls is prefix._type and (cls is tuple or cls is list):
        children = tree
    else:
        one = flatten_one_level_or_none(tree)
        if one is None or one[0] is not prefix._type or one[2] != prefix._data:
            return False
        children = list(one[1])
    if len(children) != len(prefix._children):
        return False
    if prefix.num_nodes == prefix.num_leaves + 1:
        out.extend(children)
        return True
    for part, child in zip(prefix._children, children):
        if part is LEAF:
            out.append(child)
        elif not _flattened_up_to(part, child, out):
            return False
    return True


def _flatten_up_to(prefix: PyTreeDef, tree: Any, out: list[Any], path: str) -> None:
    if prefix._type is _Leaf:
        out.append(tree)
        return
    one = flatten_one_level_or_none(tree)
    if one is None:
        raise new_error(
            ValueError,
            f"Expected a {_type_name(prefix)} at the root{path and ' of the subtree ' + path}, "
            f"got a leaf: {tree!r:.80}. The structures differ: expected {prefix}.",
        )
    cls, children, data = one
    children = list(children)
    if cls is dict is prefix._type and data != prefix._data:
        raise new_error(
            ValueError,
            f"Dict key mismatch at {path or 'the root'}; expected keys: {list(prefix._data)}, "
            f"got keys: {list(data)}.",
            "All trees have the structure of the first one, or that structure as a prefix.",
            "Give both dicts the same keys.",
        )
    if cls is not prefix._type or len(children) != len(prefix._children):
        raise new_error(
            ValueError,
            f"Structures differ at {path or 'the root'}: expected {_type_name(prefix)} with "
            f"{len(prefix._children)} children, got {_name(cls)} with {len(children)}. Expected "
            f"{prefix}, got value {tree!r:.80}.",
            "All trees have the structure of the first one, or that structure as a prefix.",
            "Give both trees the same keys and types; pyjax.tree.structure shows them.",
        )
    if data != prefix._data:
        raise new_error(
            ValueError,
            f"Mismatch of custom node data at {path or 'the root'}: {prefix._data!r} != {data!r}; "
            f"value: {tree!r:.80}.",
        )
    for i, (child_def, child) in enumerate(zip(prefix._children, children)):
        if child_def is LEAF:
            out.append(child)
        else:
            label = prefix._data[i] if cls is dict else i
            _flatten_up_to(child_def, child, out, f"{path}[{label!r}]")


def _name(cls: Any) -> str:
    return "None" if cls is _NoneNode else cls.__name__


def _type_name(treedef: PyTreeDef) -> str:
    return _name(treedef._type)


# -- public functions -----------------------------------------------------------------------------


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], PyTreeDef]:
    """Leaves of a pytree, in order, and its structure.

    Args:
      tree: any nesting of tuples, lists, dicts (keys are sorted), named tuples, None (no leaves)
        and registered types; anything else is a leaf.
      is_leaf: called on every subtree first; True stops there.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        return leaves, _flatten_is_leaf(tree, leaves, is_leaf)
    find = known_trees.find
    if find is None:
        return leaves, flatten_into(tree, leaves)
    known = find(tree)
    if known is None:
        known = leaves, flatten_into(tree, leaves)
        if known[1].is_shared and known_trees.learn is not None:
            known_trees.learn(tree, known[1])
    return known


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The inverse of `tree_flatten`.

    >>> tree_unflatten(tree_structure({"a": 0, "b": (0, 0)}), [1, 2, 3])
    {'a': 1, 'b': (2, 3)}
    """
    return treedef.unflatten(leaves)
