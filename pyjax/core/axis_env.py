"""The environment of named axes: which names `vmap(axis_name=...)` has bound, and their sizes.

Layer: core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class _AxisEnv(threading.local):
    sizes: dict[Any, int] = {}  # replaced, never mutated


_env = _AxisEnv()


def under_axis(name: Any, size: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, where `name` is an axis of `size`; None names nothing."""
    previous = _env.sizes
    try:
        if name is not None:
            _env.sizes = {**previous, name: size}
        return function(*arguments)
    finally:
        _env.sizes = previous


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
