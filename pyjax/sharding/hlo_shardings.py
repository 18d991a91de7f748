"""Shardings over a mesh in the compiler's words, and back.

A program that a group of devices runs calls them by their numbers in the group; the axes of a mesh
keep their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from pyjax.core.errors import new_error
from pyjax.sharding.mesh import AbstractMesh, Mesh, devices_in_context
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import NamedSharding
from xla_backend.hlo import device_lists, sharding
from xla_backend.runtime.client import Device

ANY = sharding.Sharding("unknown")  # the compiler chooses


def hlo_sharding(
    named: NamedSharding, devices: Sequence[Device | None], ndim: int
) -> sharding.Sharding:
    """How an array with `ndim` dimensions lies, in a program of these devices.

    Raises:
      ValueError: the mesh has other devices.
    """
    return sharding_on(hlo_mesh(named.mesh, devices), named.mesh.axis_names, named.spec, ndim)


def sharding_on(
    mesh: device_lists.Mesh,
    axis_names: Sequence[Any],
    spec: PartitionSpec,
    ndim: int,
    *,
    is_open: bool = False,
    manual: AbstractSet[Any] = frozenset(),
) -> sharding.Sharding:
    """How an array with `ndim` dimensions lies.

    Args:
      axis_names: of the axes of `mesh`, as the spec calls them.
      is_open: whether the compiler may cut it further.
      manual: axes along which the program says what each device does.
    """
    axes = {name: device_lists.Axis(text) for name, (text, _) in zip(axis_names, mesh.axes)}
    entries = [*spec, *[None] * (ndim - len(spec))]
    dims, opened = [], []
    for entry in entries:
        given = entry if isinstance(entry, tuple) else (entry,)
        named = [name for name in given if name is not None and name is not UNCONSTRAINED]
        dims.append(tuple(axes[name] for name in named))
        opened.append(is_open or entry is UNCONSTRAINED)
    if not any(dims) and not any(opened):
        dims, opened = [], []
    return sharding.Sharding(
        "mesh",
        mesh=mesh,
        dimensions=tuple(dims),
        open_dimensions=tuple(opened),
        manual_axes=tuple(axis for name, axis in axes.items() if name in manual),
    )


def hlo_mesh(mesh: Mesh | AbstractMesh, devices: Sequence[Device | None]) -> device_lists.Mesh:
    """A mesh of the devices of a program. Without devices of its own it has them in their order.

    Raises:
      ValueError: it has others.
    """
    axes = hlo_axes(mesh)
    if isinstance(mesh, AbstractMesh):
        return device_lists.Mesh(axes)
    own = mesh.devices.ravel().tolist()
    if own == [*devices]:  # as nearly always; there may be thousands
        return device_lists.Mesh(axes)
    numbers = {device: number for number, device in enumerate(devices)}
    if {*own} != {*devices}:
        raise new_error(
            ValueError,
            "Received incompatible devices for jitted computation: the program runs on "
            f"{', '.join(map(str, devices))}, and a sharding in it is over "
            f"{', '.join(map(str, own))}.",
            "all arrays of a program lie over the same devices",
            "make the meshes of the same devices, or device_put the arguments to one mesh",
        )
    return device_lists.Mesh(axes, tuple(numbers[device] for device in own))


def hlo_axes(mesh: Mesh | AbstractMesh) -> tuple[tuple[str, int], ...]:
    """The names and sizes of a mesh's axes."""
    return tuple(zip(_names(mesh), mesh.axis_sizes))


def mesh_of_devices(where: device_lists.Mesh | None, devices: Sequence[Device]) -> Mesh:
    """The mesh that a program of these devices calls so: that in context, if it is, else one with
    the same axes. None: the program names no mesh."""
    context = devices_in_context()
    if not context.empty and {*context.devices.flat} == {*devices}:
        if where is None or hlo_mesh(context, devices) == where:
            return context
    where = where or device_lists.Mesh((("devices", len(devices)),))
    grid = np.empty(where.sizes, object)
    for place, number in np.ndenumerate(where.ids()):
        grid[place] = devices[number]
    return Mesh(grid, tuple(name for name, _ in where.axes))


def named_sharding(found: sharding.Sharding, mesh: Mesh, ndim: int) -> NamedSharding:
    """What the compiler says of an array with `ndim` dimensions, by the names of the mesh that it
    was told of."""
    names = dict(zip(_names(mesh), mesh.axis_names))
    entries: list[Any] = []
    for axes in found.dimensions[:ndim]:
        given = tuple(names[axis.name] for axis in axes)
        entries.append(given[0] if len(given) == 1 else given or None)
    while entries and entries[-1] is None:
        entries.pop()
    return NamedSharding(mesh, PartitionSpec(*entries))


def _names(mesh: Mesh | AbstractMesh) -> list[str]:
    """Names of axes as texts can spell them, no two alike."""
    texts = [str(name) for name in mesh.axis_names]
    plain = all(text and not {*text} & {"'", '"', "\n"} for text in texts)
    return (
        texts if plain and len({*texts}) == len(texts) else [f"axis{k}" for k in range(len(texts))]
    )
