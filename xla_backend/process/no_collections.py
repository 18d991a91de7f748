"""Work that makes many objects which stay, without looking for garbage among them meanwhile."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from xla_backend.process.builds import is_free_threaded

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Without a global lock, generations are no lists that could be joined.
_HAS_LISTS = not is_free_threaded()
# So many objects at least are kept without a look at them before all garbage is looked for:
# programs make hundreds to some ten thousand, next to none of which are garbage (compiling ends the
# cycles that it makes). Where there are many objects that takes long, and is done when there are a
# quarter more, as Python does.
_MOST_UNSEEN = 1_000_000
# Python 3.12 starts with some hundred objects put away; whoever else does it puts away all there
# are, which are thousands.
_MOST_OF_PYTHON = 1_000
# So many new objects are looked at together where users' functions are traced: an equation is about
# 25 of them, and nearly all stay.
_FEW = 50_000
_limit = _MOST_UNSEEN
_unseen = 0
_is_left_alone = not _HAS_LISTS
# Threads that have switched the collector off, and the thresholds that others have changed: a child
# that is forked meanwhile has none of these threads.
_switched_off: set[int] = set()
# Threads whose work is nobody's: who switches the collector off on another thread must find it so.
_bystanders: set[int] = set()
_changed: dict[int, tuple[int, int, int]] = {}


def without_collections(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """`function(*args, **kwargs)`, during which the cycle collector does not start by itself. What
    has been made is old from then on: looking through it would find that it stays.

    Not a context manager: a signal handler may interrupt the end of one.

    >>> import gc
    >>> without_collections(gc.isenabled), gc.isenabled()
    (False, True)
    """
    collecting, me = gc.isenabled(), threading.get_ident()
    if me in _bystanders:
        return function(*args, **kwargs)
    try:
        if collecting:
            _switched_off.add(me)
        gc.disable()
        return function(*args, **kwargs)
    finally:
        if collecting:
            try:
                _make_old()
            finally:
                gc.enable()
                _switched_off.discard(me)


def leave_collector_alone() -> None:
    """From now on, `without_collections` on this thread does no more than call the function: the
    collector is that of the whole process, and others, who know nothing of this thread, may switch
    it meanwhile."""
    _bystanders.add(threading.get_ident())


def with_few_collections(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """`function(*args, **kwargs)`, during which the cycle collector starts seldom: for functions of
    users, which may make garbage. What has been made is old from then on.

    >>> import gc
    >>> with_few_collections(gc.get_threshold)[0] > gc.get_threshold()[0]
    True
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _FEW or not gc.isenabled():  # another one is running, perhaps
        return function(*args, **kwargs)
    few, me = (_FEW, *before[1:]), threading.get_ident()
    try:
        _changed[me] = before
        gc.set_threshold(*few)
        return function(*args, **kwargs)
    finally:
        ours = True  # else the function has chosen others
        try:
            ours = gc.get_threshold() == few
            if ours:
                _make_old()
        finally:
            if ours:
                gc.set_threshold(*before)
            _changed.pop(me, None)


def _after_fork_in_child() -> None:
    """End what threads were doing that are not here."""
    me = threading.get_ident()
    if me not in _switched_off and _switched_off:
        gc.enable()
    for thread, before in _changed.items():
        if thread != me and gc.get_threshold() == (_FEW, *before[1:]):
            gc.set_threshold(*before)
    _switched_off.intersection_update({me})
    _bystanders.intersection_update({me})
    for thread in _changed.keys() - {me}:
        del _changed[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _make_old() -> None:
    """Put all objects among the old ones, which takes no look at them. The collector does not count
    these, so that here it is seen to that all garbage is looked for now and then."""
    global _limit, _unseen, _is_left_alone
    # What somebody else has put away stays there. To count it is a walk over it: once is enough.
    _is_left_alone = _is_left_alone or gc.get_freeze_count() > _MOST_OF_PYTHON
    if _is_left_alone:
        return
    _unseen += gc.get_count()[0]
    looking = _unseen > _limit
    if looking:
        gc.collect()
    try:
        gc.freeze()
        if looking:
            _unseen, _limit = 0, max(_MOST_UNSEEN, gc.get_freeze_count() // 4)
    finally:
        gc.unfreeze()
