"""Functions whose module is imported when they are called first.

Imports stand at the top of a file, but for two kinds of rooms: optional ones, and those that a
process may never need, such as the compiler in a process whose programs are all on disk.

A fork waits for such imports: a child that is forked in the middle of one would wait for ever where
it needs that module. They are not for use while a module is imported: who holds Python's lock of
that module would wait here for another thread, and that one for him.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

from xla_backend.process.forks import IMPORT, check_forked, take_for_forks

_importing = RLock()
take_for_forks(_importing, IMPORT)


# What came so, whole: it is there also for threads that run while another one imports.
_imported: dict[str, ModuleType] = {}


def import_now(module: str) -> ModuleType:
    """A module that is needed now for the first time."""
    found = _imported.get(module)
    if found is None:
        check_forked()
        with _importing:
            found = _imported[module] = import_module(module)
    return found


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
