"""Options from files: `pyjax.toml`, or the table `[tool.pyjax]` of `pyproject.toml`.

The nearest one is read, from the working directory upwards, once, when the package is imported; it
stands one step above the defaults. Its keys are options in any spelling:

    # pyjax.toml
    enable_x64 = true
    jax_log_compiles = true
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator
from typing import Any

from .registry import Source, find

_OWN, _PROJECT = "pyjax.toml", "pyproject.toml"
_MARK = b"tool.pyjax"  # in each project file that has the table as people write it
_LARGEST = 1 << 20


def apply_files() -> None:
    """Take the options of the nearest file.

    Raises:
      ValueError, TypeError: a bad file, key or value; names file and key.
    """
    for path in _candidates():
        data = _read(path)
        if data is None or (path.endswith(_PROJECT) and _MARK not in data):
            continue
        settings = _settings(path, data)
        if settings is not None:
            _set(path, settings)
            return


def _candidates() -> Iterator[str]:
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it was deleted: nothing is above it
        return
    while True:
        yield os.path.join(folder, _OWN)
        yield os.path.join(folder, _PROJECT)
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _read(path: str) -> bytes | None:
    """What is in a regular file of this user; nobody else decides what a program does."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST:
        problem = f"it is no regular file of at most {_LARGEST} bytes"
    elif hasattr(os, "geteuid") and facts.st_uid != os.geteuid():
        problem = f"user {facts.st_uid} owns it, not the user of this process"
    else:
        try:
            with open(path, "rb", opener=_without_waiting) as file:
                if os.path.samestat(os.fstat(file.fileno()), facts):
                    return file.read(_LARGEST)
                problem = "it was exchanged while it was looked at"
        except OSError as error:
            problem = str(error)
    if path.endswith(_OWN):  # the other name is not ours: most such files say nothing to us
        warnings.warn(f"the options of {path} are not read: {problem}", UserWarning, stacklevel=2)
    return None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _settings(path: str, data: bytes) -> dict[str, Any] | None:
    """The options of a file by key; None if it has no table for them."""
    import tomllib  # which takes a hundred times as long as the search for a file

    try:
        content = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"cannot read the options of {path}: {error}") from None
    if path.endswith(_OWN):
        return content
    table = content.get("tool", {})
    return table.get("pyjax") if isinstance(table, dict) else None


def _set(path: str, settings: Any) -> None:
    if not isinstance(settings, dict):
        raise TypeError(f"{path}: tool.pyjax is {settings!r}; it must be a table of options")
    for key, value in settings.items():
        origin = f"{path}: {key}"
        try:
            option = find(key)
        except AttributeError as error:
            raise ValueError(f"{origin}: {error}") from None
        option.set(value, Source.FILE, origin)
