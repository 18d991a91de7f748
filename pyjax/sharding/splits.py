"""Shardings as part of types: what types say of the axes of type Explicit of a mesh, and back."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from pyjax.core.avals import ShapedArray, Split, set_sharding_of_avals
from pyjax.core.axis_env import in_types
from pyjax.sharding.manual_axes import ManualAxisType
from pyjax.sharding.mesh import AbstractMesh, Mesh, get_abstract_mesh
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import NamedSharding


def split_of(sharding: Any, ndim: int) -> Split | None:
    """How the axes of type Explicit split an array that lies so; None: it is whole along all."""
    if not isinstance(sharding, NamedSharding):
        return None
    explicit = typed_axes(sharding.mesh)
    if not explicit:
        return None
    spec = sharding.spec
    entries = [kept(entry, explicit) for entry in spec]
    entries = [*entries, *[None] * (ndim - len(entries))][:ndim]
    mesh = sharding.mesh.abstract_mesh
    split = Split(mesh, tuple(entries), spec.unreduced & explicit, spec.reduced & explicit)
    return split if split.says_something() else None


def typed_axes(mesh: Mesh | AbstractMesh) -> frozenset[Any]:
    """The axes of type Explicit that types may name."""
    return in_types(mesh.shape, frozenset(mesh.explicit_axes))


def typed_spec(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> PartitionSpec:
    """A specification without those axes of type Explicit of which types say nothing."""
    silent = frozenset(mesh.explicit_axes) - typed_axes(mesh)
    if not silent:
        return spec
    others = {*mesh.axis_names, UNCONSTRAINED} - silent
    return PartitionSpec(
        *(kept(entry, others) for entry in spec),
        unreduced=spec.unreduced - silent,
        reduced=spec.reduced - silent,
    )


def kept(entry: Any, axes: AbstractSet[Any]) -> Any:
    """An entry of a specification, of these mesh axes only."""
    names = tuple(n for n in (entry if isinstance(entry, tuple) else (entry,)) if n in axes)
    return None if not names else names[0] if len(names) == 1 else names


def spec_of(split: Split) -> PartitionSpec:
    """A split by the names of its axes, but for those that a shard_map around has made manual."""
    unreduced, reduced = split.manual_sums
    return PartitionSpec(
        *split.entries, unreduced=split.unreduced - unreduced, reduced=split.reduced - reduced
    )


def sharding_of(split: Split) -> NamedSharding:
    """A split as a sharding, over a mesh without devices."""
    return NamedSharding(split.mesh, spec_of(split))


def of_summands(sharding: NamedSharding, ndim: int) -> NamedSharding:
    """The sharding of an array of `ndim` dimensions as it is stored: summands of a sum that is
    still to be made lie along leading dimensions, one for each axis."""
    spec = sharding.spec
    if not spec.unreduced:
        return sharding
    axes = [name for name in sharding.mesh.axis_names if name in spec.unreduced]
    entries = [*spec.partitions, *[None] * (ndim - len(spec.partitions))]
    return NamedSharding(sharding.mesh, PartitionSpec(*axes, *entries))


def explicit_context() -> AbstractMesh | None:
    """The mesh in context, if it has axes of type Explicit."""
    mesh = get_abstract_mesh()
    return mesh if mesh.explicit_axes else None


def _sharding_of_aval(aval: ShapedArray) -> NamedSharding:
    if aval.split is not None:
        return sharding_of(aval.split)
    mesh = get_abstract_mesh()
    if not (mesh.explicit_axes or mesh.manual_axes):
        mesh = AbstractMesh((), ())
    return NamedSharding(mesh, PartitionSpec(*[None] * aval.ndim))


def _manual_axis_type(aval: ShapedArray) -> ManualAxisType:
    unreduced, reduced = (frozenset[Any](),) * 2 if aval.split is None else aval.split.manual_sums
    return ManualAxisType(varying=aval.vma, unreduced=unreduced, reduced=reduced)


set_sharding_of_avals(_sharding_of_aval, _manual_axis_type, split_of, sharding_of)
