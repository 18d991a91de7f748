"""Trees that native code takes apart: as Python does, whatever happens on the way."""

from __future__ import annotations

import dataclasses
import gc
import sys
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.core.known_trees import known_trees
from pyjax.core.pytree import flatten_into
from pyjax.native.c_api import is_usable

pytestmark = pytest.mark.skipif(not is_usable(), reason="calls are Python on this build")

Pair = namedtuple("Pair", "left right")
_double = lambda x: 2 * x


@pyjax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: Any = dataclasses.field(default="linear", metadata={"static": True})


class Box:
    """Registered by functions; `extra` is its auxiliary data."""

    def __init__(self, *inside: Any, extra: Any = None) -> None:
        self.inside, self.extra = inside, extra

    def __repr__(self) -> str:
        return f"Box{self.inside}{self.extra}"


pyjax.tree_util.register_pytree_node(
    Box, lambda b: (b.inside, b.extra), lambda extra, inside: Box(*inside, extra=extra)
)


class Leaf:
    pass


class Watched:
    """Registered by its attributes, of which one is what a function gives."""

    def __init__(self, look: Any) -> None:
        self.first = Leaf()
        self.look = look

    @property
    def second(self) -> Any:
        return self.look()


pyjax.tree_util.register_dataclass(Watched, ("first", "second"), ())
KNOWN = {
    "leaf types": [1, 2.5, "text", Leaf(), Leaf],
    "nested": {"b": [1, {"q": 2, "p": (3,)}], "a": (4, None, [], {}, ((), (5,)))},
    "named tuples": (Pair(1, Pair([2], None)), Pair((), 3)),
    "dataclasses": [Layer(1, Layer(2, None)), Layer({"x": 3}, 4, "other")],
    "functions as auxiliary data": [Layer(1, 2, len), Layer(3, 4, namedtuple)],
    "functions of pyjax and lambdas": [Layer(1, 2, jnp.tanh), Layer(3, 4, _double)],
    "registered by functions": [Box(1, Box(2, None)), {"a": Box(extra="name")}],
    "one": 1,
    "none": None,
    "nothing": {},
    "empty keys": {"": 1, "é": 2},
    "integers as keys": {1: {10**20: 2, 0: 3, -(10**9): [4]}, -5: 5},
}
OF_PYTHON = {
    "real numbers as keys": {"a": {1.5: 2, 0.5: 3}},
    "truth values as keys": {"a": {True: 2, False: 3}},
    "ordered": {"o": OrderedDict(b=1, a=[2])},
    "large": list(range(600)),
    "tuples as auxiliary data": Box(1, extra=("a", 2)),
    "objects as auxiliary data": Box(1, extra=object()),
    "closures as auxiliary data": Layer(1, 2, (lambda x: lambda: x)(0)),
    "auxiliary data that differ from tree to tree": Layer(1, 2, (0.5,)),
}


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    before = pyjax.config.jax_native_dispatch
    pyjax.config.update("jax_native_dispatch", True)
    f = pyjax.jit(lambda x: x + 1)
    for _ in range(3):  # native code is loaded by the second call
        f(jnp.arange(3.0))
    assert known_trees.find is not None and known_trees.learn is not None
    known_trees.learn.__self__.clear()  # type: ignore[attr-defined]  # other tests have many trees
    yield
    pyjax.config.update("jax_native_dispatch", before)


def by_python(tree: Any) -> tuple[list[Any], Any]:
    leaves: list[Any] = []
    structure = flatten_into(tree, leaves)
    return leaves, structure


def taught(tree: Any) -> bool:
    """Whether native code knows a tree after some time."""
    for _ in range(20):
        pyjax.tree.flatten(tree)
    assert known_trees.find is not None
    return known_trees.find(tree) is not None


def test_many_kinds_of_trees_are_learnt_more_and_more_slowly() -> None:
    assert known_trees.find is not None and known_trees.learn is not None
    table: Any = known_trees.learn.__self__  # type: ignore[attr-defined]
    for number in range(8 * 512 + 16 * 10):
        pyjax.tree.flatten({f"key {number}": 0})
    assert table._written == 512 + 10
    late = {"late": [1, 2]}
    for _ in range(32):
        pyjax.tree.flatten(late)
    assert known_trees.find(late) is not None


def same(a: tuple[list[Any], Any], b: tuple[list[Any], Any]) -> bool:
    return [*map(id, a[0])] == [*map(id, b[0])] and a[1] == b[1]


@pytest.mark.parametrize("name", [*KNOWN, *OF_PYTHON])
def test_as_python_does(name: str) -> None:
    tree = {**KNOWN, **OF_PYTHON}[name]
    expected = by_python(tree)
    assert taught(tree) == (name in KNOWN)
    found = pyjax.tree.flatten(tree)
    assert type(found) is tuple and type(found[0]) is list and same(found, expected)
    if name in KNOWN:
        assert found[1] is expected[1]
    mapped = pyjax.tree.map(lambda x, y: y, tree, tree)
    assert str(mapped) == str(pyjax.tree.unflatten(*found[::-1]))
    paths = pyjax.tree.flatten_with_path(tree)[0]
    assert [leaf for _, leaf in paths] == expected[0]


def test_trees_that_are_nearly_known() -> None:
    tree = {"a": [1, (2, None)], "b": Layer(3, 4), "c": Pair(5, 6)}
    assert taught(tree) and taught([Box(1, 2)])
    others: list[Any] = [
        {"a": [1, (2, None)], "c": Pair(5, 6), "b": Layer(3, 4)},  # the same in another order
        {"a": [1, (2, 0)], "b": Layer(3, 4), "c": Pair(5, 6)},
        {"a": [1, (2, None), 3], "b": Layer(3, 4), "c": Pair(5, 6)},
        {"a": (1, (2, None)), "b": Layer(3, 4), "c": Pair(5, 6)},
        {"a": [1, [2, None]], "b": Layer(3, 4), "c": Pair(5, 6)},
        {"a": [1, (2, None)], "b": Layer(3, 4, "other"), "c": Pair(5, 6)},
        {"a": [1, (2, None)], "b": Layer(None, 4), "c": Pair(5, 6)},
        {"a": [1, (2, None)], "b": Layer(3, 4), "c": (5, 6)},
        {"a": [1, (2, None)], "b": Layer(3, 4), "d": Pair(5, 6)},
        OrderedDict(tree),
        [Box(1, 2)],
        [Box(1, None)],
        [Box(1)],
        [Box(1, 2, extra="other")],
        [Box(1, [2])],
    ]
    for other in others:
        assert same(pyjax.tree.flatten(other), by_python(other)), other


def test_keys_that_are_equal_and_not_the_same() -> None:
    class Number(int):
        pass

    large = 10**6
    assert taught({1: 2, large: {0: 3}})
    others: list[Any] = [
        {1: 2, int("1000000"): {0: 3}},  # an equal number, another object
        {True: 2, large: {0: 3}},
        {1.0: 2, large: {0: 3}},
        {1: 2, float(large): {0: 3}},
        {1: 2, large: {False: 3}},
        {Number(1): 2, large: {0: 3}},
        {large: {0: 3}, 1: 2},
        {1: 2, large + 1: {0: 3}},
    ]
    for other in others:
        for _ in range(20):
            found = pyjax.tree.flatten(other)
            assert same(found, by_python(other))
            text = str(pyjax.tree.map(lambda x: x, other))
            assert text == str(dict(sorted(other.items())))


def test_very_long_keys() -> None:
    """Longer than Python writes them."""
    tree = {10**5000: [1], 2: 3}
    assert taught(tree)
    for _ in range(100):
        assert pyjax.tree.map(lambda x: x, tree) == tree


def test_prefixes_and_errors_of_several_trees() -> None:
    tree = {"a": [1, 2], "b": 3}
    assert taught(tree) and taught({"a": 4, "b": 5})
    assert pyjax.tree.map(lambda x, y: (x, y), {"a": 4, "b": 5}, tree) == {
        "a": (4, [1, 2]),
        "b": (5, 3),
    }
    with pytest.raises(ValueError, match=r"(?s)Structures differ|got a leaf"):
        pyjax.tree.map(lambda x, y: x, tree, {"a": 4, "b": 5})


def test_what_is_registered_later_is_no_leaf_any_more() -> None:
    class Late:
        def __init__(self) -> None:
            self.inside = 7

    class LatePair(namedtuple("LatePair", "left right")):
        pass

    late = [Late(), LatePair(1, 2)]
    assert taught(late) and len(pyjax.tree.leaves(late)) == 3
    pyjax.tree_util.register_dataclass(Late, ("inside",), ())
    pyjax.tree_util.register_pytree_node(
        LatePair, lambda p: ((p[1],), None), lambda _, c: LatePair(None, c[0])
    )
    assert pyjax.tree.leaves(late) == [7, 2]


def test_named_tuples_that_are_registered_later() -> None:
    class LatePair(namedtuple("LatePair", "left right")):
        pass

    late = [LatePair(1, 2)]
    assert taught(late) and pyjax.tree.leaves(late) == [1, 2]
    pyjax.tree_util.register_pytree_node(
        LatePair, lambda p: ((p[1],), None), lambda _, c: LatePair(None, c[0])
    )
    assert pyjax.tree.leaves(late) == [2]


def test_what_changes_between_two_looks_is_not_learnt() -> None:
    """Python takes a tree apart, then its shape is written; a thread, or an attribute, may have
    changed it meanwhile."""
    old, new = {"a": 1, "c": [1, 2]}, {"a": 1, "b": 2, "c": [1, 2, 3]}
    for before, after in [(old, new), (new, old), ([1], [1, 2]), ([[1]], [2]), ([2], [[1]])]:
        for _ in range(8):
            known_trees.learn(after, pyjax.tree.structure(before))  # type: ignore[misc]
        found = known_trees.find(after)  # type: ignore[misc]
        assert found is None or same(found, by_python(after))

    class Growing:
        calls = 0

    def flatten(x: Growing) -> tuple[tuple[int, ...], str]:
        Growing.calls += 1
        return tuple(range(Growing.calls % 3)), "growing"

    pyjax.tree_util.register_pytree_node(Growing, flatten, lambda _, __: Growing())
    for _ in range(100):
        leaves, structure = pyjax.tree.flatten([Growing()])
        assert leaves == [*range(structure.num_leaves)]


def test_functions_of_nodes_are_called_a_few_times_at_most() -> None:
    calls = 0

    class Named:
        def __init__(self, inside: Any, name: str) -> None:
            self.inside, self.name = inside, name

    def flatten(x: Named) -> tuple[tuple[Any, ...], str]:
        nonlocal calls
        calls += 1
        return (x.inside,), x.name if x.name.isdigit() else f"{x.name}.new"

    pyjax.tree_util.register_pytree_node(Named, flatten, lambda name, c: Named(c[0], name))
    for names, most in (["anew"], 1.2), ([str(i) for i in range(30)], 6):
        trees = [Named(1, name) for name in names]
        for tree in trees:
            taught(tree)
        calls = 0
        for tree in trees * (30 // len(trees)):
            pyjax.tree.flatten(tree)
        assert calls <= 30 * most


def test_functions_as_auxiliary_data_keep_nothing_alive() -> None:
    def of_defaults(held: Leaf) -> Any:
        return lambda x, y=held: y

    def of_attributes(held: Leaf) -> Any:
        function = lambda x: x
        function.held = held  # type: ignore[attr-defined]
        return function

    def of_globals(held: Leaf) -> Any:
        names: dict[str, Any] = {"held": held}
        exec("def function(x): return held", names)
        return names["function"]

    def of_builtin(held: Leaf) -> Any:
        return [held].index

    for make in (of_defaults, of_attributes, of_globals, of_builtin):
        held = Leaf()
        gone = weakref.ref(held)
        for _ in range(20):
            pyjax.tree.leaves(Layer(1, 2, make(held)))
        del held
        gc.collect()
        assert gone() is None, make


def test_deep_trees() -> None:
    tree: Any = 1
    for _ in range(400):
        tree = [tree]
    assert taught(tree) and pyjax.tree.leaves(tree) == [1]


def test_classes_whose_metaclass_has_a_hash_of_its_own() -> None:
    class Meta(type):
        def __hash__(cls) -> int:
            raise AssertionError("asked for a hash")

    class Odd(metaclass=Meta):
        pass

    assert taught([1, 2])
    with pytest.raises(AssertionError, match="asked for a hash"):
        pyjax.tree.flatten([1, Odd()])


def test_attributes_that_do_something() -> None:
    def fail() -> Any:
        raise fault("from the attribute")

    watched = Watched(Leaf)
    tree = [watched, [Leaf()]]
    assert taught(tree)
    for fault in (AttributeError, KeyboardInterrupt, ZeroDivisionError):
        watched.look = fail
        with pytest.raises(fault, match="from the attribute"):
            pyjax.tree.flatten(tree)

    def change() -> Any:
        tree[1].clear()
        tree.clear()
        gc.collect()
        return Leaf()

    watched.look = change
    leaves, structure = pyjax.tree.flatten(tree)  # no matter what: it is of what it found
    assert len(leaves) == structure.num_leaves and not tree


def test_nothing_leaks() -> None:
    leaf = Leaf()
    inner = [leaf, Pair(leaf, None), Box(leaf, Box())]
    tree = {"a": inner, "b": Layer(leaf, leaf), "c": Watched(lambda: leaf)}
    miss = {"a": inner, "b": Layer(leaf, leaf), "c": Watched(lambda: None)}
    assert taught(tree) and taught(miss) and taught(inner)
    structure = pyjax.tree.structure(tree)
    held = [leaf, inner, tree, tree["b"], structure, None]

    def calls(count: int) -> None:
        for i in range(count):
            pyjax.tree.flatten(tree)
            pyjax.tree.flatten(miss)
            pyjax.tree.map(lambda x, y: x, inner, inner)
            known_trees.find({"a": inner, "b": i, "c": 1})  # type: ignore[misc]

    calls(100)
    before = [sys.getrefcount(x) for x in held]
    calls(2000)
    after = [sys.getrefcount(x) for x in held]
    assert max(abs(b - a) for a, b in zip(before, after)) < 30


def test_the_option_turns_it_off() -> None:
    tree = {"off": [1, 2]}
    assert taught(tree) and known_trees.find is not None
    pyjax.config.update("jax_native_dispatch", False)
    try:
        assert known_trees.find(tree) is None
        assert pyjax.tree.leaves(tree) == [1, 2]
    finally:
        pyjax.config.update("jax_native_dispatch", True)
    assert known_trees.find(tree) is not None
