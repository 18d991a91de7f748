"""The passes that users registered. State only, so that caches of compiled programs can watch it
without loading the compiler; registering is `passes.registry.register_pass`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from xla_backend.process.values import Value

PassFactory = Callable[[], Any]


class UserPass(Value):
    """A pass that a user registered, and where it runs. Equal registrations are equal, so that
    they can be parts of cache keys.

    Fields:
      factory: makes the pass; its class, as a rule.
      name: of the pass.
      where: "after" or "before" the first pass called `anchor`, or at the end of the "phase"
        (nested pipeline) called `anchor`.
    """

    factory: PassFactory
    name: str
    where: str
    anchor: str

    def __enter__(self) -> UserPass:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_user_passes(tuple(p for p in _user_passes if p != self))


Listener = Callable[[tuple[UserPass, ...]], None]

_user_passes: tuple[UserPass, ...] = ()
_listeners: list[Listener] = []


def user_passes() -> tuple[UserPass, ...]:
    """The registered passes, oldest first."""
    return _user_passes


def set_user_passes(passes: tuple[UserPass, ...]) -> None:
    """Replace the registered passes and tell who listens."""
    global _user_passes
    before = _user_passes
    try:
        _user_passes = passes
        for listener in _listeners:
            listener(passes)
    except BaseException:  # a signal handler's: who listens must not believe what is not so
        _user_passes = before
        for listener in _listeners:
            listener(before)
        raise


def on_user_passes_change(listener: Listener) -> None:
    """Call `listener` with the registered passes now and after each change: a program compiled
    with other passes is another program."""
    _listeners.append(listener)
    listener(_user_passes)
