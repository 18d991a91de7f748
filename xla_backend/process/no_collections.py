"""Work that makes many objects which stay, without looking for garbage among them meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def without_collections(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """`function(*args, **kwargs)`, during which the cycle collector does not start by itself.

    Not a context manager: a signal handler may interrupt the end of one.

    >>> import gc
    >>> without_collections(gc.isenabled), gc.isenabled()
    (False, True)
    """
    collecting = gc.isenabled()
    try:
        gc.disable()
        return function(*args, **kwargs)
    finally:
        if collecting:
            gc.enable()
