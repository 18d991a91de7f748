"""Which platforms exist: those that registered themselves, plugins found through entry points
among them. The runtime knows none by name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import NamedTuple

from xla_backend.runtime.client import AbstractClient

ENTRY_POINT_GROUP = "pyjax_plugins"


def _nothing() -> str:
    return ""


class Plugin(NamedTuple):
    """A platform that can be initialised. The highest priority becomes the default platform.

    Fields:
      automatic: whether it is tried when no platform is named; asked then.
      missing: what it lacks on this machine and how to get it; empty if nothing.
    """

    name: str
    priority: int
    factory: Callable[..., AbstractClient]
    automatic: Callable[[], bool]
    missing: Callable[[], str]


_plugins: dict[str, Plugin] = {}
_discovered = False


def register_plugin(
    name: str,
    factory: Callable[..., AbstractClient],
    priority: int = 400,
    *,
    automatic: bool | Callable[[], bool] = True,
    missing: Callable[[], str] = _nothing,
) -> None:
    """Add a platform; `factory(**options)` makes its client on first use. Unless `automatic`, which
    may be a function that is asked at the first use of a device, it must be asked for by name.
    `missing()` says what it lacks on this machine, if anything, to who asks for it in vain.

    Raises:
      ValueError: the name is taken.
    """
    if name in _plugins:
        raise ValueError(f"platform {name!r} is registered already")
    asked = automatic if callable(automatic) else lambda: automatic
    _plugins[name] = Plugin(name, priority, factory, asked, missing)


def discover_plugins() -> dict[str, Plugin]:
    """All platforms by name, after loading entry points of the group `pyjax_plugins` once.

    An entry point is a function without arguments that calls `register_plugin`.
    """
    global _discovered
    if not _discovered:
        _discovered = True
        if _may_have_entry_points():
            from importlib.metadata import entry_points

            for entry in entry_points(group=ENTRY_POINT_GROUP):
                entry.load()()
    return dict(_plugins)


def _may_have_entry_points() -> bool:
    """Whether an installed package may have entry points of the group. To look at their files takes
    a fraction of what `importlib.metadata` takes to load and to parse them all."""
    finders = [f for f in sys.meta_path if hasattr(f, "find_distributions")]
    if finders != [PathFinder]:
        return True
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or os.curdir)
        except NotADirectoryError:  # an archive, perhaps with packages in it
            return True
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info", ".egg")) and _names_group(folder, name):
                return True
    return False


def _names_group(folder: str, package: str) -> bool:
    if package.endswith(".egg"):
        return True
    try:
        with open(os.path.join(folder, package, "entry_points.txt"), "rb") as file:
            return ENTRY_POINT_GROUP.encode() in file.read()
    except OSError:
        return False
