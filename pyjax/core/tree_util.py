"""Functions over pytrees: map, reduce, transpose, key paths, registration of user types.

Public as `pyjax.tree_util` and `pyjax.tree`. Layer: core.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, TypeVar

from pyjax.core.errors import new_error
from pyjax.core.pytree import (
    LEAF,
    flatten_one_level_or_none,
)
from pyjax.core.pytree import PyTreeDef as PyTreeDef
from pyjax.core.pytree import tree_flatten as tree_flatten
from pyjax.core.pytree import tree_unflatten as tree_unflatten
from pyjax.core.tree_nodes import is_node_type, node_type_of, parts_of, register_node
from xla_backend.process.light_dataclasses import dataclass

T = TypeVar("T", bound=type)
KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]
IsLeaf = Callable[[Any], bool]


# -- keys -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SequenceKey:
    """Position in a list or tuple.

    >>> str(SequenceKey(0))
    '[0]'
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class DictKey:
    """Key of a dictionary.

    >>> str(DictKey("a"))
    "['a']"
    """

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """Attribute of an object.

    >>> str(GetAttrKey("weight"))
    '.weight'
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """Position among the children of a type registered without keys.

    >>> str(FlattenedIndexKey(0))
    '[<flat index 0>]'
    """

    key: int

    def __hash__(self) -> int:
        return hash((FlattenedIndexKey, self.key))

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def _simple_key(key: KeyEntry) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Text of a key path.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    """
    return separator.join(_simple_key(k) if simple else str(k) for k in keys)


# -- flattening -----------------------------------------------------------------------------------


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Leaves of a pytree.

    >>> tree_leaves({"b": 1, "a": (2, None)})
    [2, 1]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """Structure of a pytree.

    >>> tree_structure({"a": 1, "b": (2, None)})
    PyTreeDef({'a': *, 'b': (*, None)})
    """
    return tree_flatten(tree, is_leaf)[1]


def _keyed_children(tree: Any) -> list[tuple[KeyEntry, Any]]:
    cls = type(tree)
    if cls is tuple or cls is list:
        return [(SequenceKey(i), c) for i, c in enumerate(tree)]
    if cls is OrderedDict:
        return [(DictKey(k), v) for k, v in tree.items()]
    if cls is dict or cls is defaultdict:
        one = flatten_one_level_or_none(tree)
        assert one is not None
        keys = one[2] if cls is dict else one[2][1]
        return [(DictKey(k), tree[k]) for k in keys]
    node = node_type_of(cls)
    if node is not None:
        if node.flatten_with_keys is not None:
            return [(k, c) for k, c in node.flatten_with_keys(tree)[0]]
        children = parts_of(node, tree)[0]
        key_type = SequenceKey if cls.__name__ == "deque" else FlattenedIndexKey
        return [(key_type(i), c) for i, c in enumerate(children)]
    return [(GetAttrKey(f), getattr(tree, f)) for f in cls._fields]


def _flatten_paths(
    tree: Any,
    path: KeyPath,
    out: list[tuple[KeyPath, Any]],
    is_leaf: IsLeaf | None,
    takes_path: bool,
) -> None:
    if is_leaf is not None and (is_leaf(path, tree) if takes_path else is_leaf(tree)):  # type: ignore
        out.append((path, tree))
        return
    if tree is None:
        return
    if flatten_one_level_or_none(tree) is None:
        out.append((path, tree))
        return
    for key, child in _keyed_children(tree):
        _flatten_paths(child, (*path, key), out, is_leaf, takes_path)


def _paths_of(treedef: PyTreeDef) -> list[KeyPath] | None:
    """The paths of the leaves of a structure that has keys of our own only, else None; remembered
    there."""
    found: list[KeyPath] | Literal[False] | None = treedef.paths
    if found is None:
        node = treedef.node_data()
        if node is None:
            found = [()]
        else:
            kind, data = node
            children = treedef.children()
            keys: list[KeyEntry]
            if kind is dict:
                keys = [DictKey(key) for key in data]
            elif kind is tuple or kind is list:
                keys = [SequenceKey(i) for i in range(len(children))]
            elif (node_type := node_type_of(kind)) is not None:
                keys = [GetAttrKey(name) for name in (node_type.fields or ((),))[0]]
            else:
                keys = [GetAttrKey(name) for name in getattr(kind, "_fields", ())]
            inner = [_paths_of(child) for child in children]
            found = [(k, *path) for k, paths in zip(keys, inner) for path in paths or ()]
            if len(keys) != len(children) or None in inner:
                found = False
        treedef.paths = found
    return None if found is False else found


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """(key path, leaf) pairs and the structure.

    >>> [keystr(path) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    ["['a'][0]", "['a'][1]"]
    """
    if is_leaf is None:
        leaves, treedef = tree_flatten(tree)
        paths = _paths_of(treedef) if treedef.is_shared else None
        if paths is not None:
            return list(zip(paths, leaves)), treedef
    out: list[tuple[KeyPath, Any]] = []
    _flatten_paths(tree, (), out, is_leaf, is_leaf_takes_path)
    if is_leaf is not None and is_leaf_takes_path:
        found = {id(leaf) for _, leaf in out}
        return out, tree_structure(tree, lambda x: id(x) in found)
    return out, tree_structure(tree, is_leaf)


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """(key path, leaf) pairs.

    >>> [keystr(path) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    ["['a'][0]", "['a'][1]"]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


# -- mapping and folding --------------------------------------------------------------------------


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """`f` applied to corresponding leaves; structure of the first tree.

    Trees in `rest` must have `tree`'s structure as a prefix.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"a": 10, "b": [20, 30]})
    {'a': 11, 'b': [22, 33]}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [treedef.flatten_up_to(r) for r in rest]
    return treedef.unflatten(list(map(f, leaves, *columns)))


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """`tree_map` whose function gets the key path first.

    >>> tree_map_with_path(lambda path, x: keystr(path), {"a": 1, "b": [2]})
    {'a': "['a']", 'b': ["['b'][0]"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(r) for r in rest]
    return treedef.unflatten([f(path, leaf, *xs) for (path, leaf), *xs in zip(pairs, *columns)])


_NO_INITIALIZER = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _NO_INITIALIZER,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Fold the leaves from the left.

    >>> tree_reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]}, 0)
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _NO_INITIALIZER:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _NO_INITIALIZER,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Fold the leaves pairwise as a balanced tree; `operation` must be associative.

    >>> tree_reduce_associative(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
    6
    """
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is _NO_INITIALIZER:
            raise new_error(
                TypeError, "Must specify identity for parallel reduction of empty sequence."
            )
        return identity
    while len(values) > 1:
        pairs = [operation(a, b) for a, b in zip(values[::2], values[1::2])]
        values = pairs + ([values[-1]] if len(values) % 2 else [])
    return values[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether every leaf is true.

    >>> tree_all({"a": True, "b": [True, False]})
    False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out: structure outer∘inner becomes inner∘outer.

    >>> tree_transpose(tree_structure([0, 0]), tree_structure({"a": 0}), [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    inner_size, outer_size = inner_treedef.num_leaves, outer_treedef.num_leaves
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if treedef.num_leaves != inner_size * outer_size:
        expected = outer_treedef.compose(inner_treedef)
        raise new_error(TypeError, f"Mismatch\n{treedef}\n != \n{expected}")
    expected = outer_treedef.compose(inner_treedef)
    if treedef != expected:
        raise new_error(TypeError, f"Mismatch\n{treedef}\n != \n{expected}")
    columns = [leaves[i::inner_size] for i in range(inner_size)]
    return inner_treedef.unflatten([outer_treedef.unflatten(c) for c in columns])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """`prefix_tree` with each leaf repeated over the subtree of `full_tree` at its place.

    >>> tree_broadcast(0, {"a": 1, "b": 2})
    {'a': 0, 'b': 0}
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Leaves of `prefix_tree`, each repeated once per leaf of the full tree below it."""
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    if treedef is LEAF:
        return leaves * tree_structure(full_tree).num_leaves
    result: list[Any] = []
    for leaf, subtree in zip(leaves, treedef.flatten_up_to(full_tree)):
        result.extend([leaf] * tree_structure(subtree).num_leaves)
    return result


# -- structures -----------------------------------------------------------------------------------


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, None or an empty container.

    >>> treedef_is_leaf(tree_structure(0)), treedef_is_leaf(tree_structure([0]))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Structure of a tuple of trees.

    >>> treedef_tuple([tree_structure(0), tree_structure([0])])
    PyTreeDef((*, [*]))
    """
    return tree_structure(
        tuple(treedef.unflatten([0] * treedef.num_leaves) for treedef in treedefs)
    )


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Structures of the root's children.

    >>> treedef_children(tree_structure([0, (0, 0)]))
    [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every element is a leaf.

    >>> all_leaves([1, 2]), all_leaves([1, [2]])
    (True, False)
    """
    if is_leaf is None:
        return all(flatten_one_level_or_none(x) is None for x in iterable)
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(items) == len(leaves) and all(a is b for a, b in zip(items, leaves))


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """Children and auxiliary data of the root.

    >>> flatten_one_level([1, (2, 3)])
    ([1, (2, 3)], None)
    >>> flatten_one_level({"b": 1, "a": 2})
    ((2, 1), ('a', 'b'))
    """
    one = flatten_one_level_or_none(tree)
    if one is None:
        raise new_error(ValueError, f"can't tree-flatten type: {type(tree)}")
    kind, children, data = one
    return (tuple(children), tuple(data)) if kind is dict else (children, data)


def flatten_one_level_with_keys(tree: Any) -> tuple[tuple[tuple[KeyEntry, Any], ...], Hashable]:
    """(key, child) pairs and auxiliary data of the root.

    >>> flatten_one_level_with_keys({"b": [2, 3], "a": 1})
    (((DictKey(key='a'), 1), (DictKey(key='b'), [2, 3])), ('a', 'b'))
    """
    data = flatten_one_level(tree)[1]
    return (() if tree is None else tuple(_keyed_children(tree))), data


def is_tree_node(typ: type) -> bool:
    """Whether instances of a type are nodes: containers, None's type, named tuples, and types that
    are registered.

    Raises:
      TypeError: `typ` is None, and no type.

    >>> is_tree_node(list), is_tree_node(int), is_tree_node(type(None))
    (True, False, True)
    """
    if typ is None:
        raise TypeError("is_tree_node takes a type, got None; write type(None).")
    return isinstance(typ, type) and is_node_type(typ)


# -- registration ---------------------------------------------------------------------------------


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make instances of a type nodes.

    Args:
      nodetype: the class.
      flatten_func: x -> (children, auxiliary hashable data).
      unflatten_func: (auxiliary data, children) -> x.
      flatten_with_keys_func: x -> ((key, child) pairs, auxiliary data).

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, ab: Pair(*ab))
    >>> tree_leaves(Pair(1, 2))
    [1, 2]
    >>> tree_map(lambda x: 10 * x, Pair(1, 2)).b
    20
    """
    register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: T) -> T:
    """Class decorator for a class with methods `tree_flatten` and `tree_unflatten`.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def tree_flatten(self):
    ...         return (self.a, self.b), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux_data, children):
    ...         return cls(*children)
    >>> tree_leaves(Pair(1, 2))
    [1, 2]
    """
    register_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """`register_pytree_node` for a type whose children have keys.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> def with_keys(p):
    ...     return ((GetAttrKey("a"), p.a), (GetAttrKey("b"), p.b)), None
    >>> register_pytree_with_keys(Pair, with_keys, lambda _, ab: Pair(*ab))
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path(Pair(1, 2))[0]]
    [('.a', 1), ('.b', 2)]
    """

    def without_keys(x: Any) -> tuple[Iterable[Any], Any]:
        pairs, data = flatten_with_keys(x)
        return [child for _, child in pairs], data

    register_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: T) -> T:
    """Class decorator for a class with `tree_flatten_with_keys` and `tree_unflatten`.

    >>> @register_pytree_with_keys_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def tree_flatten_with_keys(self):
    ...         return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux_data, children):
    ...         return cls(*children)
    >>> [keystr(path) for path, _ in tree_flatten_with_path(Pair(1, 2))[0]]
    ['.a', '.b']
    """
    register_pytree_with_keys(
        cls,
        lambda x: x.tree_flatten_with_keys(),
        cls.tree_unflatten,  # type: ignore[attr-defined]
        (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None,
    )
    return cls


def _attributes(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the attributes of an object."""
    if len(names) > 1 and all(name.isidentifier() for name in names):
        return operator.attrgetter(*names)
    return lambda x: tuple([getattr(x, name) for name in names])


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a dataclass a node: `data_fields` are children, `meta_fields` are part of the structure.

    Without the lists, fields marked `field(metadata=dict(static=True))` are meta and the rest data.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str
    >>> register_dataclass(Layer, data_fields=["weight"], meta_fields=["name"]) is Layer
    True
    >>> tree_leaves(Layer(2.0, "first"))
    [2.0]
    """
    if data_fields is None or meta_fields is None:
        if (data_fields is None) != (meta_fields is None):
            raise new_error(
                TypeError,
                "register_dataclass: data_fields and meta_fields must both be specified "
                "when either is specified.",
            )
        if not dataclasses.is_dataclass(nodetype):
            raise new_error(
                TypeError,
                "register_dataclass: data_fields and meta_fields are required when nodetype is not "
                f"a dataclass. Got {nodetype=}.",
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(nodetype):
        init_fields = {f.name for f in dataclasses.fields(nodetype) if f.init}
        init_fields -= set(drop_fields)
        if init_fields != {*data, *meta}:
            missing = init_fields - {*data, *meta}
            unexpected = {*data, *meta} - init_fields
            raise new_error(
                ValueError,
                "data_fields and meta_fields must include all dataclass fields with ``init=True`` "
                f"and only them. Missing: {sorted(missing)}. Unexpected: {sorted(unexpected)}.",
            )

    values_of, constants_of = _attributes(data), _attributes(meta)

    def flatten(x: Any) -> tuple[Iterable[Any], Any]:
        return values_of(x), constants_of(x)

    def flatten_with_keys(x: Any) -> tuple[Iterable[Any], Any]:
        return (
            [(GetAttrKey(f), getattr(x, f)) for f in data],
            tuple(getattr(x, f) for f in meta),
        )

    def unflatten(values: Any, children: Any) -> Any:
        return nodetype(**dict(zip(meta, values)), **dict(zip(data, children)))

    register_node(nodetype, flatten, unflatten, flatten_with_keys, (data, meta))
    return nodetype


def register_static(cls: T) -> T:
    """Class decorator: instances are nodes without leaves, part of the structure (hash and eq).

    >>> @register_static
    ... class Name(str):
    ...     pass
    >>> tree_leaves([Name("a"), 1])
    [1]
    """
    register_node(cls, lambda x: ((), x), lambda x, _: x, lambda x: ((), x))
    return cls


@register_static
@dataclass(frozen=True)
class Static:
    """A hashable value as a pytree without leaves: `jax.tree.static(value)`.

    >>> tree = {"weights": jnp.ones(3), "name": pyjax.tree.static("dense")}
    >>> len(pyjax.tree.leaves(tree)), tree["name"].value
    (1, 'dense')
    """

    value: Any


class Partial(functools.partial):
    """`functools.partial` that is a pytree: the function is structure, bound arguments are
    children.

    >>> Partial(jnp.add, 1)(2)
    Array(3, dtype=int32, weak_type=True)
    """

    def __new__(cls, func: Callable, *args: Any, **kw: Any) -> Partial:
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            # Keep the inner partial opaque: its arguments are not children.
            original = func

            def opaque(*a: Any, **k: Any) -> Any:
                return original(*a, **k)

            opaque.__name__ = getattr(original, "__name__", "partial")
            return super().__new__(cls, _OpaquePartial(original), *args, **kw)
        return super().__new__(cls, func, *args, **kw)


class _OpaquePartial:
    """Hides a functools.partial from functools.partial's flattening; equal when the parts are."""

    def __init__(self, inner: functools.partial) -> None:
        self.inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)

    def _parts(self) -> Any:
        return self.inner.func, self.inner.args, tuple(sorted(self.inner.keywords.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OpaquePartial) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, parts: Partial(func, *parts[0], **parts[1]),
)


# -- disagreements --------------------------------------------------------------------------------


def first_difference(expected: Any, got: Any, path: str = "") -> str | None:
    """One sentence on where two trees' structures first differ; None if they agree."""
    a, b = flatten_one_level_or_none(expected), flatten_one_level_or_none(got)
    here = path or "the root"
    if a is None and b is None:
        return None
    if a is None or b is None:
        name = type(got if a is None else expected).__name__
        return f"at {here}, one is a leaf and the other a {name}"
    if a[0] is not b[0]:
        return f"at {here}, types differ: {type(expected).__name__} and {type(got).__name__}"
    left = [] if expected is None else _keyed_children(expected)
    right = [] if got is None else _keyed_children(got)
    if [k for k, _ in left] != [k for k, _ in right]:
        names = [keystr((k,)) for k, _ in left], [keystr((k,)) for k, _ in right]
        return f"at {here}, children differ: {names[0]} and {names[1]}"
    for (key, x), (_, y) in zip(left, right):
        difference = first_difference(x, y, path + str(key))
        if difference is not None:
            return difference
    return None if a[2] == b[2] else f"at {here}, node data differ: {a[2]!r} and {b[2]!r}"


class PyTreeRegistry:
    """Which types are nodes, as an object: there is one registry."""

    def flatten(self, tree: Any, leaf_predicate: IsLeaf | None = None) -> tuple[list[Any], Any]:
        """Leaves and structure."""
        return tree_flatten(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Iterable[Any], Hashable] | None:
        """Children and auxiliary data of the root; None of a leaf."""
        return None if flatten_one_level_or_none(tree) is None else flatten_one_level(tree)

    def is_node(self, type: type) -> bool:
        """Whether instances of a type are nodes."""
        return is_tree_node(type)

    def register_node(
        self,
        type: type,
        to_iterable: Callable[[Any], tuple[Iterable[Any], Any]],
        from_iterable: Callable[[Any, Any], Any],
    ) -> None:
        """Make instances of a type nodes."""
        register_pytree_node(type, to_iterable, from_iterable)


default_registry = PyTreeRegistry()
