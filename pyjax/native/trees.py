"""Shapes of trees for native code: how to recognise a tree of a structure that was seen before, and
where its leaves are.

A shape is a tuple: a text of 64-bit words for `tree_code`, the structure, what keeps the objects
alive whose addresses are in the words, and whether functions are called. The words are the number
of leaves and looks: an operation and four numbers. Looks work on registers, which hold objects; the
first is the tree, and what is in a container comes behind, in the order in which looks find it. All
that a register holds has a reference of its own, since attributes may run code of Python.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any

from pyjax.core.pytree import PyTreeDef
from pyjax.core.tree_nodes import (
    are_plain_keys,
    is_node_type,
    is_plain_namedtuple,
    node_type_of,
)
from xla_backend.process.bounded_cache import BoundedCache, Budget


class Look(enum.IntEnum):
    """(register, what is expected, first register for what is inside, size)"""

    LEAF = 0  # of a type that leaves have: the next one
    TUPLE = 1  # of this type
    LIST = 2
    DICT = 3  # with the keys of this tuple, in this order
    FIELDS = 4  # of the type that is first in this tuple, with the attributes behind it
    SAME = 5  # this object
    FOUND = 6  # all is as expected
    CALL = 7  # of the type that is first in this tuple; the second gives children, and the third


WORDS = 5  # of a look
HAS_CALLS = 3  # of a shape: whether looks call functions
MOST_REGISTERS = 512
_MOST_SHAPES = 16  # they are tried one after the other
_MOST_WITH_CALLS = 4  # of these: each that does not fit may have called a function of the user's
_EVERY = 8  # of trees with a structure, one is looked at
# When so many have been written there are many kinds of trees: half as many are looked at from then
# on, and again when as many more have been.
_MANY_WRITTEN = 32 * _MOST_SHAPES


_SHAPES = "shapes"


class _Unsuited(Exception):
    """A tree that shapes cannot describe."""


class TreeTable(BoundedCache[Any, Any]):
    """The shapes that native code knows. As a cache it holds one entry, without a meaning, as long
    as there are shapes: it is one to be cleared with the others, when a class of named tuples is
    registered, and of those that are empty nobody knows.

    Attributes:
      entries: the newest first.
    """

    __slots__ = ("_seen", "_written", "entries")

    entries: tuple[Any, ...]  # what native code reads

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self.clear()

    def learn(self, tree: Any, treedef: PyTreeDef) -> None:
        """Python has flattened a tree, whose structure is the one object for such."""
        self._seen += 1
        if self._seen % (_EVERY << self._written // _MANY_WRITTEN):
            return
        self._written += 1
        try:
            shape = write_shape(tree, treedef)
        except _Unsuited:
            return
        self.put(_SHAPES, True)
        calls = 0
        kept = []
        for known in (shape, *self.entries[: _MOST_SHAPES - 1]):
            calls += known[HAS_CALLS]
            if not known[HAS_CALLS] or calls <= _MOST_WITH_CALLS:
                kept.append(known)
        self.entries = tuple(kept)

    def clear(self) -> None:
        self.entries = ()
        self._seen = self._written = 0
        super().clear()


def write_shape(tree: Any, treedef: PyTreeDef) -> tuple[Any, ...]:
    """The shape of trees like this one, which has this structure.

    It may have it no longer: to take it apart runs functions of the user's, and other threads. What
    is seen here is compared with the structure all the way. Auxiliary data that are other objects
    each time would never be met again.
    """
    if treedef.num_leaves > MOST_REGISTERS:
        raise _Unsuited
    looks: list[int] = []
    keep: list[object] = [treedef]
    registers = 1
    has_calls = False

    def add(look: Look, register: int, expected: object = None, size: int = 0) -> int:
        nonlocal registers
        first = registers
        registers += size
        if registers > MOST_REGISTERS:
            raise _Unsuited
        keep.append(expected)
        looks.extend((look, register, id(expected), first, size))
        return first

    # What is inside of a container is looked at in the order of the leaves.
    waiting: list[tuple[int, Any, PyTreeDef]] = [(0, tree, treedef)]
    while waiting:
        register, value, structure = waiting.pop()
        kind = type(value)
        seen = structure.node_data()
        if seen is None:
            if is_node_type(kind):
                raise _Unsuited
            add(Look.LEAF, register)
            continue
        expected, data = seen
        if kind is not expected:
            raise _Unsuited
        node = node_type_of(kind)
        values: Sequence[Any] = ()
        places: Sequence[int] = ()
        if value is None:
            add(Look.SAME, register)
        elif kind is dict:
            keys = tuple(value)
            if not are_plain_keys((*keys, *data)) or sorted(keys) != list(data):
                raise _Unsuited
            first = add(Look.DICT, register, keys, len(keys))
            place_of = {k: first + i for i, k in enumerate(keys)}
            places, values = [place_of[k] for k in data], [value[k] for k in data]
        elif node is None:
            if kind is not tuple and kind is not list and not is_plain_namedtuple(kind):
                raise _Unsuited
            values = tuple(value)
            look = Look.LIST if kind is list else Look.TUPLE
            first = add(look, register, kind, len(values))
            places = range(first, first + len(values))
        elif node.fields is None:
            has_calls = True
            children, constant = node.flatten(value)
            if type(children) is not tuple or type(constant) is tuple or constant is not data:
                raise _Unsuited
            values = children
            # What the call gives goes into the first register.
            held = (kind, node.flatten, constant)
            first = 1 + add(Look.CALL, register, held, 1 + len(values))
            places = range(first, first + len(values))
        else:
            names, meta = node.fields
            first = add(Look.FIELDS, register, (kind, *names, *meta), len(names) + len(meta))
            for i, (name, constant) in enumerate(zip(meta, data)):
                if getattr(value, name) is not constant:
                    raise _Unsuited
                add(Look.SAME, first + len(names) + i, constant)
            values = [getattr(value, name) for name in names]
            places = range(first, first + len(values))
        parts = structure.children()
        if len(values) != len(parts):
            raise _Unsuited
        waiting += [*zip(places, values, parts)][::-1]
    add(Look.FOUND, 0)
    words = [treedef.num_leaves, *looks]
    return struct.pack(f"{len(words)}q", *words), treedef, tuple(keep), has_calls
