"""Entries: what native code goes by when it calls a program, written from an example of its
arguments.

An entry is a tuple: a text of 64-bit words for `entry_code`, and what keeps the objects alive whose
addresses are in it; those that belong to the program are used only while it is there, and the entry
does not keep it. The words are a header (`Header`), guards that recognise the arguments and find
their memory, where the memory of results comes from, and steps that make the result of arrays.
Everything here is data of Python: the garbage collector sees it, and it goes when nobody refers to
it.

A guard or step is an operation and four numbers. Guards work on registers, which hold objects:
first positional arguments, then those by name in the order of the call, then the tuple of the
names; what is in containers comes behind. Guards run no code of Python, so nothing changes while
they look.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyjax.core.pytree import PyTreeDef
from pyjax.core.tree_nodes import are_plain_keys, is_plain_namedtuple


class Header(enum.IntEnum):
    """Words of the header, in their order."""

    ARGUMENTS = 0  # positional ones
    NAMES = 1  # arguments by name
    CONTEXT = 2  # the key that options had when the program was made
    ENTRY = 3
    THIRD = 4  # argument of the entry; if HAS_ARENA, the last memory that is allocated is it
    HAS_ARENA = 5
    RELEASES_LOCK = 6
    FAIL = 7  # to call with a status
    INPUTS = 8
    OUTPUTS = 9
    GUARDS = 10  # where they begin, as numbers of words; and so on
    MEMORY = 11  # for each output: its spec, take, grow
    STEPS = 12


class Guard(enum.IntEnum):
    """(register, what is expected, number of the input or first register for what is inside, number
    of the scalar or size)"""

    ARRAY = 0  # with this spec
    CONSTANT = 1  # this array, which the program closes over: no register, after PROGRAM
    FLOAT32 = 2  # a number of this type
    FLOAT64 = 3
    INT32 = 4
    INT64 = 5
    BOOL = 6
    TUPLE = 7  # of this size
    LIST = 8
    DICT = 9  # with the keys of this tuple, in this order
    SAME = 10  # this object
    TEXT = 11  # a string equal to this one
    PROGRAM = 12  # the table of hot programs has one under this token
    RUN = 13  # all is as expected
    WHOLE = 14  # an int of this type with a value (in place of the number of the input)
    REAL = 15  # a float of this type with these bits (likewise)
    NUMPY = 16  # an array of NumPy as these bytes say (see `_numpy_words`), which is read in place


class Step(enum.IntEnum):
    """(size or number, object): takes that many values from the stack, and puts one on it."""

    ARRAY = 0  # the next one; takes nothing
    NONE = 1
    TUPLE = 2
    LIST = 3
    DICT = 4  # with the keys of this tuple
    CALL = 5  # what this function makes of a list of them
    RETURN = 6
    MAKE = 7  # what this function makes of them as arguments


WORDS = 5  # of a guard or step
MOST_REGISTERS = 1024
MOST_ARRAYS = 256  # inputs, and outputs
MOST_SCALARS = 32
SCALAR_BYTES = 64
_INT64_LIMIT = 1 << 63
_NUMBERS = {
    np.dtype(np.float32): (Guard.FLOAT32, (float, np.float32, np.float64)),
    np.dtype(np.float64): (Guard.FLOAT64, (float, np.float32, np.float64)),
    np.dtype(np.int32): (Guard.INT32, (int, np.int32, np.int64)),
    np.dtype(np.int64): (Guard.INT64, (int, np.int32, np.int64)),
    np.dtype(np.bool_): (Guard.BOOL, (bool, np.bool_)),
}


class Unsuited(Exception):
    """Arguments or a program that entries cannot describe: Python calls it."""


class Output(NamedTuple):
    """Where a result comes from.

    Fields:
      spec: of its array.
      take, grow: for its memory; see SizeClass.
    """

    spec: object
    take: Callable[[], object]
    grow: Callable[[], object]


class Target(NamedTuple):
    """A program, as entries see it.

    Fields:
      context: the key of the options that it was made for.
      entry, third, releases_lock: see EntryPoint. It keeps the code itself.
      arena: `take` and `grow` of the third argument, if that is memory.
      fail: raises what a status stands for.
      constants: arrays that are passed behind the arguments, which it keeps.
      outputs, out_tree: its results.
      build: makes a tree of a list of arrays, where native code cannot.
    """

    context: object
    entry: int
    third: int
    arena: tuple[Callable[[], object], Callable[[], object]] | None
    releases_lock: bool
    fail: Callable[[int], object]
    constants: Sequence[object]
    outputs: Sequence[Output]
    out_tree: PyTreeDef
    build: Callable[[list[Any]], Any]


# What a leaf is that is no container: for an array its spec and None, for a number its spec and the
# dtype in which it is passed, for an array of NumPy, which is passed as it is, itself and None.
Leaf = Callable[[Any], tuple[object, np.dtype | None]]


class _Guards:
    """Guards for arguments like those that are visited."""

    def __init__(self, registers: int, leaf: Leaf) -> None:
        self.words: list[int] = []
        self.keep: list[object] = []
        self.inputs = 0
        self._registers = registers
        self._scalars = 0
        self._leaf = leaf

    def add(self, guard: Guard, register: int, expected: object, c: int = 0, d: int = 0) -> None:
        self.keep.append(expected)
        self.words += [guard, register, id(expected), c, d]

    def visit(self, register: int, value: Any) -> None:
        """A register holds something like `value`. Leaves are numbered as `tree_flatten` does."""
        kind = type(value)
        if kind is tuple or kind is list or is_plain_namedtuple(kind):
            guard = Guard.LIST if kind is list else Guard.TUPLE
            first = self.several(len(value))
            self.add(guard, register, kind, first, len(value))
            for i, child in enumerate(value):
                self.visit(first + i, child)
        elif kind is dict:
            keys = tuple(value)
            if not are_plain_keys(keys):
                raise Unsuited("keys that are neither strings nor integers")
            first = self.several(len(keys))
            self.add(Guard.DICT, register, keys, first, len(keys))
            places = {k: first + i for i, k in enumerate(keys)}
            for k in sorted(keys):
                self.visit(places[k], value[k])
        elif value is None:
            self.add(Guard.SAME, register, None)
        else:
            self._visit_leaf(register, value, kind)

    def _visit_leaf(self, register: int, value: Any, kind: type) -> None:
        spec, dtype = self._leaf(value)
        if isinstance(spec, np.ndarray):
            self.keep.append(value.dtype)
            self.add(Guard.NUMPY, register, _numpy_words(value), self.inputs, value.ndim)
        elif dtype is None:
            self.add(Guard.ARRAY, register, spec, self.inputs)
        else:
            guard, kinds = _NUMBERS.get(dtype, (Guard.RUN, ()))
            if kind not in kinds or self._scalars >= MOST_SCALARS:
                raise Unsuited("a number that is not passed as it is")
            self.add(guard, register, kind, self.inputs, self._scalars)
            self._scalars += 1
        self.inputs += 1

    def fixed(self, register: int, value: Any) -> None:
        """A register holds a static argument with the key of `value`: the same object where that
        is all that equality looks at, else an equal one of the same type."""
        kind = type(value)
        if kind is tuple:
            first = self.several(len(value))
            self.add(Guard.TUPLE, register, tuple, first, len(value))
            for i, child in enumerate(value):
                self.fixed(first + i, child)
        elif kind is int and -_INT64_LIMIT <= value < _INT64_LIMIT:
            self.add(Guard.WHOLE, register, int, value)
        elif kind is float:
            self.add(Guard.REAL, register, float, *struct.unpack("q", struct.pack("d", value)))
        elif kind is str:
            self.add(Guard.TEXT, register, value)
        elif value is None or value is ... or kind is bool or _never_changes(kind):
            self.add(Guard.SAME, register, value)
        else:
            raise Unsuited("a static argument that only its own methods compare")

    def several(self, count: int) -> int:
        """The first of so many new registers."""
        first = self._registers
        self._registers += count
        if self._registers > MOST_REGISTERS:
            raise Unsuited("too many objects")
        return first


def _numpy_words(array: np.ndarray) -> bytes:
    """What arrays like this have: the type, the dtype, the sizes."""
    words = (id(np.ndarray), id(array.dtype), *array.shape)
    return struct.pack(f"{len(words)}q", *words)


def _never_changes(kind: type) -> bool:
    """Whether an object of a type stays equal to itself as it was: dtypes, classes, members of
    enumerations, and what is equal to nothing but itself."""
    if issubclass(kind, (np.dtype, type, enum.Enum)):
        return True
    return kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__


def write_entry(
    token: object,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    leaf: Leaf,
    target: Target,
    static: Collection[int | str] = (),
) -> tuple[Any, ...]:
    """The entry for calls with such arguments.

    Args:
      static: positions and names of those that are no inputs, but part of the program.
      token: the key under which the table of hot programs has this one, as long as it is to be
        used. It must have the hash of an object.
      leaf: tells what a leaf is; raises Unsuited if it cannot be passed.
    Raises:
      Unsuited: there is none.
    """
    names = tuple(kwargs)
    guards = _Guards(len(args) + len(names) + 1, leaf)
    for i, value in enumerate(args):
        (guards.fixed if i in static else guards.visit)(i, value)
    for name in sorted(names):
        visit = guards.fixed if name in static else guards.visit
        visit(len(args) + names.index(name), kwargs[name])
    if names:
        first = guards.several(len(names))
        guards.add(Guard.TUPLE, len(args) + len(names), tuple, first, len(names))
        for i, name in enumerate(names):
            guards.add(Guard.TEXT, first + i, name)
    guards.add(Guard.PROGRAM, 0, token)
    keep = guards.keep
    guards.keep = []
    for constant in target.constants:
        guards.add(Guard.CONSTANT, 0, constant, guards.inputs)
        guards.inputs += 1
    guards.add(Guard.RUN, 0, None)
    if max(guards.inputs, len(target.outputs)) > MOST_ARRAYS:
        raise Unsuited("too many arrays")
    memory = [*target.outputs]
    if target.arena is not None:
        memory.append(Output(None, *target.arena))
    keep += [*memory, target.context, target.fail, target.build]
    header = {
        Header.ARGUMENTS: len(args),
        Header.NAMES: len(names),
        Header.CONTEXT: id(target.context),
        Header.ENTRY: target.entry,
        Header.THIRD: target.third,
        Header.HAS_ARENA: target.arena is not None,
        Header.RELEASES_LOCK: target.releases_lock,
        Header.FAIL: id(target.fail),
        Header.INPUTS: guards.inputs,
        Header.OUTPUTS: len(target.outputs),
        Header.GUARDS: len(Header),
        Header.MEMORY: len(Header) + len(guards.words),
        Header.STEPS: len(Header) + len(guards.words) + 3 * len(memory),
    }
    words = [
        *(int(header[word]) for word in Header),
        *guards.words,
        *(id(part) for output in memory for part in output),
        *_steps(target, keep),
    ]
    return struct.pack(f"{len(words)}q", *words), tuple(keep)


def _steps(target: Target, keep: list[object]) -> list[int]:
    words: list[int] = []

    def step(step: Step, number: int = 0, what: object = None) -> None:
        keep.append(what)
        words.extend((step, number, id(what), 0, 0))

    def visit(tree: PyTreeDef) -> bool:
        if tree.is_leaf():
            step(Step.ARRAY)
            return True
        data = tree.node_data()
        assert data is not None
        kind, keys = data
        children = tree.children()
        if not all(visit(child) for child in children):
            return False
        if kind is type(None):
            step(Step.NONE)
        elif kind is tuple:
            step(Step.TUPLE, len(children))
        elif kind is list:
            step(Step.LIST, len(children))
        elif is_plain_namedtuple(kind):
            step(Step.MAKE, len(children), kind)
        elif kind is dict and are_plain_keys(keys):
            step(Step.DICT, len(children), tuple(keys))
        else:
            return False
        return True

    if not visit(target.out_tree) or len(words) > WORDS * MOST_REGISTERS:
        words.clear()
        for _ in target.outputs:
            step(Step.ARRAY)
        step(Step.CALL, len(target.outputs), target.build)
    step(Step.RETURN)
    return words
