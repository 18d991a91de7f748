"""Whether, where and how much is kept on disk: for the whole process.

None of it changes what a program computes, so none of it is part of any key but `metadata_in_key`
and `pointers_in_key`, which say what keys are made of.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from xla_backend.process.values import Value

DEFAULT_LIMIT = 1 << 30
_INSTALLED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "installed")


class CacheSettings(Value):
    """Settings of the persistent cache.

    Fields:
      enabled: whether anything is read or kept.
      directory: where; None: $PYJAX_CACHE_DIR, else the user's cache directory.
      limit: bytes of all entries, the ones used longest ago go first; None for no limit.
      min_compile_seconds, min_entry_bytes: smaller and quicker programs are not kept.
      raise_errors: entries and directories that cannot be used raise, instead of a warning.
      metadata_in_key: programs from other source lines are other programs.
      pointers_in_key: addresses in calls of custom partitioning are part of a program.
      internal: what the compiler keeps for itself, such as its library routines, is kept, too.
    """

    enabled: bool = True
    directory: str | None = None
    limit: int | None = DEFAULT_LIMIT
    min_compile_seconds: float = 0.0
    min_entry_bytes: int = 0
    raise_errors: bool = False
    metadata_in_key: bool = False
    pointers_in_key: bool = True
    internal: bool = True


_settings = CacheSettings()
# Of threads that do what was asked for under other settings, by thread.
_of_threads: dict[int, CacheSettings] = {}


def cache_settings() -> CacheSettings:
    """The settings in force."""
    return _of_threads.get(threading.get_ident(), _settings) if _of_threads else _settings


def settings_to_keep() -> CacheSettings:
    """The settings in force, which say the directory, too, if somebody has named one; wherever the
    process goes."""
    chosen = chosen_directory() or None
    if chosen and not os.path.isabs(chosen):
        with suppress(FileNotFoundError, RuntimeError):  # it cannot be used, which is said then
            chosen = str(cache_directory())
    return cache_settings()._replace(directory=chosen)


@contextmanager
def under_settings(settings: CacheSettings) -> Iterator[None]:
    """Other settings are in force on this thread. For threads on which no signal handler runs."""
    me = threading.get_ident()
    _of_threads[me] = settings
    try:
        yield
    finally:
        _of_threads.pop(me, None)


# A child has none of these threads, and may have others of their numbers.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of_threads.clear)


def change_cache_settings(**changes: Any) -> None:
    """Replace some settings.

    >>> change_cache_settings(raise_errors=False)
    """
    global _settings
    _settings = _settings._replace(**changes)


def chosen_directory() -> str:
    """The directory that somebody named, or ""."""
    return cache_settings().directory or os.environ.get("PYJAX_CACHE_DIR", "")


def cache_directory() -> Path | None:
    """Where entries are kept; None if this user has no place for them.

    Raises:
      FileNotFoundError: it is relative to a working directory that was deleted.
      RuntimeError: it begins with `~`, and that user has no home.
    """
    chosen = chosen_directory()
    if chosen:
        return _place(chosen) if os.path.isabs(chosen) else Path(chosen).expanduser().absolute()
    base = _users_directory()
    return None if base is None else _place(os.path.join(base, "pyjax"))


@cache
def _place(path: str) -> Path:
    """A path as an object: making one takes longer than asking for the directory's state."""
    return Path(path)


def installed_directory() -> str | None:
    """Where entries are that come with the installation; None for none."""
    return os.environ.get("PYJAX_INSTALLED_DIR", _INSTALLED) or None


def _users_directory() -> str | None:
    """Where programs of this user keep what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):  # the XDG specification: ignore relative paths
        return base
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return local or None
    home = os.path.expanduser("~")  # of the user database where HOME is unset
    if not os.path.isabs(home):
        return None
    return os.path.join(home, *(("Library", "Caches") if sys.platform == "darwin" else (".cache",)))
