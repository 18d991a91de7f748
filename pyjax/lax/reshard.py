"""Layouts along mesh axes of type Explicit, which are part of types: the primitive that changes
them, and functions whose results lie as they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.avals import MeshArray, Split, sharding_of_split
from pyjax.core.errors import ShardingTypeError, fail
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.structural import as_split, broadcast_in_dim, broadcast_in_dim_p, reshard_p
from pyjax.core.trace import Tracer, state
from pyjax.core.tree_util import tree_map
from pyjax.interpreters import ad
from pyjax.interpreters.layouts import Known, Layout, layout_rules, layout_sources
from pyjax.interpreters.rules import LINEAR
from pyjax.interpreters.splits import AS_TYPED, Operation, elementwise, names_of, split_rules
from pyjax.lax.common import aval_of
from pyjax.lax.nary import define
from pyjax.lax.out_sharding import batched_sharding, check_context, explicit_sharding, padded
from pyjax.lax.sharding_lowering import lay_out
from pyjax.runtime.placement import device_put, result_on
from pyjax.runtime.result_layouts import layout_of
from pyjax.sharding.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    devices_in_context,
    get_abstract_mesh,
    use_abstract_mesh,
)
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding, resolve_device, says_nothing
from pyjax.sharding.splits import split_of


def _reshard_batching(axis_size: int, args: Any, dims: Any, *, dst_sharding: Any) -> Any:
    (x,), (dim,) = args, dims
    target = batched_sharding(dst_sharding, dim, aval_of(x).ndim - 1)
    return reshard_p.bind_all(x, dst_sharding=target), [dim]


def _reshard_transpose(cts: Sequence[Any], x: Any, *, dst_sharding: Any) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    return [as_split(ct, x.aval.cotangent_split())]


def _reshard_layout(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    """Over the devices of the operand, where a mesh without devices says how."""
    target, (known,) = eqn.params["dst_sharding"], operands
    if isinstance(target.mesh, Mesh):
        return [layout_of(target, eqn.outvars[0].aval.ndim)]
    if known is None or known.mesh.shape_tuple != target.mesh.shape_tuple:
        return operands
    return [Layout(known.mesh.update(axis_types=target.mesh.axis_types), known.entries)]


define(
    "reshard",
    abstract_eval=lambda x, *, dst_sharding: [x.with_split(split_of(dst_sharding, x.ndim))],
    jvp=LINEAR,
    transpose=_reshard_transpose,
    batching=_reshard_batching,
    lowering=lambda ctx, x, *, dst_sharding: lay_out(
        ctx, x, dst_sharding, is_open=bool(dst_sharding.mesh.auto_axes)
    ),
)
split_rules[reshard_p] = AS_TYPED
layout_rules[reshard_p] = _reshard_layout
layout_sources[reshard_p] = lambda params: params["dst_sharding"].mesh


def reshard_to(x: Any, target: NamedSharding) -> Any:
    """An array as `explicit_sharding` says; of a mesh without devices, values
    stay where they are."""
    spec = padded(target.spec, np.ndim(x))
    mesh = target.mesh
    if isinstance(mesh, AbstractMesh):
        context: Mesh | AbstractMesh = devices_in_context()
        lies = None if isinstance(x, Tracer) else getattr(x, "sharding", None)
        if context.empty and isinstance(lies, NamedSharding):
            context = lies.mesh
        if context.shape_tuple == mesh.shape_tuple and isinstance(context, Mesh):
            mesh = context.update(axis_types=mesh.axis_types)
    sharding = NamedSharding(mesh, spec)
    sharding.shard_shape(tuple(np.shape(x)))
    if isinstance(mesh, Mesh):
        resolve_device(sharding)  # or an error that says what is wrong
    elif not isinstance(x, Tracer) and state.traces[0].is_eval:
        return x
    return reshard_p.bind1(x, dst_sharding=sharding)


def laid_out_as(name: str, x: Any, out_sharding: Any) -> Any:
    """The result of a function as its `out_sharding=` says: None, or that of an empty mesh (as
    `typeof(x).sharding` is where no mesh is in use), say nothing."""
    if out_sharding is None or says_nothing(out_sharding):
        return x
    target = explicit_sharding(name, out_sharding)
    check_context(name, target)
    return reshard_to(x, target)


def result_as(name: str, x: Any, device: Any, out_sharding: Any) -> Any:
    """The result of a function that makes arrays, where its `device=` says, or as its
    `out_sharding=` does."""
    return laid_out_as(name, x, out_sharding) if device is None else result_on(x, device)


def broadcast_alike(arrays: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Arrays broadcast to a shape by NumPy's rule, all split as an elementwise operation on them
    would be.

    Raises:
      ShardingTypeError: they are split along a dimension by different axes.
    """
    avals = [aval_of(x) for x in arrays]
    mesh = next((a.split.mesh for a in avals if a.split is not None), None)
    if mesh is not None:
        split = elementwise(Operation(broadcast_in_dim_p, mesh, avals, [avals[0]], {}))[0]
        split = split._replace(entries=(None,) * (len(shape) - len(split.entries)) + split.entries)
    found = []
    for x, aval in zip(arrays, avals):
        if aval.ndim != len(shape) or aval.shape != shape:
            dims = range(len(shape) - aval.ndim, len(shape))
            x = broadcast_in_dim(x, shape, tuple(dims))
        found.append(x if mesh is None else as_split(x, split))
    return found


def check_whole_along(name: str, x: Any, dims: Sequence[int]) -> None:
    """Raise ShardingTypeError for an array that is split along a dimension in which single elements
    are looked up."""
    aval = aval_of(x)
    if aval.split is not None and any(aval.split.entries[d] is not None for d in dims):
        fail(
            ShardingTypeError,
            f"{name}: how the result is split could not be resolved unambiguously (or would "
            f"require collectives on inputs). Got operand={aval.str_short()}",
            f"elements along dimensions {tuple(dims)} may be on other devices",
            "lay the array out as a whole one along them before: reshard(x, P(...)); or use "
            "`.at[...].get(out_sharding=)`.",
        )


# -- without types ---------------------------------------------------------------------------------


def under_axis_types(kind: AxisType, names: Sequence[Any]) -> use_abstract_mesh:
    """A block in which these axes of the mesh in context are of a type."""
    mesh = get_abstract_mesh()
    return use_abstract_mesh(mesh.update_axis_types(dict.fromkeys(names, kind)))


def without_types_along(x: Any, names: Sequence[Any]) -> Any:
    """The same value, where it is, of a type that does not say how axes split it."""
    aval = getattr(x, "aval", None)
    if type(aval) is not MeshArray or aval.split is None:
        return x
    mesh = aval.split.mesh.update_axis_types(dict.fromkeys(names, AxisType.Auto))
    if not isinstance(x, Tracer):
        mesh = x.sharding.mesh.update(axis_types=mesh.axis_types)
        return device_put(x, NamedSharding(mesh, x.sharding.spec))
    hidden = {*names}
    entries = [tuple(n for n in names_of((e,)) if n not in hidden) for e in aval.split.entries]
    return reshard_p.bind1(x, dst_sharding=NamedSharding(mesh, PartitionSpec(*entries)))


def computed_as(name: str, out_sharding: Any, function: Callable[..., Any], *operands: Any) -> Any:
    """`function(*operands)`, its result as `out_sharding=` says; what it does to get there is the
    compiler's. Without `out_sharding` types say all along.

    Args:
      operands: pytrees of arrays and other values.
    """
    if out_sharding is None or says_nothing(out_sharding):
        return function(*operands)
    target = explicit_sharding(name, out_sharding)
    check_context(name, target)
    names = target.mesh.explicit_axes
    if get_abstract_mesh().empty:
        context = use_abstract_mesh(
            target.mesh.abstract_mesh.update_axis_types(dict.fromkeys(names, AxisType.Auto))
        )
    else:
        context = under_axis_types(AxisType.Auto, names)
    with context:
        untyped = tree_map(lambda x: without_types_along(x, names), operands)
        result = function(*untyped)
    return reshard_to(result, target)


def cotangent_as(aval: Any, function: Callable[..., Any], *operands: Any) -> Any:
    """`function(*operands)`, the cotangent of a value of a type, split as it is to be; types do not
    say how that comes about."""
    splits = [split for x in operands if (split := aval_of(x).split) is not None]
    if not any(split.mesh.explicit_axes for split in splits):
        return function(*operands)
    split = aval.cotangent_split() or Split(splits[0].mesh, (None,) * aval.ndim)
    return computed_as("transposition", sharding_of_split(split), function, *operands)
