"""Functions that are written for structures: the trees are those of a walk."""

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from pyjax.core.pytree import tree_flatten
from pyjax.core.tree_util import register_dataclass, tree_structure

Point = namedtuple("Point", "x y")


@register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    activation: str = dataclasses.field(metadata={"static": True})


TREES = {
    "nested": {"b": [1, {"q": 2, "a'\"\\": (3,)}], "a": (4, None, [], {}, ((), (5,)))},
    "flat": {"b": 1, "a": 2},
    "list": [1, [2, [3]]],
    "empty": {},
    "none": None,
    "named tuple": {"p": Point(1, [2])},
    "dataclass": [Layer(1, [2], "relu"), Layer({"a": 3}, None, "tanh")],
    "registered": {"o": OrderedDict(b=1, a=[2])},
    "numbers as keys": {"a": {1: 2, 0: 3}},
}


@pytest.mark.parametrize("name", TREES)
def test_trees_that_are_put_together_often(name):
    leaves, structure = tree_flatten(TREES[name])
    first = structure.unflatten(leaves)
    for number in range(200):
        own = [f"{number} {leaf}" for leaf in leaves]
        tree = structure.unflatten(iter(own))
        found, same = tree_flatten(tree)
        assert found == own and same == structure
        assert repr(structure.unflatten(leaves)) == repr(first)
        assert tree is None or isinstance(tree, tuple) or tree is not structure.unflatten(own)
    with pytest.raises(ValueError, match="Too many leaves"):
        structure.unflatten([*leaves, 0])


def test_a_function_is_written_for_plain_structures_only():
    plain = tree_structure({"plain": [0, (1, None)]})
    other = tree_structure({"other": {1.5: 0, 2.5: [1]}})
    named = tree_structure({"named": Point(0, [1])})
    for _ in range(200):
        plain.unflatten([1, 2])
        other.unflatten([1, 2])
        named.unflatten([1, 2])
    assert plain._build is not None and named._build is not None and other._build is None
    deep = 0
    for _ in range(300):
        deep = [deep]
    structure = tree_structure(deep)
    for _ in range(200):
        assert structure.unflatten([0]) == deep
