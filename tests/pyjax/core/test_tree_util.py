"""Pytrees: flattening, structures, paths, registration, prefixes."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import pickle

import numpy as np
import pytest

from pyjax.core import tree_util as tu

Point = collections.namedtuple("Point", ["x", "y"])


@tu.register_pytree_node_class
class Box:
    def __init__(self, value, tag):
        self.value, self.tag = value, tag

    def tree_flatten(self):
        return (self.value,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(children[0], tag)


@tu.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = dataclasses.field(default="", metadata={"static": True})


TREES = [
    (1, [1], "PyTreeDef(*)"),
    (None, [], "PyTreeDef(None)"),
    ((), [], "PyTreeDef(())"),
    ((1,), [1], "PyTreeDef((*,))"),
    ([1, (2, None)], [1, 2], "PyTreeDef([*, (*, None)])"),
    ({"b": 1, "a": [2]}, [2, 1], "PyTreeDef({'a': [*], 'b': *})"),
    (Point(1, (2,)), [1, 2], "PyTreeDef(Point(x=*, y=(*,)))"),
    (collections.OrderedDict([("b", 1), ("a", 2)]), [1, 2], None),
    (collections.defaultdict(list, {"b": 1, "a": 2}), [2, 1], None),
    (collections.deque([1, 2], maxlen=3), [1, 2], None),
]


@pytest.mark.parametrize("tree, leaves, text", TREES, ids=range(len(TREES)))
def test_round_trip(tree, leaves, text):
    found, treedef = tu.tree_flatten(tree)
    assert found == leaves and treedef.num_leaves == len(leaves)
    assert treedef.unflatten(found) == tree
    assert type(treedef.unflatten(found)) is type(tree)
    assert treedef == tu.tree_structure(tree) and hash(treedef) == hash(tu.tree_structure(tree))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    if text is not None:
        assert str(treedef) == text


def test_structures_differ():
    trees = [1, None, (), [], (1,), [1], {"a": 1}, {"b": 1}, (1, 2), Point(1, 2), [1, None]]
    structures = [tu.tree_structure(t) for t in trees]
    assert len(set(structures)) == len(trees)


def test_custom_nodes():
    box = Box([1, 2], "t")
    leaves, treedef = tu.tree_flatten(box)
    assert leaves == [1, 2] and treedef.unflatten([3, 4]).tag == "t"
    assert treedef != tu.tree_structure(Box([1, 2], "other"))
    layer = tu.tree_map(lambda x: x * 2, Layer(1, 2, "n"))
    assert (layer.weight, layer.bias, layer.name) == (2, 4, "n")
    with pytest.raises(ValueError, match="Duplicate"):
        tu.register_pytree_node_class(Box)


def test_paths():
    tree = {"a": [1, Point(2, 3)], "l": Layer(4, Box(5, ""))}
    paths = [tu.keystr(p) for p, _ in tu.tree_flatten_with_path(tree)[0]]
    assert paths == [
        "['a'][0]",
        "['a'][1].x",
        "['a'][1].y",
        "['l'].weight",
        "['l'].bias[<flat index 0>]",
    ]
    assert tu.keystr((tu.DictKey("a"), tu.SequenceKey(0)), simple=True, separator="/") == "a/0"
    doubled = tu.tree_map_with_path(lambda p, x: (len(p), x), [1, [2]])
    assert doubled == [(1, 1), [(2, 2)]]


def test_map_with_prefix_and_errors():
    assert tu.tree_map(lambda x, y: (x, y), [1, 2], [(3, 4), 5]) == [(1, (3, 4)), (2, 5)]
    assert tu.tree_map(lambda x: x, {"a": None}) == {"a": None}
    assert tu.tree_leaves([1, None, 2], is_leaf=lambda x: x is None) == [1, None, 2]
    with pytest.raises(ValueError, match="Dict key mismatch"):
        tu.tree_map(lambda x, y: 0, {"a": 1}, {"b": 1})
    with pytest.raises(ValueError, match=r"Dict key mismatch at \['a'\]; expected keys: \['b'\]"):
        tu.tree_map(lambda x, y: 0, {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}})
    with pytest.raises(ValueError, match="expected tuple with 2 children, got tuple with 3"):
        tu.tree_map(lambda x, y: 0, (1, 2), (1, 2, 3))
    with pytest.raises(ValueError, match="Too few leaves"):
        tu.tree_unflatten(tu.tree_structure((1, 2)), [1])
    with pytest.raises(ValueError, match="sorting pytree dictionary keys"):
        tu.tree_flatten({"a": 1, 2: 3})


def test_reduce_transpose_broadcast():
    assert tu.tree_reduce(lambda a, b: a + b, {"x": 1, "y": [2, 3]}) == 6
    assert tu.tree_reduce_associative(lambda a, b: a + b, list("abcde")) == "abcde"
    assert tu.tree_all([1, [2, 0]]) is False
    outer, inner = tu.tree_structure([0, 0]), tu.tree_structure({"a": 0, "b": 0})
    transposed = tu.tree_transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert transposed == {"a": [1, 3], "b": [2, 4]}
    assert tu.tree_broadcast((0, 1), ([5, 6], 7)) == ([0, 0], 1)


def test_partial():
    def f(a, b, c=0):
        return a + b + c

    partial = tu.Partial(f, 1, c=3)
    leaves, treedef = tu.tree_flatten(partial)
    assert leaves == [1, 3] and treedef.unflatten([10, 30])(2) == 42
    wrapped = tu.Partial(functools.partial(f, 1), 2)
    assert tu.tree_leaves(wrapped) == [2] and wrapped() == 3


def test_first_difference():
    assert tu.first_difference({"a": [1]}, {"a": [2]}) is None
    assert "['a']" in tu.first_difference({"a": [1]}, {"a": (1,)})


NESTED = {"a": [0, 0], "b": (0, None)}


@pytest.mark.parametrize(
    ("structure", "nested", "tree"),
    [
        (NESTED, [[1, 2], [3, []]], {"a": [1, 2], "b": (3, None)}),
        (NESTED, iter([iter([1, 2]), (3, ())]), {"a": [1, 2], "b": (3, None)}),
        (0, [1, 2], [1, 2]),
        ((), [], ()),
    ],
)
def test_trees_from_iterables(structure, nested, tree):
    assert tu.tree_structure(structure).from_iterable_tree(nested) == tree


@pytest.mark.parametrize(
    ("nested", "error", "text"),
    [
        ([[1, 2], [3]], ValueError, "Arity mismatch.* has 2 children, and .* 1 items"),
        ([1, 2, 3], ValueError, "Arity mismatch"),
        ([[1, 2], [3, None]], TypeError, "not iterable"),
    ],
)
def test_iterables_of_another_structure(nested, error, text):
    with pytest.raises(error, match=text):
        tu.tree_structure(NESTED).from_iterable_tree(nested)


class _Color(enum.StrEnum):
    RED = "r"
    BLUE = "b"


def test_structures_of_equal_trees_are_one_object():
    def tree():
        return {"b": [1, (2, None)], "a": Point({"x": 3}, {})}

    assert tu.tree_structure(tree()) is tu.tree_structure(tree())
    turned = dict(reversed(tree().items()))
    assert tu.tree_structure(turned) is tu.tree_structure(tree())
    assert tu.tree_map(lambda x: x + 1, tree()) == {"b": [2, (3, None)], "a": Point({"x": 4}, {})}


def test_keys_that_equal_strings_stay_what_they_are():
    plain, colors = {"r": {"r": 1}, "b": 2}, {_Color.RED: {_Color.RED: 1}, _Color.BLUE: 2}
    assert plain == colors
    for _ in range(2):
        for tree, kind in ((plain, str), (colors, _Color)):
            mapped = tu.tree_map(lambda x: x, tree)
            assert [type(key) for key in mapped] == [kind, kind]
            assert [type(key) for key in mapped["r"]] == [kind]
            (path, _), *_ = tu.tree_flatten_with_path({"a": tree})[0]
            assert [type(entry.key) for entry in path[1:]] == [kind] * (len(path) - 1)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, np.str_])
def test_scalars_of_numpy_are_keys(kind):
    tree = {kind(3): 1, kind(1): {kind(2): 2}}
    for _ in range(2):
        leaves, structure = tu.tree_flatten(tree)
        assert leaves == [2, 1]
        again = tu.tree_unflatten(structure, leaves)
        assert again == tree and [type(key) for key in again] == [kind, kind]
        assert tu.tree_map(lambda x: x + 1, {kind(3): 1}) == {kind(3): 2}


def test_a_subtree_of_another_key_type_is_no_part_of_a_remembered_structure():
    assert tu.tree_map(lambda x: x, [{1: 0, 2: 0}]) == [{1: 0, 2: 0}]
    (mapped,) = tu.tree_map(lambda x: x, [{True: 0, 2: 0}])
    assert list(map(type, mapped)) == [bool, int]


def test_paths_are_those_of_a_walk():
    tree = {"b": [1, (2, None)], "a": Point({"x": 3}, {}), "c": 4}
    pairs, treedef = tu.tree_flatten_with_path(tree)
    # With a predicate they are found by a walk.
    assert (pairs, treedef) == tu.tree_flatten_with_path(tree, is_leaf=lambda x: False)
    assert [tu.keystr(path) for path, _ in pairs] == [
        "['a'].x['x']",
        "['b'][0]",
        "['b'][1][0]",
        "['c']",
    ]


def test_trees_that_differ_deep_inside_are_named():
    first = {"a": [1, {"x": 2, "y": 3}]}
    for other in ({"a": [1, {"x": 2, "z": 3}]}, {"a": [1, {"x": 2}]}):
        with pytest.raises(ValueError, match=r"Dict key mismatch at \['a'\]\[1\]"):
            tu.tree_map(lambda x, y: x, first, other)
    with pytest.raises(ValueError, match=r"Structures differ at \['a'\]"):
        tu.tree_map(lambda x, y: x, first, {"a": (1, {"x": 2, "y": 3})})


@pytest.mark.parametrize(
    "given", [1, None, (1,), ((1,), None, 2), (1, None), (None, "aux"), "ab"], ids=repr
)
def test_functions_that_flatten_to_something_else(given):
    class Wrong:
        pass

    tu.register_pytree_node(Wrong, lambda _: given, lambda aux, children: Wrong())
    for flatten in (
        tu.tree_leaves,
        tu.tree_flatten_with_path,
        lambda t: tu.tree_leaves(t, callable),
    ):
        with pytest.raises(ValueError, match=r"flattens Wrong must return a pair \(children, aux"):
            flatten([Wrong()])


def test_children_of_any_iterable():
    class Parts:
        def __init__(self, children):
            self.children = children

    tu.register_pytree_node(Parts, lambda p: [iter(p.children), None], lambda _, c: Parts(c))
    assert tu.tree_leaves([Parts([1, 2]), Parts(())]) == [1, 2]
