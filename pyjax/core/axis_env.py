"""The environment of named axes: which names `vmap(axis_name=...)` has bound, and their sizes.

Layer: core.
"""

from __future__ import annotations

import threading
from typing import Any


class _AxisEnv(threading.local):
    sizes: dict[Any, int] = {}  # replaced, never mutated


_env = _AxisEnv()


class extend_axis_env:
    """Context manager: `name` is an axis of `size` inside."""

    __slots__ = ("name", "previous", "size")

    def __init__(self, name: Any, size: int) -> None:
        self.name = name
        self.size = size
        self.previous: dict[Any, int] = {}

    def __enter__(self) -> None:
        self.previous = _env.sizes
        if self.name is not None:
            _env.sizes = {**self.previous, self.name: self.size}

    def __exit__(self, *exc: Any) -> None:
        _env.sizes = self.previous


def axis_size(name: Any) -> int:
    """Size of a named axis (or product of the sizes of a tuple of names).

    Raises:
      NameError: no such axis is bound here.
    """
    if isinstance(name, (tuple, list)):
        size = 1
        for n in name:
            size *= axis_size(n)
        return size
    try:
        return _env.sizes[name]
    except KeyError:
        bound = ", ".join(map(str, _env.sizes)) or "none"
        raise NameError(
            f"unbound axis name: {name}. Axis names bound here: {bound}.\n"
            f"  Collectives need an enclosing map over that axis, e.g. "
            f"vmap(f, axis_name={name!r})."
        ) from None


def axis_exists(name: Any) -> bool:
    """Whether a name is bound."""
    return name in _env.sizes


def axis_names() -> tuple[Any, ...]:
    """Names bound here, outermost first."""
    return tuple(_env.sizes)


def key() -> tuple[Any, ...]:
    """Hashable snapshot for caches of traced functions."""
    return tuple(_env.sizes.items())
