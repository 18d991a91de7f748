"""`out_sharding=`: how the result of a function is to be split along mesh axes of type Explicit."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax.core.errors import fail
from pyjax.core.trace import Tracer
from pyjax.interpreters.batching import running_split
from pyjax.interpreters.splits import names_of
from pyjax.sharding.mesh import AbstractMesh, AxisType, Mesh, get_abstract_mesh
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import NamedSharding, Sharding, says_nothing


def axis_names_of(spec: PartitionSpec) -> set[Any]:
    """The mesh axes that split a dimension."""
    entries = [e if isinstance(e, tuple) else (e,) for e in spec]
    return {name for e in entries for name in e} - {None, UNCONSTRAINED}


def padded(spec: PartitionSpec, ndim: int) -> PartitionSpec:
    """With an entry for each dimension; entries beyond them are left out if they say nothing."""
    entries = [*spec, *[None] * (ndim - len(spec))]
    while len(entries) > ndim and entries[-1] is None:
        entries.pop()
    return spec.update(partitions=entries)


def where_it_lies(x: Any, made: Any, weak: bool) -> Sharding | None:
    """The `device=` of an array that was made like `x`: where that was put, or is to lie, if the
    new one has its shape, or each device has all of it; a dtype of its own; and is not traced.
    None: anywhere."""
    if weak or isinstance(x, Tracer) or isinstance(made, Tracer):
        return None
    if not getattr(x, "committed", True):
        return None
    sharding: Sharding | None = getattr(x, "sharding", None)
    if np.shape(x) != made.shape and not (sharding and sharding.is_fully_replicated):
        return None
    if isinstance(sharding, NamedSharding):
        somewhere = isinstance(sharding.mesh, Mesh) and not sharding.spec.unreduced
        if somewhere and len(sharding.spec) > made.ndim:
            return sharding.update(spec=PartitionSpec())
        return sharding if somewhere else None
    return sharding


def explicit_sharding(name: str, target: Any) -> NamedSharding:
    """The sharding that a function is told by `out_sharding=`, along axes of type Explicit.

    Args:
      target: NamedSharding, or PartitionSpec for the mesh in context.
    Raises:
      TypeError: anything else.
      ValueError: a PartitionSpec without a mesh in context; it names axes of other types.
    """
    if not isinstance(target, (NamedSharding, PartitionSpec)):
        fail(
            TypeError,
            f"`out_sharding` argument of {name} only supports instances of `NamedSharding` or "
            f"`PartitionSpec`. Got {target} of type: {type(target)}.",
            "It says along which mesh axes the dimensions of the result are split.",
            "jax.device_put(x, target) takes other shardings, and devices.",
        )
    context = get_abstract_mesh()
    if isinstance(target, PartitionSpec):
        if context.empty:
            fail(
                ValueError,
                "Using PartitionSpec when you are not under a mesh context is not allowed: "
                f"{name} got {target}.",
                "Its entries name axes of a mesh.",
                "Please pass a NamedSharding instance or enter into a mesh context via "
                "`jax.set_mesh`.",
            )
        target = NamedSharding(context, target)
    mesh = target.mesh
    others = [n for n in sorted(axis_names_of(target.spec), key=str) if n not in mesh.explicit_axes]
    if others:
        kinds = dict(zip(mesh.axis_names, mesh.axis_types))
        fail(
            ValueError,
            f"PartitionSpec passed to {name} cannot contain axis names that are of type Auto or "
            f"Manual. Got PartitionSpec: {target.spec} with axis name: {others[0]} of type: "
            f"{kinds[others[0]]}.",
            "Along such axes types do not say how arrays are split.",
            "with_sharding_constraint asks the compiler for a layout along Auto axes; "
            "explicit_axes makes axes explicit inside of a function.",
        )
    return target


def out_sharding_of(name: str, target: Any) -> NamedSharding | None:
    """What a primitive is told of its result's sharding; None, or that of an empty mesh (as
    `typeof(x).sharding` is where no mesh is in use), say nothing.

    Raises:
      TypeError, ValueError: as `explicit_sharding`; it is over another mesh than that in context.
    """
    if target is None or says_nothing(target):
        return None
    sharding = explicit_sharding(name, target)
    check_context(name, sharding)
    mesh = sharding.mesh
    return sharding if isinstance(mesh, AbstractMesh) else sharding.update(mesh=mesh.abstract_mesh)


def check_context(name: str, target: NamedSharding) -> None:
    """Raise ValueError for a sharding over another mesh than that in context."""
    context = get_abstract_mesh()
    if not context.empty and context.shape_tuple != target.mesh.shape_tuple:
        fail(
            ValueError,
            f"{name}: Context mesh {context} should match the mesh of sharding {target.mesh}.",
            "What is computed inside of a mesh lies over that mesh.",
            "Pass a PartitionSpec, which is for the mesh in context.",
        )


def batched_sharding(sharding: Any, dim: int, ndim: int) -> Any:
    """The sharding that a parameter names, where vmap gives a result of `ndim` dimensions one more:
    it is split as what is mapped."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    along = running_split()
    entries = [*padded(sharding.spec, ndim).partitions]
    entries.insert(dim, None if along is None else along.entries[0])
    spec = sharding.spec.update(partitions=entries)
    if along is None:
        return sharding.update(spec=spec)
    # Where types are not to say how operands are split, they do of what is mapped.
    mesh = sharding.mesh
    names = {*names_of(along.entries)}
    kinds = [
        AxisType.Explicit if n in names else k for n, k in zip(mesh.axis_names, mesh.axis_types)
    ]
    return NamedSharding(mesh.update(axis_types=tuple(kinds)), spec)
