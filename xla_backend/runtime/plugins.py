"""Which platforms exist: the built-in ones, plugins found through entry points, and those
registered by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from xla_backend.runtime.client import AbstractClient

ENTRY_POINT_GROUP = "pyjax_plugins"


class Plugin(NamedTuple):
    """A platform that can be initialised. The highest priority becomes the default platform."""

    name: str
    priority: int
    factory: Callable[..., AbstractClient]
    automatic: bool  # tried when no platform is named


def _built_in(module: str, cls: str) -> Callable[..., AbstractClient]:
    """A factory that imports its platform on first use: code generators are not needed to trace."""

    def make(**options: Any) -> AbstractClient:
        return getattr(import_module(module), cls)(**options)

    return make


_plugins: dict[str, Plugin] = {
    p.name: p
    for p in (
        Plugin("cpu", 0, _built_in("xla_backend.runtime.cpu_client", "CpuClient"), True),
        Plugin(
            "interpreter",
            -100,
            _built_in("xla_backend.runtime.interpreter", "InterpreterClient"),
            False,
        ),
    )
}
_discovered = False


def register_plugin(name: str, factory: Callable[..., AbstractClient], priority: int = 400) -> None:
    """Add a platform; `factory(**options)` makes its client on first use.

    Raises:
      ValueError: the name is taken.
    """
    if name in _plugins:
        raise ValueError(f"platform {name!r} is registered already")
    _plugins[name] = Plugin(name, priority, factory, True)


def discover_plugins() -> dict[str, Plugin]:
    """All platforms by name, after loading entry points of the group `pyjax_plugins` once.

    An entry point is a function without arguments that calls `register_plugin`.
    """
    global _discovered
    if not _discovered:
        _discovered = True
        for entry in entry_points(group=ENTRY_POINT_GROUP):
            entry.load()()
    return dict(_plugins)
