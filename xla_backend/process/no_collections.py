"""Work that makes many objects which stay, without looking for garbage among them meanwhile."""

from __future__ import annotations

import gc
import sysconfig
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Without a global lock, generations are no lists that could be joined.
_HAS_LISTS = not sysconfig.get_config_var("Py_GIL_DISABLED")
# So many objects are kept without a look at them before all garbage is looked for: programs make
# hundreds to some ten thousand.
_MOST_UNSEEN = 300_000
_unseen = 0


def without_collections(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """`function(*args, **kwargs)`, during which the cycle collector does not start by itself. What
    has been made is old from then on: looking through it would find that it stays.

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
            try:
                _make_old()
            finally:
                gc.enable()


def _make_old() -> None:
    """Put all objects among the old ones, which takes no look at them. The collector does not count
    these, so that here it is seen to that all garbage is looked for now and then."""
    global _unseen
    if not _HAS_LISTS or gc.get_freeze_count():  # what somebody else has put away stays there
        return
    _unseen += gc.get_count()[0]
    if _unseen > _MOST_UNSEEN:
        _unseen = 0
        gc.collect()
        return
    gc.freeze()
    gc.unfreeze()
