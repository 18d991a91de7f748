"""What all native code has in common: what it must know of this process, where in a callable things
are, and a writer of functions that call Python."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyjax.native.c_api import FUNCTIONS, OBJECT_TYPE
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

VECTORCALL = [("ptr", "self"), ("ptr", "args"), ("i64", "flags"), ("ptr", "names")]
COUNT_MASK = str((1 << 63) - 1)  # of `nargsf`, without PY_VECTORCALL_ARGUMENTS_OFFSET


class Fact(enum.IntEnum):
    """Words of the table of facts: objects, and where in objects slots are."""

    ARRAY = 0  # type of arrays
    BUFFER = 1
    SPEC = 2
    HOLDER = 3  # type of what has programs
    PROGRAMS_OF_HOLDER = 4
    PROGRAMS = 5  # type of tables of programs
    ENTRIES = 6
    HOT = 7
    TRACING = 8  # a set that is empty while nothing is traced
    WATCHERS = 9  # a list that is empty while nobody watches calls
    OFF = 10  # tables that are empty while calls may be native
    GUARDED = 11
    BLOCKS = 12  # context variable of open blocks of options
    CONTEXT = 13  # list with the key of options outside of them
    NO_BLOCKS = 14  # the empty tuple
    NONE = 15
    TEXT = 16  # type of strings
    EMPTY = 17  # exception: no memory is free, more must be made
    REFUSED = 18  # exception: there is none
    BOUND = 19  # type of bound methods
    DICT = 20  # type of dictionaries
    TYPE = 21  # type of classes that have no metaclass
    LEAF_TYPES = 22  # set of types whose instances are leaves of trees
    TREES = 23  # slot of what tables of trees have
    TUPLE = 24  # type of tuples


class Field(enum.IntEnum):
    """Words of a method, behind the header of objects."""

    VECTORCALL = 2
    FALLBACK = 3
    PROGRAMS = 4  # the table of an operator's programs
    FACTS = 5
    DICT = 6
    WEAK = 7
    SIZE = 8


class Writer:
    """Writes one function; `w` is its FunctionWriter."""

    def __init__(
        self, module: ModuleWriter, name: str, params: Sequence[tuple[str, str]], result: str
    ) -> None:
        self.w: FunctionWriter = module.function(
            name, params, result=result, internal=not name.startswith("pyjax_")
        )

    def python(self, name: str, *arguments: str) -> str:
        """A call of a function of Python."""
        result, types = FUNCTIONS[name]
        return self.w.call(name, result, list(zip(types, arguments, strict=True)))

    def own(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        return self.w.call(name, result, arguments)

    def word(self, table: str, number: int | str, ty: str = "i64") -> str:
        return self.w.load(ty, self.w.gep("i64", table, number), align=1)

    def at(self, value: str, offset: str) -> str:
        """Address of a slot of an object."""
        return self.w.gep("i8", value, offset)

    def slot(self, value: str, facts: str, fact: Fact) -> str:
        return self.w.load("ptr", self.at(value, self.word(facts, fact)))

    def type_of(self, value: str) -> str:
        return self.w.load("ptr", self.w.gep("i8", value, OBJECT_TYPE))

    def same(self, a: str, b: str) -> str:
        return self.w.cmp("eq", "ptr", a, b)

    def require(self, condition: str, otherwise: str) -> None:
        """Go on if a condition holds; else to a label."""
        on = self.w.new_label("on")
        self.w.cond_br(condition, on, otherwise, likely=True)
        self.w.label(on)

    @contextmanager
    def block(self, label: str) -> Iterator[None]:
        """Code at a label that does not dominate what follows."""
        with self.w.scope():
            self.w.label(label)
            yield

    def look_into(
        self,
        cases: tuple[str, str, str],
        item: str,
        expected: str,
        count: str,
        take: Callable[[str, str], None],
        ends: tuple[str, str],
    ) -> None:
        """The blocks of a tuple, of a list and of a dict, at the labels `cases`: whether an object
        is of the type that is expected (a dict: has the keys of that tuple, in this order), with so
        many objects in it. `take(number, object)` gets each. Then, and if it is not, control goes
        to one of `ends`."""
        w = self.w
        following, no = ends
        size, key, value = w.alloca("i64"), w.alloca("ptr"), w.alloca("ptr")
        for label, prefix in zip(cases, ("PyTuple", "PyList")):
            with self.block(label):
                self.require(self.same(self.type_of(item), expected), no)
                self.require(w.cmp("eq", "i64", self.python(f"{prefix}_Size", item), count), no)
                with w.loop(0, count) as loop:
                    take(loop.index, self.python(f"{prefix}_GetItem", item, loop.index))
                w.br(following)
        with self.block(cases[2]):
            self.require(self.same(self.type_of(item), self.word("%facts", Fact.DICT, "ptr")), no)
            self.require(w.cmp("eq", "i64", self.python("PyDict_Size", item), count), no)
            w.store("i64", "0", size)
            with w.loop(0, count) as loop:
                more = self.python("PyDict_Next", item, size, key, value)
                self.require(w.cmp("ne", "i32", more, "0"), no)
                wanted = self.python("PyTuple_GetItem", expected, loop.index)
                pair = [("ptr", w.load("ptr", key)), ("ptr", wanted)]
                self.require(self.own("pyjax.equal", "i1", ("ptr", "%facts"), *pair), no)
                take(loop.index, w.load("ptr", value))
            w.br(following)

    def each(self, count: str, table: str) -> Iterator[tuple[str, str]]:
        """Numbers below a count with the objects in a table, where there are some."""
        with self.w.loop(0, count) as loop:
            value = self.w.load("ptr", self.w.gep("ptr", table, loop.index))
            with self.w.if_(self.w.cmp("ne", "ptr", value, "null")):
                yield loop.index, value

    def release_all(self, count: str, table: str) -> None:
        for _, value in self.each(count, table):
            self.python("Py_DecRef", value)
