"""Whether, where and how much is kept on disk: for the whole process.

None of it changes what a program computes, so none of it is part of any key but `metadata_in_key`
and `pointers_in_key`, which say what keys are made of.
"""

from __future__ import annotations

import os
import sys
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


def cache_settings() -> CacheSettings:
    """The settings in force."""
    return _settings


def change_cache_settings(**changes: Any) -> None:
    """Replace some settings.

    >>> change_cache_settings(raise_errors=False)
    """
    global _settings
    _settings = _settings._replace(**changes)


def chosen_directory() -> str:
    """The directory that somebody named, or ""."""
    return _settings.directory or os.environ.get("PYJAX_CACHE_DIR", "")


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
