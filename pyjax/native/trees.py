"""Shapes of trees for native code: how to recognise a tree of a structure that was seen before, and
where its leaves are.

A shape is a tuple: a text of 64-bit words for `tree_code`, the structure, and what keeps the
objects alive whose addresses are in the words. The words are the number of leaves and looks: an
operation and four numbers. Looks work on registers, which hold objects; the first is the tree, and
what is in a container comes behind, in the order in which looks find it. All that a register holds
has a reference of its own, since attributes may run code of Python.
"""

from __future__ import annotations

import enum
import struct
from typing import Any

from pyjax.core.pytree import PyTreeDef
from pyjax.core.tree_nodes import is_plain_namedtuple, node_type_of
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
MOST_REGISTERS = 512
_MOST_SHAPES = 16  # they are tried one after the other
_MOST_WRITTEN = 32 * _MOST_SHAPES  # then there are too many kinds of trees
_EVERY = 8  # of trees with a structure, one is looked at


class _Unsuited(Exception):
    """A tree that shapes cannot describe."""


class TreeTable(BoundedCache[Any, Any]):
    """The shapes that native code knows. As a cache it holds nothing: it is one to be cleared with
    the others, when a class of named tuples is registered.

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
        if self._seen % _EVERY or self._written >= _MOST_WRITTEN:
            return
        self._written += 1
        try:
            shape = write_shape(tree, treedef)
        except _Unsuited:
            return
        self.entries = (shape, *self.entries[: _MOST_SHAPES - 1])

    def clear(self) -> None:
        self.entries = ()
        self._seen = self._written = 0
        super().clear()


def write_shape(tree: Any, treedef: PyTreeDef) -> tuple[Any, ...]:
    """The shape of trees like this one, which has this structure."""
    looks: list[int] = []
    keep: list[object] = [treedef]
    registers = 1

    def add(look: Look, register: int, expected: object = None, size: int = 0) -> int:
        nonlocal registers
        first = registers
        registers += size
        if registers > MOST_REGISTERS:
            raise _Unsuited
        keep.append(expected)
        looks.extend((look, register, id(expected), first, size))
        return first

    def visit(register: int, value: Any) -> None:
        # What is inside of a container is looked at in the order of the leaves.
        kind = type(value)
        if kind is tuple or kind is list or is_plain_namedtuple(kind):
            first = add(Look.LIST if kind is list else Look.TUPLE, register, kind, len(value))
            for i, child in enumerate(value):
                visit(first + i, child)
        elif kind is dict:
            keys = tuple(value)
            if not all(type(k) is str for k in keys):
                raise _Unsuited
            first = add(Look.DICT, register, keys, len(keys))
            places = {k: first + i for i, k in enumerate(keys)}
            for k in sorted(keys):
                visit(places[k], value[k])
        elif value is None:
            add(Look.SAME, register)
        else:
            node = node_type_of(kind)
            if node is None:
                add(Look.LEAF, register)
                return
            if node.fields is None:
                children, constant = node.flatten(value)
                if type(children) is not tuple or type(constant) is tuple:
                    raise _Unsuited
                # What the call gives goes into the first register.
                held = (kind, node.flatten, constant)
                first = 1 + add(Look.CALL, register, held, 1 + len(children))
                for i, child in enumerate(children):
                    visit(first + i, child)
                return
            data, meta = node.fields
            names = (kind, *data, *meta)
            first = add(Look.FIELDS, register, names, len(names) - 1)
            for i, name in enumerate(meta):
                add(Look.SAME, first + len(data) + i, getattr(value, name))
            for i, name in enumerate(data):
                visit(first + i, getattr(value, name))

    visit(0, tree)
    add(Look.FOUND, 0)
    words = [treedef.num_leaves, *looks]
    return struct.pack(f"{len(words)}q", *words), treedef, tuple(keep)
