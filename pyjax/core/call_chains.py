"""Who called the user's code that an operation comes from.

An equation keeps a `Frame`: the innermost place of the user's code, and through `caller` the places
that led to it, up to the function that is being traced. Who called that one is not part of it, as
a traced function is used for all its calls: the chain goes on where its program is used
(`under_caller`), when it is replayed into another one and when it is lowered.

The frames of one activation of a function share their callers, and what is traced at the same
place of one activation shares the frame; so it costs an equation a look at the running frame, and a
walk outwards only where another function runs than for the equation before. Layer: core.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import ParamSpec, TypeVar

from pyjax.core.source_info import Frame, current_names, internal_files, is_internal_file

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Their callers differ from one time that they run to the next.
_SUSPENDABLE = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators
_numbers = itertools.count(1)


class _Activation:
    """A running call of a user's function. It refers to the interpreter's frame, which so is the
    same object as long as this is known."""

    __slots__ = ("caller", "frame", "outer", "places")

    def __init__(self, frame: FrameType, outer: _Activation | None, scope: int) -> None:
        self.frame = frame
        self.outer = outer
        self.places: dict[object, Frame] = {}
        self.caller = None if outer is None else outer.place(outer.frame.f_lasti, (), scope)

    def place(self, lasti: int, names: tuple[str, ...], scope: int) -> Frame:
        key = (lasti, names) if names else lasti
        found = self.places.get(key)
        if found is None:
            found = Frame(self.frame.f_code, lasti, names, self.caller, scope)
            self.places[key] = found
        return found


class TracedCode:
    """What is known of the code that a trace runs.

    Args:
      boundary: the frame of the interpreter at which chains of callers end.
      follow: whether frames know their callers.
    """

    __slots__ = ("boundary", "follow", "joined", "known", "latest", "number", "outside")

    def __init__(self, boundary: FrameType, follow: bool) -> None:
        self.follow = follow
        self.number = next(_numbers)
        self.boundary: FrameType | None = boundary
        self.latest: _Activation | None = None
        self.known: dict[int, _Activation] = {}  # those of `latest` and outwards, by id of frame
        self.joined: dict[tuple[Frame, Frame | None], Frame] = {}
        # The place outside of the boundary, which stays while this runs, by names of scopes.
        self.outside: dict[tuple[str, ...], Frame | None] = {}

    def forget(self) -> None:
        """Let go of the interpreter's frames: they keep the values of their variables."""
        self.latest = None
        self.known.clear()

    def activation(self, frame: FrameType) -> _Activation:
        """Of a frame that is not the latest one."""
        path: list[FrameType] = []
        outer: FrameType | None = frame
        found: _Activation | None = None
        while outer is not None and outer is not self.boundary:
            if not _is_internal(outer):
                found = self.known.get(id(outer))
                if found is not None and not outer.f_code.co_flags & _SUSPENDABLE:
                    break
                found = None
                path.append(outer)
                if not self.follow:
                    break
            outer = outer.f_back
        inner = self.latest
        while inner is not found and inner is not None:  # these have returned
            self.known.pop(id(inner.frame), None)
            inner = inner.outer
        for running in reversed(path):
            found = self.known[id(running)] = _Activation(running, found, self.number)
        assert found is not None
        self.latest = found
        if frame.f_code.co_flags & _SUSPENDABLE:
            del self.known[id(frame)]
            self.latest = found.outer
        return found


class _Running(threading.local):
    # What is being traced by this thread, the innermost.
    code: TracedCode | None = None


class _Override(threading.local):
    # The frame that operations get while a stored program is replayed.
    frame: Frame | None = None


_running = _Running()
override = _Override()


def in_traced_code(follow: bool, fun: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """`fun(*args)`, whose frames are those of a trace: chains of callers end here.

    Args:
      follow: whether frames know their callers.
    """
    code = TracedCode(sys._getframe(), follow)
    outer, replaying = _running.code, override.frame
    try:
        _running.code = code
        if replaying is not None and not replaying.outside:
            override.frame = replaying.updated(caller=None, outside=True)
        return fun(*args, **kwargs)
    finally:
        _running.code = outer
        override.frame = replaying
        code.boundary = None
        code.forget()


def _is_internal(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    hidden = internal_files.get(name)
    if hidden is None:
        hidden = internal_files[name] = is_internal_file(name)
    return hidden


def current_frame() -> Frame | None:
    """The innermost frame outside the library, with its callers in what is being traced; under
    1 us."""
    if override.frame is not None:
        return override.frame
    code = _running.code
    boundary = None if code is None else code.boundary
    outside = code is None
    names = current_names()
    frame: FrameType | None = sys._getframe(2)  # who asks is in the library
    internal = internal_files
    while frame is not None:
        try:
            hidden = internal[frame.f_code.co_filename]
        except KeyError:
            hidden = _is_internal(frame)
        if not hidden:
            break
        if frame is boundary and code is not None:
            if names in code.outside:
                return code.outside[names]
            outside = True
        frame = frame.f_back
    if code is None:
        return None if frame is None else Frame(frame.f_code, frame.f_lasti, names)
    if outside:
        place = None
        if frame is not None:
            place = Frame(frame.f_code, frame.f_lasti, names, outside=True)
        code.outside[names] = place
        return place
    if frame is None:
        return None
    latest = code.latest
    if latest is None or latest.frame is not frame:
        latest = code.activation(frame)
    lasti = frame.f_lasti
    return latest.places.get((lasti, names) if names else lasti) or latest.place(
        lasti, names, code.number
    )


def forget_running() -> None:
    """Let go of the variables of functions that have returned."""
    code = _running.code
    if code is not None:
        code.forget()


def running_chain() -> Frame | None:
    """The innermost frame outside the library with all its callers, whatever is being traced."""
    places: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_internal(frame):
            places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    chain: Frame | None = None
    for code, lasti in reversed(places):
        chain = Frame(code, lasti, (), chain)
    return chain


def under_caller(
    place: Frame | None,
    caller: Frame | None,
    known: dict[tuple[Frame, Frame | None], Frame],
    scope: int = 0,
) -> Frame | None:
    """The place of an operation of a program that is used at `caller`: the chains joined.

    Args:
      known: the results so far, so that what shared its callers does so again.
    """
    if place is None or place.outside:
        return caller or place
    found = known.get((place, caller))
    if found is not None:
        return found
    path: list[Frame] = []
    node: Frame | None = place
    while node is not None:
        found = known.get((node, caller))
        if found is not None:
            break
        path.append(node)
        node = node.caller
    below = found or caller
    for node in reversed(path):
        below = Frame(
            node.code,
            node.lasti,
            node.names,
            below,
            scope,
            False,
            node.rules,
            node.lanes,
            node.attributes,
        )
        known[node, caller] = below
    return below


class Replay:
    """Gives the operations of a program that is replayed under the current trace their places."""

    __slots__ = ("_caller", "_code", "_outer")

    def __init__(self) -> None:
        self._code = _running.code
        self._outer = override.frame
        self._caller = self._outer
        if self._code is not None:
            here = current_frame()
            self._caller = None if here is None or here.outside else here

    def at(self, place: Frame | None) -> Frame | None:
        """What `override.frame` is to be for an equation that was traced at `place`."""
        code = self._code
        if place is None or code is None:
            return place or self._outer
        if place.scope == code.number:
            return place
        if place.outside:
            caller = self._caller or place
            if not place.attributes:
                return caller
            return caller.updated(attributes=place.attributes)  # they are not the caller's
        return code.joined.get((place, self._caller)) or under_caller(
            place, self._caller, code.joined, code.number
        )
