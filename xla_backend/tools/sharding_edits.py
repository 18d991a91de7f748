"""Edits of what a module says about devices, for `module_reducer`: fewer of them, in fewer axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.sharding import Sharding, parse_sharding


def drop_mesh_axes(module: HloModule) -> list[Callable[[HloModule], bool]]:
    """The module for the devices of a mesh without one of its axes; one edit for each axis of the
    only mesh that shardings name."""
    meshes = {
        leaf.mesh
        for computation in module.computations
        for node in computation
        if (said := _said(node)) is not None
        for leaf in (said.elements or (said,))
    }
    (mesh,) = meshes if len(meshes) == 1 else (None,)
    if mesh is None or mesh.devices is not None:
        return []
    return [partial(_without_axis, name=name, size=size) for name, size in mesh.axes]


def drop_element(node: Instruction, index: int) -> None:
    """The sharding of a tuple loses that of one of its elements, which are arrays."""
    said = _said(node)
    if said is not None and said.elements:
        kept = (*said.elements[:index], *said.elements[index + 1 :])
        _say(node, Sharding("tuple", elements=kept))


def sharding_alone(node: Instruction) -> dict[str, str] | None:
    """Of the annotations of an instruction, how it is cut."""
    said = _said(node)
    return None if said is None else {"sharding": str(said)}


def _said(node: Instruction) -> Sharding | None:
    text = (node.annotations or {}).get("sharding")
    return None if text is None else parse_sharding(text)


def _say(node: Instruction, sharding: Sharding) -> None:
    node.annotations = {**(node.annotations or {}), "sharding": str(sharding)}


def _without_axis(module: HloModule, name: str, size: int) -> bool:
    for computation in module.computations:
        for node in computation:
            if (said := _said(node)) is not None:
                _say(node, _less(said, name))
    module.num_partitions //= size
    return True


def _less(sharding: Sharding, name: str) -> Sharding:
    if sharding.elements:
        return Sharding("tuple", elements=tuple(_less(leaf, name) for leaf in sharding.elements))
    assert sharding.mesh is not None
    mesh = sharding.mesh._replace(axes=tuple(a for a in sharding.mesh.axes if a[0] != name))
    lists = {
        field: tuple(axis for axis in getattr(sharding, field) if axis.name != name)
        for field in ("replicated_axes", "unreduced_axes", "manual_axes")
    }
    dims = tuple(tuple(a for a in axes if a.name != name) for axes in sharding.dimensions)
    fields = {f: getattr(sharding, f) for f in sharding._fields}
    return Sharding(**{**fields, **lists, "mesh": mesh, "dimensions": dims})
