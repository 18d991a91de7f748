"""with_sharding_constraint: a layout that a value must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.avals import Split
from pyjax.core.errors import fail, new_error
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.primitive import Primitive
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import tree_broadcast, tree_map
from pyjax.interpreters.batching import running_axis, running_split
from pyjax.interpreters.layouts import Known, layout_rules, layout_sources
from pyjax.interpreters.rules import LINEAR
from pyjax.interpreters.splits import AS_TYPED, names_of, split_rules
from pyjax.lax.common import aval_of
from pyjax.lax.nary import define, unary_transpose
from pyjax.lax.out_sharding import axis_names_of, batched_sharding, padded
from pyjax.lax.sharding_lowering import lay_out
from pyjax.runtime.placement import set_layouts_of_tracers
from pyjax.runtime.result_layouts import layout_of
from pyjax.sharding.mesh import AbstractMesh, devices_in_context, get_abstract_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import (
    NamedSharding,
    Sharding,
    context_sharding,
    resolve_device,
    says_nothing,
)
from pyjax.sharding.splits import split_of, typed_spec


def _constraint_batching(axis_size: int, args: Any, dims: Any, *, sharding: Any) -> Any:
    (x,), (dim,) = args, dims
    if running_split() is not None:
        sharding = batched_sharding(sharding, dim, aval_of(x).ndim - 1)
    elif isinstance(sharding, NamedSharding):
        manual = get_abstract_mesh().manual_axes  # of a shard_map, which cuts the dimension itself
        mesh_axes = tuple(name for name in running_axis()[1] if name not in manual)
        sharding = _where_it_divides(_with_mapped(sharding, dim, mesh_axes), np.shape(x))
    return sharding_constraint_p.bind_all(x, sharding=sharding), [dim]


def _with_mapped(sharding: NamedSharding, dim: int, mesh_axes: tuple[Any, ...]) -> NamedSharding:
    """With a dimension that vmap maps: cut along `mesh_axes` (its `spmd_axis_name`). Without them
    the constraint says nothing of it."""
    spec = sharding.spec
    twice = axis_names_of(spec) & {*mesh_axes}
    if twice:
        fail(
            ValueError,
            f"vmap spmd_axis_name {mesh_axes} cannot appear in with_sharding_constraint spec, but "
            f"got spec {spec}.",
            f"the mapped dimension is cut along {sorted(map(str, twice))} already",
            "use another mesh axis for spmd_axis_name, or another one in the spec",
        )
    entries = list(padded(spec, max(dim, len(spec))))
    entries.insert(dim, mesh_axes or PartitionSpec.UNCONSTRAINED)
    return sharding.update(spec=spec.update(partitions=entries))


def _constraint_layout(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    found = layout_of(eqn.params["sharding"], len(eqn.outvars[0].aval.shape))
    return operands if found is None else [found]


def _constraint_aval(x: Any, *, sharding: Any) -> list[Any]:
    explicit = isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes
    return [x.with_split(split_of(sharding, x.ndim)) if explicit else x]


sharding_constraint_p: Primitive = define(
    "sharding_constraint",
    abstract_eval=_constraint_aval,
    jvp=LINEAR,
    transpose=unary_transpose(
        lambda ct, x, *, sharding: sharding_constraint_p.bind1(ct, sharding=sharding)
    ),
    batching=_constraint_batching,
    lowering=lambda ctx, x, *, sharding: lay_out(ctx, x, sharding),
)


split_rules[sharding_constraint_p] = AS_TYPED
layout_rules[sharding_constraint_p] = _constraint_layout
layout_sources[sharding_constraint_p] = lambda params: getattr(params["sharding"], "mesh", None)


def _put(x: Tracer, sharding: Any) -> Any:
    named = isinstance(sharding, NamedSharding)
    return sharding_constraint_p.bind1(x, sharding=sharding) if named else x


set_layouts_of_tracers(_put)


def _constrain(x: Any, target: Any) -> Any:
    name = "with_sharding_constraint"
    inside = get_abstract_mesh()
    if isinstance(target, PartitionSpec) and (
        inside.manual_axes or (inside.explicit_axes and devices_in_context().empty)
    ):
        target = NamedSharding(inside, target)
    sharding = context_sharding(name, target, RuntimeError, entered=True)
    if not isinstance(sharding, Sharding):
        fail(
            ValueError if sharding is None else TypeError,
            f"{name} got {sharding!r}, a {type(sharding).__name__}, as a sharding.",
            "a constraint says how an array is to lie",
            "pass a sharding or a PartitionSpec; leave arrays out whose layout does not matter",
        )
    if says_nothing(sharding):
        raise new_error(
            ValueError,
            f"with_sharding_constraint got {sharding}",
            "its mesh is empty, so it says of no dimension how it is laid out",
            "leave the constraint out, or make the sharding with the mesh that you mean",
        )
    if isinstance(sharding, NamedSharding):
        if _already(sharding, x):
            return x
        sharding = _over_devices(sharding, x)
        if isinstance(x, Tracer):
            sharding = _where_it_divides(sharding, np.shape(x))
        sharding.shard_shape(tuple(np.shape(x)))
        sharding = _with_type(sharding, aval_of(x).split)
    else:
        resolve_device(sharding)  # or an error that says what is wrong
    return sharding_constraint_p.bind1(x, sharding=sharding)


def _with_type(sharding: NamedSharding, split: Split | None) -> NamedSharding:
    """Along Explicit axes, of which a constraint says nothing, a value stays as its type says."""
    if split is None or split.mesh.shape_tuple != sharding.mesh.shape_tuple:
        return sharding
    entries = [
        (*names_of((own,)), *names_of((entry,)))
        for own, entry in zip(split.entries, padded(sharding.spec, len(split.entries)))
    ]
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def _where_it_divides(sharding: NamedSharding, shape: tuple[int, ...]) -> NamedSharding:
    """Inside of a program dimensions that do not divide into equal parts are not cut."""
    sharding.check_compatible_aval(shape)
    sizes = sharding.mesh.shape

    def parts(entry: Any) -> int:
        names = entry if isinstance(entry, tuple) else (entry,)
        return math.prod([sizes[name] for name in names if name in sizes])

    entries = [
        entry if size % parts(entry) == 0 else None for entry, size in zip(sharding.spec, shape)
    ]
    if entries == [*sharding.spec]:
        return sharding
    while entries and entries[-1] is None:
        entries.pop()
    return sharding.update(spec=PartitionSpec(*entries))


def _over_devices(sharding: NamedSharding, x: Any) -> NamedSharding:
    """With the devices of the mesh in context for those that an AbstractMesh lacks, if it is in
    context. Inside of a program it may go without."""
    if isinstance(sharding.mesh, AbstractMesh):
        context = devices_in_context()
        if {*sharding.mesh.axis_names} <= {*context.axis_names}:
            sharding = sharding.update(mesh=context)
        elif isinstance(x, Tracer):
            return sharding
    resolve_device(sharding)  # or an error that says what is wrong
    return sharding


def _already(sharding: NamedSharding, x: Any) -> bool:
    """Whether an array lies as a constraint says, which along axes of type Explicit it must.

    Raises:
      AssertionError: it does not.
      ValueError: no mesh in context says that all axes are explicit, and the spec names some.
    """
    context = get_abstract_mesh()
    if context.are_all_axes_explicit:
        spec = aval_of(x).sharding.spec
        asked = typed_spec(context, sharding.spec)
        if padded(spec, np.ndim(x)) == padded(asked, np.ndim(x)):
            return True
        fail(
            AssertionError,
            f"with_sharding_constraint acts as an assert where all axes of the mesh are of type "
            f"Explicit. The array sharding: {spec} did not match the sharding provided: "
            f"{sharding.spec}.",
            f"the mesh in context is {context}",
            "lay the array out with jax.sharding.reshard",
        )
    mesh = sharding.mesh if context.empty else context
    if not axis_names_of(sharding.spec) <= {*mesh.auto_axes}:
        fail(
            ValueError,
            f"The spec of the sharding passed to with_sharding_constraint can only refer to Auto "
            f"axes of the mesh. Got spec={sharding.spec} and mesh={mesh}.",
            "along Explicit axes nothing is left to the compiler",
            "lay the array out with jax.sharding.reshard",
        )
    return False


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, laid out over devices as told.

    Args:
      x: pytree of arrays.
      shardings: Sharding, PartitionSpec for the mesh in context, or a pytree prefix of those.
    Raises:
      RuntimeError: a PartitionSpec without a mesh in context.
      ValueError: a value has fewer dimensions than its PartitionSpec; the mesh is empty; None; the
        spec names axes of type Explicit, whose layouts are `reshard`'s.
      AssertionError: all axes of the mesh in context are explicit, and the array lies otherwise.

    >>> mesh = pyjax.make_mesh((1,), ("rows",), axis_types=(pyjax.sharding.AxisType.Auto,))
    >>> split = pyjax.NamedSharding(mesh, pyjax.P("rows"))
    >>> f = pyjax.jit(lambda x: lax.with_sharding_constraint(2 * x, split))
    >>> f(jnp.arange(3.0)).tolist()
    [0.0, 2.0, 4.0]
    """
    if shardings is None or isinstance(shardings, (Sharding, PartitionSpec)):
        return tree_map(lambda leaf: _constrain(leaf, shardings), x)
    targets = tree_broadcast(
        shardings, x, is_leaf=lambda t: t is None or isinstance(t, (Sharding, PartitionSpec))
    )
    return tree_map(_constrain, x, targets)
