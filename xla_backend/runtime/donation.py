"""Whether memory that an argument gives up is nobody else's: a view's, an export's, a call's in
another thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from xla_backend.runtime.buffer import Buffer


def references(buffers: Sequence[Any], number: int) -> int:
    """How many references there are to one of the buffers, as the interpreter counts."""
    return sys.getrefcount(buffers[number])


# The count if nothing but a list refers to a buffer; it depends on the interpreter.
LIST_ONLY = references([Buffer()], 0)
_is_gil_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)


def counts_are_exact() -> bool:
    """Without a global lock, another thread may be about to take a reference."""
    return _is_gil_enabled is None or _is_gil_enabled()
