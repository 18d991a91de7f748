"""Functions whose module is imported when they are called first.

Imports stand at the top of a file, but for two kinds of rooms: optional ones, and those that a
process may never need, such as the compiler in a process whose programs are all on disk.

A fork waits for such imports: a child that is forked in the middle of one would wait for ever where
it needs that module. One at a time: they have a lock. Who is in the middle of an import already has
Python's lock of that module, for which the lock's holder may be waiting: so he takes it if it is
free, and goes on without it otherwise.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from operator import methodcaller
from threading import RLock
from types import FrameType, ModuleType
from typing import Any, TypeVar

from xla_backend.process.forks import IMPORT, check_forked, take_for_forks
from xla_backend.process.no_collections import without_collections

K = TypeVar("K")
V = TypeVar("V")

# Before this process loaded any other module of the compiler's.
LOADED = time.time_ns()

_importing = RLock()


# What came so, whole: it is there also for threads that run while another one imports.
_imported: dict[str, ModuleType] = {}


def import_now(module: str) -> ModuleType:
    """A module that is needed now for the first time."""
    return _imported.get(module) or _in_turn(import_module, module)


def import_alone(module: str) -> ModuleType:
    """A compiled module that is needed now for the first time, without what its package imports
    besides; where there is no such file, by way of its package."""
    return _imported.get(module) or _in_turn(_alone, module)


def _in_turn(load: Callable[[str], ModuleType], module: str) -> ModuleType:
    take_for_forks(_importing, IMPORT)
    check_forked()
    take = methodcaller("acquire", not _is_importing())
    taken: list[Any] = []
    try:
        # One call in C, so that no signal handler raises when it is taken and not yet noted.
        taken.extend(filter(take, (_importing,)))
        # What imports make stays: to look for garbage in it is a part of their time.
        found = without_collections(load, module)
        # Not in the middle of its own import, which other threads are to wait for.
        if not getattr(found.__spec__, "_initializing", False):
            _imported[module] = found
    finally:
        for lock in taken:
            lock.release()
    return found


_MACHINERY = "<frozen importlib._bootstrap>"  # where Python has what imports


def _is_importing() -> bool:
    """Whether this thread is in the middle of an import, and so has a lock of Python's."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == _MACHINERY:
            return True
        frame = frame.f_back
    return False


def _alone(module: str) -> ModuleType:
    # Who has it with its package waits here for another thread that is importing it.
    loaded = None if module in sys.modules else _loaded_alone(module)
    return import_module(module) if loaded is None else loaded


def _loaded_alone(module: str) -> ModuleType | None:
    outermost, *inner, _ = module.split(".")
    folders = [os.path.join(path, *inner) for path in import_module(outermost).__path__]
    spec = PathFinder.find_spec(module, folders)
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return None
    try:
        loaded = module_from_spec(spec)
        spec.loader.exec_module(loaded)
    except ImportError:  # it wants something of its package first
        return None
    finally:
        # Who imports it by name gets it with its package around it.
        sys.modules.pop(module, None)
    return loaded


def on_first_use(module: str, name: str) -> Callable[..., Any]:
    """`name` of `module`, to be called; the import waits for the first call.

    >>> square_root = on_first_use("math", "sqrt")
    >>> square_root(9)
    3.0
    """
    found: Callable[..., Any] | None = None

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_now(module), name)
        return found(*arguments, **named)

    return call


class TableOnFirstUse(Mapping[K, V]):
    """The table `name` of `module`; the import waits for who first looks into it.

    >>> spaces = TableOnFirstUse("html.entities", "name2codepoint")
    >>> spaces["nbsp"]
    160
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def _table(self) -> Mapping[K, V]:
        found: Mapping[K, V] = getattr(import_now(self._module), self._name)
        return found

    def __getitem__(self, key: K) -> V:
        return self._table()[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self._table())
