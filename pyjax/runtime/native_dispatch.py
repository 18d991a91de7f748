"""Which calls of programs go without byte code: those of known programs, on CPUs, while nothing is
traced, no block of options is open and nobody watches.

A program gets an entry (see `pyjax.native`) when it is called the second time: what is called once
is not worth it. Native code is loaded then, too. An entry holds no program: it knows one by a token
under which the table of programs has it, so what goes from there is not called any more.

Where native code cannot be used, or the option `native_dispatch` says so, Python does the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from pyjax._config import options
from pyjax._config.registry import deviating, key_outside_blocks, trace_context
from pyjax.core.known_trees import known_trees
from pyjax.core.pytree import PyTreeDef, tree_unflatten
from pyjax.core.trace_state import entered
from pyjax.core.traceback_filter import leave
from pyjax.native.c_api import is_usable, numpy_is_as_known, offset_of_slot
from pyjax.native.entries import Output, Target, Unsuited, write_entry
from pyjax.native.trees import TreeTable
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.dispatch import NUMPY_DTYPES, SCALAR_KINDS, as_array
from pyjax.runtime.program import Program, for_user, watchers
from pyjax.runtime.transfers import armed
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.process.bounded_cache import BoundedCache, Budget, once
from xla_backend.process.forks import ForkedWhileCompilingError
from xla_backend.process.on_first_use import import_now
from xla_backend.runtime.buffer import OutOfMemory

V = TypeVar("V")

_MOST_ENTRIES = 32  # of one table of programs: they are tried one after the other
_MOST_WRITTEN = 8 * _MOST_ENTRIES  # then there are too many kinds of calls for entries
# Not empty while the option is off.
_off = deviating((options.native_dispatch,), usual=(True,))


class _Token:
    """Of one entry: a key of the table of programs beside the usual one."""

    __slots__ = ()


class ProgramTable(BoundedCache[Any, V]):
    """The programs of a function, with entries for native calls.

    Attributes:
      entries: the newest first.
    """

    __slots__ = ("_native", "_written", "entries")

    entries: tuple[Any, ...]  # what native code reads

    def __init__(self, budget: Budget, size: Callable[[V], int]) -> None:
        super().__init__(budget, size)
        self.entries = ()
        # Of each kind of call that was looked at, the token of its entry; None if it has none.
        self._native: dict[Hashable, tuple[_Token, Any] | None] = {}
        self._written = 0

    def learn(
        self,
        key: Hashable,
        program: Any,
        out_tree: PyTreeDef,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        leaves: Sequence[Any],
        static: Collection[int | str] = (),
    ) -> None:
        """A call with these arguments, which have these leaves, has found a program under a key, by
        Python: the next one need not. `static`: positions and names of those without leaves."""
        if _off or self._written >= _MOST_WRITTEN:
            return
        if type(program) is Program and program.is_for_now:
            return
        call = (key, tuple(map(type, leaves)), tuple(kwargs))
        known = self._native.get(call, ())
        if known is None or (known and known[0] in self.hot):
            return
        try:
            if not _is_ready():
                return
        except ForkedWhileCompilingError:  # here nothing can be compiled, and Python does the same
            self._written = _MOST_WRITTEN
            return
        self._written += 1
        token = _Token()
        try:
            target = _target(program, out_tree)
            entry = write_entry(token, args, kwargs, _leaf, target, static)
        except Unsuited:
            self._native[call] = None
            return
        self.alias(key, token)
        self._native.pop(call, None)
        self._native[call] = token, entry
        found = [pair for pair in list(self._native.values()) if pair is not None]
        usable = [pair[1] for pair in reversed(found) if pair[0] in self.hot]
        self.entries = tuple(usable[:_MOST_ENTRIES])

    def clear(self) -> None:
        self.entries = ()
        self._native.clear()
        self._written = 0
        super().clear()


_numpy_is_as_known = once(numpy_is_as_known)


def _leaf(value: Any) -> tuple[object, np.dtype | None]:
    kind = type(value)
    if kind is DeviceArray:
        return value.spec, None
    if kind is np.ndarray and value.dtype in NUMPY_DTYPES:
        dtype = as_array(value).spec.kind.numpy_dtype
        if dtype != value.dtype or not value.dtype.isnative or not _numpy_is_as_known():
            raise Unsuited("an array that is converted")
        return value, None
    if kind not in SCALAR_KINDS:
        raise Unsuited("neither an array nor a number")
    spec = as_array(value).spec
    return spec, spec.kind.numpy_dtype


def _target(program: Any, out_tree: PyTreeDef) -> Target:
    if type(program) is not Program or not program.is_plain:
        raise Unsuited("calls of the program do more than run it")
    direct = program.executable.direct
    if direct is None or direct.entry is None:
        raise Unsuited("the program has no entry for native code")
    entry = direct.entry
    return Target(
        trace_context(),
        +entry.address,
        entry.third,
        None if entry.arena is None else (entry.arena.take, entry.arena.grow),
        entry.releases_lock,
        partial(_fail, weakref.ref(program)),
        program.constants,
        [Output(spec, m.take, m.grow) for spec, m in zip(program.out_specs, entry.outputs)],
        out_tree,
        partial(tree_unflatten, out_tree),
    )


def _fail(reference: weakref.ref[Program], status: int) -> None:
    """Raise what a status of a program stands for; the call that has it keeps the program."""
    program = reference()
    assert program is not None
    direct = program.executable.direct
    assert direct is not None and direct.entry is not None
    try:
        try:
            direct.entry.fail(status)
        except (OutOfMemory, RuntimeFailure) as error:
            raise for_user(error) from None
    except Exception as error:
        leave(error)
        raise


# What is to become native: the type whose instances have programs, with the slot that has their
# table and the type of that; and methods of arrays, with the instance whose programs they are.
_holders: list[tuple[type, str, type]] = []
_methods: list[tuple[str, Any]] = []


def make_calls_native(holder: type, slot: str, table: type) -> None:
    """Let `holder.__call__` become native: its instances have a ProgramTable, of a class of its
    own, in a slot. There is one such type."""
    _holders.append((holder, slot, table))


def make_method_native(name: str, compiled: Any) -> None:
    """Let a method, operator or property of arrays on devices become native: it calls `compiled`,
    an instance of the holder, with what it is called with."""
    _methods.append((name, compiled))


def _unknown(tree: Any) -> None:
    """What is found of a tree that native code does not know."""


@once
def _is_ready() -> bool:
    """Whether calls are native; the first time, what was announced becomes so."""
    if not is_usable():
        return False
    ((holder, slot, table),) = _holders
    places = [
        offset_of_slot(DeviceArray, "buffer"),
        offset_of_slot(DeviceArray, "spec"),
        offset_of_slot(holder, slot),
        offset_of_slot(table, "entries"),
        offset_of_slot(table, "hot"),
        offset_of_slot(TreeTable, "entries"),
    ]
    if None in places:
        return False
    # Not before: it takes LLVM.
    native = import_now("pyjax.native.methods")
    fact = native.Fact
    blocks, context = key_outside_blocks()
    facts = native.facts_of_python() | {
        fact.ARRAY: DeviceArray,
        fact.HOLDER: holder,
        fact.PROGRAMS: table,
        fact.TRACING: entered,
        fact.WATCHERS: watchers,
        fact.OFF: _off,
        fact.GUARDED: armed,
        fact.BLOCKS: blocks,
        fact.CONTEXT: context,
    }
    slots = (fact.BUFFER, fact.SPEC, fact.PROGRAMS_OF_HOLDER, fact.ENTRIES, fact.HOT, fact.TREES)
    methods = native.Methods(facts | dict(zip(slots, places)))
    holder.__call__ = methods.of_holder(holder.__call__)  # type: ignore[method-assign]
    for name, compiled in _methods:
        plain = getattr(DeviceArray, name)
        programs = getattr(compiled, slot)
        made: Any
        if isinstance(plain, property):
            made = property(methods.of_operator(plain.fget, programs), doc=plain.__doc__)
        else:
            made = methods.of_operator(plain, programs)
        setattr(DeviceArray, name, made)
    trees = TreeTable(Budget("known trees", entries=1))
    known_trees.learn, known_trees.find = trees.learn, methods.of_trees(_unknown, trees)
    return True
