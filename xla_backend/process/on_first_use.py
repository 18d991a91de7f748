"""Functions whose module is imported when they are called first.

Imports stand at the top of a file, but for two kinds of rooms: optional ones, and those that a
process may never need, such as the compiler in a process whose programs are all on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


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
            found = getattr(import_module(module), name)
        return found(*arguments, **named)

    return call
