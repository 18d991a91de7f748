"""The option registry: one generic Option, the sources a value may come from, and cache keys.

Knows options, not what they mean. Standard library only.

Precedence: context manager > `config.update` > flag > environment > file > default. Each source
keeps its own value, so that leaving a context or clearing a flag uncovers what lay below.
"""

from __future__ import annotations

import enum
import functools
import linecache
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable
from contextlib import ContextDecorator, ExitStack
from contextvars import ContextVar
from importlib import import_module
from types import FrameType
from typing import Any, TypeVar

from .blocks import Leaving, take_out_of_variables
from .kinds import AbstractKind, Object

Result = TypeVar("Result")
_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Affects(enum.Enum):
    """What changes when an option changes; cache keys are built from it."""

    NOTHING = "nothing"
    TRACE = "trace"
    COMPILE = "compile"
    # Programs made in a block that sets it; the value of the process acts when they run.
    COMPILE_IN_BLOCKS = "compile, in a context manager"


class Scope(enum.Enum):
    """Who may override an option: any thread, or task of asyncio, for itself (context manager), or
    only the process."""

    THREAD = "thread"
    GLOBAL = "global"


class Source(enum.IntEnum):
    """Where a value came from, weakest first."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3
    UPDATE = 4
    CONTEXT = 5


# The value in force of an option by its full name; None while that is not declared yet.
Values = Callable[[str], Any]


class ContextKey:
    """The values of all options that affect tracing or compilation, as a part of cache keys.

    Interned: equal values are one object, which compares and hashes by identity.
    """

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __repr__(self) -> str:
        usual = _parts(lambda option: option.default)
        changed = [f"{o.name}={v!r}" for o, v, u in zip(_keyed, self.values, usual) if v != u]
        return f"ContextKey({', '.join(changed)})"

    def of_tracing(self) -> tuple[tuple[str, Any], ...]:
        """Names and values of those that tracing and lowering depend on, and that are not at their
        defaults."""
        return tuple(
            [
                (option.name, value)
                for option, value in zip(_keyed, self.values)
                if option.affects is Affects.TRACE and value != option.default
            ]
        )

    def changes_from(self, before: ContextKey) -> list[tuple[str, Any, Any]]:
        """What differs: names of options with the value before and the one here. What programs
        depend on besides options is called "the compile environment"."""
        names = (*[o.name for o in _keyed], "the compile environment")
        pairs = zip(names, before.values, self.values)
        return [(name, old, new) for name, old, new in pairs if old != new]


# The blocks that are open in this context (a thread, or a task of asyncio), the inner ones first.
_opened: ContextVar[tuple[Override, ...]] = ContextVar("options", default=())
_blocks = _opened.get
_options: dict[str, Option] = {}
_keyed: list[Option] = []  # options that tracing or compilation depend on, as declared
# A key lives as long as a cache holds it, or a thread is in its context. The references to those
# that are gone go when a new one comes: a function that is called at that moment, as that of a
# WeakValueDictionary, may be interrupted, and Python forgets the interrupt.
_context_keys: dict[tuple[Any, ...], weakref.ref[ContextKey]] = {}
# The key where no block is open; one item, which native code reads, too.
_global_key = [ContextKey(())]
_environment: Hashable = ()  # what programs depend on besides options
_generation = 0
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A forked child gets whole tables and a free lock, whatever other threads were doing.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


class _OfProcess:
    """What sets an option where no block does."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Option:
    """One configuration option; `.value` is the value in force in this thread, or task of asyncio.

    The library reads it with one call of C, `option.here()[0].value`, in half of the time.

    Attributes:
      here: what sets it here, the strongest first: blocks, the inner ones before the outer ones,
        and the process. Each has a `value`.
      name: the full public name, `jax_enable_x64`.
      kind, default, affects, scope, help: as declared.
      no_effect: None if the option acts; else why setting it changes nothing (shown once as a
        UserWarning).
      waits_for: what an option that does nothing yet waits for; None if it acts, or never will.
      ours: the reference has no such option.
      at_start: it is read once, at the first use of a device.
      in_key: what keys have of it, from the values of options; None: its value. An option that
        acts only where another is set, or has two values that mean the same, says so here.
      interactions: what it does together with other options, in whole sentences.
      since: the version that first had it.

    >>> with pyjax.enable_x64(True):
    ...     jnp.arange(2).dtype.name
    'int64'
    """

    def __init__(
        self,
        name: str,
        kind: AbstractKind,
        default: Any,
        affects: Affects,
        scope: Scope,
        help: str,
        no_effect: str | None,
        ours: bool = False,
        at_start: bool = False,
        interactions: str = "",
        since: str = "0.1.0",
        in_key: Callable[[Values], Any] | None = None,
        waits_for: str | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.affects = affects
        self.scope = scope
        self.help = help
        self.no_effect = no_effect
        self.ours = ours
        self.at_start = at_start
        self.interactions = interactions
        self.since = since
        self.in_key = in_key
        self.waits_for = waits_for
        self._layers: dict[Source, tuple[Any, str]] = {Source.DEFAULT: (default, "default")}
        self._of_process = _OfProcess(default)
        self._setting: ContextVar[tuple[Any, ...]] = ContextVar(name, default=(self._of_process,))
        self.here = self._setting.get
        self._source = Source.DEFAULT
        self._listeners: list[Callable[[Any], None]] = []
        self._block_listeners: list[Callable[[Override], None]] = []
        self._locked: str | None = None
        self._warned = False

    # -- reading -------------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        """The value in force in this thread, or task of asyncio."""
        return self.here()[0].value

    @property
    def is_set(self) -> bool:
        """Whether somebody set it for the whole process, if only to its default."""
        return self._source is not Source.DEFAULT

    @property
    def keyed(self) -> bool:
        """Whether traces and programs depend on it. One that does nothing is in no key: to set it
        makes nothing anew."""
        return self.affects is not Affects.NOTHING and self.acts

    @property
    def acts(self) -> bool:
        """Whether setting it changes anything."""
        return self.no_effect is None and self.waits_for is None

    @property
    def process_value(self) -> Any:
        """The value in force where no block sets the option."""
        return self._of_process.value

    @property
    def block_value(self) -> Any:
        """The value that the innermost block here gives the option; None if no block does."""
        innermost = self.here()[0]
        return None if innermost is self._of_process else innermost.value

    @property
    def _key_value(self) -> Any:
        """What keys have of it outside of blocks."""
        return None if self.affects is Affects.COMPILE_IN_BLOCKS else self.process_value

    def __bool__(self) -> bool:
        raise TypeError(
            f"the option {self.name} is not its value: write {short_name(self.name)}.value "
            f"(or pyjax.config.{self.name})"
        )

    def explain(self) -> str:
        """One line: the value in force and who set it."""
        return f"{self.name} = {self.value!r} ({self.set_by})"

    @property
    def set_by(self) -> str:
        """Where the value in force comes from."""
        if self.here()[0] is not self._of_process:
            return "context manager in this thread"
        return self._layers[self._source][1]

    # -- writing -------------------------------------------------------------------------------

    def set(self, value: Any, source: Source, origin: str) -> None:
        """Set this source's value for the whole process.

        Raises:
          ValueError, TypeError: bad value; names option, value, what is accepted and `origin`.
          RuntimeError: the option can no longer change.
        """
        with _lock:
            value = self._checked(value, origin)
            if self._locked is not None and value != self.process_value:
                raise RuntimeError(
                    f"cannot set {self.name} to {value!r} ({origin}): {self._locked} "
                    f"Set it before that, for example through the environment variable "
                    f"{environment_names(self.name)[0]}."
                )
            self._take_layers({**self._layers, source: (value, origin)})

    def clear(self, source: Source) -> None:
        """Forget the value of one source."""
        with _lock:
            if source is not Source.DEFAULT and source in self._layers:
                self._take_layers({s: v for s, v in self._layers.items() if s is not source})

    def _take_layers(self, layers: dict[Source, tuple[Any, str]]) -> None:
        """Change the values of all sources, with all that follows, or, if a listener or a signal
        handler raises, nothing."""
        before = self._layers
        try:
            self._layers = layers
            self._refresh()
        except BaseException:
            self._layers = before
            self._refresh()
            raise

    def parsed(self, text: str, origin: str) -> Any:
        """The value of a text.

        Raises:
          ValueError: bad text; names option, text, what is accepted and `origin`.
        """
        try:
            return self.kind.parse(text)
        except ValueError as error:
            raise ValueError(
                f"bad value {text!r} for option {self.name} ({origin}): {error}"
                f"{_user_line()}\n  {self.help}"
            ) from None

    def _checked(self, value: Any, origin: str, stacklevel: int = 4) -> Any:
        try:
            checked = self.kind.check(value)
        except (ValueError, TypeError) as error:
            raise type(error)(
                f"bad value {value!r} for option {self.name} ({origin}): {error}"
                f"{_user_line()}\n  {self.help}"
            ) from None
        if checked != self.default and not self.acts and not self._warned:
            self._warned = True
            why = f": {self.no_effect}" if self.no_effect else f" yet: {self.waits_for}"
            warnings.warn(f"{self.name} is set but has no effect{why}", UserWarning, stacklevel)
        return checked

    def _refresh(self) -> None:
        of_process = self._of_process
        old = of_process.value, self._source
        self._source = max(self._layers)
        of_process.value = value = self._layers[self._source][0]
        if self.keyed:
            _refresh_keys()
        if old != (value, self._source):
            for listener in self._listeners:
                listener(value)

    def __call__(self, new_val: Any = True) -> Override:
        """Context manager: `new_val` is in force in this thread, or task of asyncio, until the
        block ends. Tasks that start inside keep it."""
        if self.scope is not Scope.THREAD:
            raise TypeError(
                f"{self.name} holds for the whole process and has no context manager; "
                f"use pyjax.config.update({self.name!r}, ...)"
            )
        block = Override(self, self._checked(new_val, "context manager", stacklevel=3))
        for listener in self._block_listeners:
            listener(block)
        return block

    def lock(self, reason: str | None) -> None:
        """Refuse later changes, for options that are read once at start-up; None lifts it."""
        self._locked = reason

    def on_change(self, listener: Callable[[Any], None]) -> None:
        """Call `listener(value)` now and whenever the process-wide value changes, or the
        source that it comes from."""
        self._listeners.append(listener)
        listener(self.process_value)

    def load_when_set(self, module: str) -> None:
        """Import a module as soon as somebody sets the option, or made a block that does; it
        listens itself then."""

        def load(what: Any) -> None:
            if self.is_set or isinstance(what, Override):
                import_module(module)

        self.on_change(load)
        self.on_block(load)

    def on_block(self, listener: Callable[[Override], None]) -> None:
        """Call `listener(block)` whenever a block is made that gives the option a value in its
        thread, before it is entered."""
        self._block_listeners.append(listener)


class Override(ContextDecorator):
    """Context manager: an option has a value in this context until the block ends."""

    def __init__(self, option: Option, value: Any) -> None:
        self._option = option
        self.value = value
        # The cache key inside, if it was asked for: for which blocks around this one, and from
        # which generation of the process-wide values.
        self._key: tuple[tuple[Override, ...], int, ContextKey] | None = None

    def __enter__(self) -> None:
        option = self._option
        blocks, here = _blocks(), option.here()
        try:
            _opened.set((self, *blocks))
            option._setting.set((self, *here))
        except BaseException:  # a signal handler's
            _opened.set(blocks)
            option._setting.set(here)
            raise

    __exit__ = Leaving(
        lambda manager: take_out_of_variables((_opened, manager._option._setting), manager)
    )


def in_force(*group: Option) -> Any:
    """The value of the first of several options that say the same, the special one before the
    general: what the innermost block around this sets any of them to, else the value of the first
    that is not at its default."""
    for block in _blocks():
        if block._option in group:
            return block.value
    for option in group:
        if option.process_value != option.default:
            return option.process_value
    return group[-1].default


def deviating(group: Iterable[Option], usual: tuple[Any, ...]) -> dict[str | int, object]:
    """A table that is empty while every option of a group has one of its usual values, in whatever
    thread: a look at it is all that a hot path can afford. It has options by name, and blocks that
    set one, entered or not, by number.
    """
    found: dict[str | int, object] = {}

    def changed(name: str, value: Any) -> None:
        if value in usual:
            found.pop(name, None)
        else:
            found[name] = value

    def block_made(block: Override) -> None:
        number = id(block)
        # Called as pop(number, reference) when the block goes. A function in Python might be
        # interrupted there.
        found[number] = weakref.ref(block, functools.partial(found.pop, number))

    for option in group:
        option.on_change(functools.partial(changed, option.name))
        option.on_block(block_made)
    return found


def short_name(name: str) -> str:
    return name.removeprefix("jax_")


def environment_names(name: str) -> tuple[str, ...]:
    """Environment variables of an option, the first found wins: PYJAX_X, then JAX_X."""
    return (f"PYJAX_{short_name(name).upper()}", name.upper())


def option(
    name: str,
    *,
    kind: AbstractKind,
    default: Any,
    affects: Affects,
    scope: Scope,
    help: str,
    no_effect: str | None = None,
    ours: bool = False,
    at_start: bool = False,
    interactions: str = "",
    since: str = "0.1.0",
    in_key: Callable[[Values], Any] | None = None,
    waits_for: str | None = None,
) -> Option:
    """Declare an option and read its environment variables."""
    if name in _options:
        raise ValueError(f"option {name} is declared twice")
    new = Option(
        name,
        kind,
        default,
        affects,
        scope,
        help,
        no_effect,
        ours,
        at_start,
        interactions,
        since,
        in_key,
        waits_for,
    )
    _options[name] = new
    if new.keyed:
        _keyed.append(new)
    for variable in environment_names(name):
        text = os.environ.get(variable)
        if text is not None:
            origin = f"environment variable {variable}={text}"
            new.set(new.parsed(text, origin), Source.ENVIRONMENT, origin)
            break
    new._refresh()
    return new


def unlisted_option(name: str, default: Any) -> Option:
    """An option that is no row of any list and has no flag: any hashable value that blocks set and
    that tracing depends on."""
    new = Option(name, Object("a hashable value"), default, Affects.TRACE, Scope.THREAD, name, None)
    with _lock:
        _keyed.append(new)
        new._refresh()
    return new


def find(name: str) -> Option:
    """The option called `name`, with or without a `jax_` or `pyjax_` prefix.

    Raises:
      AttributeError: no such option; the message has the closest match.
    """
    bare = name.removeprefix("pyjax_").removeprefix("jax_")
    for candidate in (name, f"jax_{bare}", bare):
        if candidate in _options:
            return _options[candidate]
    raise AttributeError(
        f"unrecognized config option: {name!r}.{suggestion(bare)}{_user_line()}\n"
        "  `python -m pyjax config` lists all options."
    )


def _user_line() -> str:
    """The line that called into this package, as a line of a message."""
    frame: FrameType | None = sys._getframe(1)
    package = sys.modules.get("pyjax")
    hidden = (
        _FOLDER,
        "<frozen ",
        *(f"{path}{os.sep}" for path in getattr(package, "__path__", ())),
    )
    while frame is not None and frame.f_code.co_filename.startswith(hidden):
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    text = linecache.getline(code.co_filename, frame.f_lineno).strip()
    place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
    return f"\n  {place}:   {text}"


def suggestion(bare: str) -> str:
    """The end of a message about a name (without prefix) of no option; empty if none is close."""
    close = import_module("difflib").get_close_matches(f"jax_{bare}", _options, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def all_options() -> dict[str, Option]:
    """Every option by its full name, in order of declaration."""
    return dict(_options)


def _parts(value_of: Callable[[Option], Any]) -> list[Any]:
    """What keys have of each option, in order of declaration."""

    def named(name: str) -> Any:
        option = _options.get(name)
        return None if option is None else value_of(option)

    return [value_of(o) if o.in_key is None else o.in_key(named) for o in _keyed]


def _intern(values: tuple[Any, ...]) -> ContextKey:
    # Without a lock: a signal handler may need a key while this thread holds one.
    reference = _context_keys.get(values)
    found = None if reference is None else reference()
    if found is not None:
        return found
    for old, gone in list(_context_keys.items()):
        if gone() is None:
            _remove_key(old, gone)
    new = ContextKey(values)
    while True:
        reference = _context_keys.setdefault(values, weakref.ref(new))
        found = reference()
        if found is not None:
            return found
        _remove_key(values, reference)


def _remove_key(values: tuple[Any, ...], gone: weakref.ref[ContextKey]) -> None:
    # Hashing values may be byte code, within which other threads go on.
    if _context_keys.get(values) is gone:
        removed = _context_keys.pop(values, None)
        if removed is not None and removed is not gone:
            _context_keys.setdefault(values, removed)


def trace_context() -> ContextKey:
    """What the options in force here say about tracing and compilation: part of every cache key."""
    opened = _blocks()
    if not opened:
        return _global_key[0]
    block = opened[0]
    outer = opened[1:]
    known = block._key
    if known is not None and known[1] == _generation and known[0] == outer:
        return known[2]
    generation = _generation
    values = {b._option: b.value for b in reversed(opened)}
    key = _intern((*_parts(lambda o: values.get(o, o._key_value)), _environment))
    block._key = outer, generation, key
    return key


def under_key(key: ContextKey, function: Callable[[], Result]) -> Result:
    """`function()` with the options as they were where `trace_context` gave this key, as far as
    tracing and lowering depend on them."""
    now = trace_context()
    if now is key:
        return function()
    with ExitStack() as blocks:
        for option, value, here in zip(_keyed, key.values, now.values):
            if option.affects is Affects.TRACE and value != here:
                blocks.enter_context(Override(option, value))
        return function()


def key_outside_blocks() -> tuple[ContextVar[tuple[Override, ...]], list[ContextKey]]:
    """For native code, what `trace_context` looks at: the open blocks, and a list with the key that
    holds where there are none."""
    return _opened, _global_key


def forget_keys(block: Override) -> None:
    """After the value of a block has changed: what keys say inside of it, in this context."""
    for inside in _blocks():
        inside._key = None
        if inside is block:
            return
    block._key = None


def set_compile_environment(value: Hashable) -> None:
    """Note what compiled programs depend on besides options; it becomes part of every cache key."""
    global _environment
    with _lock:
        before = _environment
        try:
            _environment = value
            _refresh_keys()
        except BaseException:  # a signal handler's
            _environment = before
            _refresh_keys()
            raise


def _refresh_keys() -> None:
    global _generation
    while True:
        _generation += 1
        generation = _generation
        key = _intern((*_parts(lambda option: option._key_value), _environment))
        # A signal handler may have changed an option meanwhile.
        if generation == _generation:
            _global_key[0] = key
            return
