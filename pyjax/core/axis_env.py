"""The environment of named axes: which names vmap and shard_map have bound, and their sizes.

Layer: core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pyjax._config import options
from pyjax.core.errors import new_error

Result = TypeVar("Result")


class _AxisEnv(threading.local):
    sizes: dict[Any, int] = {}  # replaced, never mutated
    mesh: frozenset[Any] = frozenset()  # of these the axes of meshes, which shard_map has bound
    key: tuple[Any, ...] = ()


_env = _AxisEnv()


def under_axis(name: Any, size: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """`function(*arguments)`, where `name` is an axis of `size`; None names nothing."""
    if name is None:
        return function(*arguments)
    return _under({**_env.sizes, name: size}, _env.mesh - {name}, function, arguments)


def under_mesh_axes(
    axes: Iterable[tuple[Any, int]], function: Callable[..., Result], *arguments: Any
) -> Result:
    """`function(*arguments)`, where each name is a mesh axis of its size, along which values may
    vary."""
    axes = dict(axes)
    return _under({**_env.sizes, **axes}, _env.mesh | axes.keys(), function, arguments)


def _under(
    sizes: dict[Any, int],
    mesh: frozenset[Any],
    function: Callable[..., Result],
    arguments: tuple[Any, ...],
) -> Result:
    previous = _env.sizes, _env.mesh, _env.key
    try:
        _env.sizes, _env.mesh = sizes, mesh
        _env.key = (*sizes.items(), *(("mesh axis", name) for name in sizes if name in mesh))
        return function(*arguments)
    finally:
        _env.sizes, _env.mesh, _env.key = previous


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
        raise new_error(
            NameError,
            f"unbound axis name: {name}. Axis names bound here: {bound}.",
            "Collectives need an enclosing map over that axis.",
            f"For example vmap(f, axis_name={name!r}).",
        ) from None


def axis_exists(name: Any) -> bool:
    """Whether a name is bound."""
    return name in _env.sizes


def axis_names() -> tuple[Any, ...]:
    """Names bound here, outermost first."""
    return tuple(_env.sizes)


def names_of(name: Any) -> tuple[Any, ...]:
    """One name or several as a tuple."""
    return tuple(name) if isinstance(name, (tuple, list)) else (name,)


def mesh_axes(names: Iterable[Any]) -> frozenset[Any]:
    """Those of the names that are bound to axes of meshes, and that types may name."""
    found = _env.mesh.intersection(names)
    return in_types(_env.sizes, found) if found else found


def are_mesh_axes(names: Iterable[Any]) -> bool:
    """Whether all of the names are bound to axes of meshes."""
    return _env.mesh.issuperset(names)


def outside_types(names: Iterable[Any]) -> frozenset[Any]:
    """Those that are bound to axes of meshes of which types say nothing: values are the same along
    them, for they have one position."""
    found = _env.mesh.intersection(names)
    return found - in_types(_env.sizes, found) if found else found


def in_types(sizes: Mapping[Any, int], names: frozenset[Any]) -> frozenset[Any]:
    """Those of the axes of a mesh that types may name: an option leaves out those of size 1."""
    if not options.remove_size_one_mesh_axis_from_type.here()[0].value:
        return names
    return frozenset(name for name in names if sizes[name] != 1)


def in_order(names: Iterable[Any]) -> tuple[Any, ...]:
    """Names, those that are bound first and in the order in which they are."""
    position = {name: i for i, name in enumerate(_env.sizes)}
    return tuple(sorted(names, key=lambda name: (position.get(name, len(position)), str(name))))


def key() -> tuple[Any, ...]:
    """Hashable snapshot for caches of traced functions."""
    return _env.key
