"""with_sharding_constraint: a layout that a value must have.

It is written into the program: as a sharding of HLO, or, where that runs on one device, in the
sharding dialect (`jax_use_shardy_partitioner`), where names of meshes and axes stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.errors import fail, new_error
from pyjax.core.jaxpr import JaxprEqn
from pyjax.core.primitive import Primitive
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import tree_broadcast, tree_map
from pyjax.interpreters.hlo import constrained
from pyjax.interpreters.layouts import Known, layout_rules, layout_sources
from pyjax.interpreters.rules import LINEAR
from pyjax.lax.nary import define, unary_transpose
from pyjax.runtime.placement import result_on, set_layouts_of_tracers
from pyjax.runtime.result_layouts import layout_of
from pyjax.sharding.hlo_shardings import hlo_sharding, sharding_on
from pyjax.sharding.mesh import AbstractMesh, devices_in_context, get_abstract_mesh
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import (
    NamedSharding,
    Sharding,
    context_sharding,
    resolve_device,
    says_nothing,
)
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.text_position import quote


def _constraint_batching(axis_size: int, args: Any, dims: Any, *, sharding: Any) -> Any:
    (x,), (dim,) = args, dims
    if isinstance(sharding, NamedSharding):
        entries = list(sharding.spec)
        if dim is not None and dim <= len(entries):
            entries.insert(dim, None)
        sharding = sharding.update(spec=PartitionSpec(*entries))
    return sharding_constraint_p.bind_all(x, sharding=sharding), [dim]


def _constraint_lowering(ctx: Any, x: Instruction, *, sharding: Any) -> Instruction:
    if not isinstance(sharding, NamedSharding):
        return x
    manual = ctx.module.manual
    if manual is not None:
        spec, rank = sharding.spec, x.shape.rank
        own = sharding_on(manual.where, manual.names, spec, rank, manual=manual.axes)
        return constrained(ctx.builder, x, own)
    devices = ctx.module.devices
    if devices:
        return constrained(ctx.builder, x, hlo_sharding(sharding, devices, x.shape.rank))
    if options.use_shardy_partitioner.value:
        mesh = ctx.module.mesh_name(_mesh_text(sharding))
        text = f"#sdy.sharding<@{mesh}, [{', '.join(_dialect_axes(sharding, x.shape.rank))}]>"
        annotations = {"frontend_attributes": f"{{xla.sdy.sharding={quote(text)}}}"}
    else:
        annotations = {"sharding": "{replicated}"}  # over the one device of the program
    call = ctx.builder.add(
        Opcode.CUSTOM_CALL, (x,), CustomCallAttributes("Sharding"), shape=x.shape
    )
    call.annotations = annotations
    return call


def _mesh_text(sharding: NamedSharding) -> str:
    """`["x"=1, "y"=1]`."""
    sizes = sharding.mesh.shape.items()
    return f"[{', '.join(f'{quote(str(name))}={size}' for name, size in sizes)}]"


def _dialect_axes(sharding: NamedSharding, rank: int) -> list[str]:
    """`{"x"}`, `{}`, `{?}`, ... for each dimension."""
    entries = [*sharding.spec, *[None] * (rank - len(sharding.spec))]
    texts = []
    for entry in entries:
        names = entry if isinstance(entry, tuple) else (entry,)
        known = [quote(str(name)) for name in names if name not in (None, UNCONSTRAINED)]
        texts.append(f"{{{'?' if entry is UNCONSTRAINED else ', '.join(known)}}}")
    return texts


def _constraint_layout(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    found = layout_of(eqn.params["sharding"], len(eqn.outvars[0].aval.shape))
    return operands if found is None else [found]


sharding_constraint_p: Primitive = define(
    "sharding_constraint",
    abstract_eval=lambda x, *, sharding: [x],
    jvp=LINEAR,
    transpose=unary_transpose(
        lambda ct, x, *, sharding: sharding_constraint_p.bind1(ct, sharding=sharding)
    ),
    batching=_constraint_batching,
    lowering=_constraint_lowering,
)


layout_rules[sharding_constraint_p] = _constraint_layout
layout_sources[sharding_constraint_p] = lambda params: getattr(params["sharding"], "mesh", None)


def _put(x: Tracer, sharding: Any) -> Any:
    named = isinstance(sharding, NamedSharding)
    return sharding_constraint_p.bind1(x, sharding=sharding) if named else x


set_layouts_of_tracers(_put)


def _constrain(x: Any, target: Any) -> Any:
    name = "with_sharding_constraint"
    inside = get_abstract_mesh()
    if isinstance(target, PartitionSpec) and inside.manual_axes:
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
    else:
        resolve_device(sharding)  # or an error that says what is wrong
    return sharding_constraint_p.bind1(x, sharding=sharding)


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
        if isinstance(x, Tracer):
            return False  # types do not say it here
        lies = getattr(x, "sharding", None)
        spec = lies.spec if isinstance(lies, NamedSharding) else PartitionSpec()
        if _padded(spec, np.ndim(x)) == _padded(sharding.spec, np.ndim(x)):
            return True
        fail(
            AssertionError,
            f"with_sharding_constraint acts as an assert where all axes of the mesh are of type "
            f"Explicit: the array lies as {spec}, and not as {sharding.spec}.",
            f"the mesh in context is {context}",
            "lay the array out with jax.sharding.reshard",
        )
    mesh = sharding.mesh if context.empty else context
    if not _names(sharding.spec) <= {*mesh.auto_axes}:
        fail(
            ValueError,
            f"The spec of the sharding passed to with_sharding_constraint can only refer to Auto "
            f"axes of the mesh. Got spec={sharding.spec} and mesh={mesh}.",
            "along Explicit axes nothing is left to the compiler",
            "lay the array out with jax.sharding.reshard",
        )
    return False


def _names(spec: PartitionSpec) -> set[Any]:
    entries = [e if isinstance(e, tuple) else (e,) for e in spec]
    return {name for e in entries for name in e} - {None, UNCONSTRAINED}


def _padded(spec: PartitionSpec, ndim: int) -> PartitionSpec:
    """With an entry for each dimension; entries beyond them are left out if they say nothing."""
    entries = [*spec, *[None] * (ndim - len(spec))]
    while len(entries) > ndim and entries[-1] is None:
        entries.pop()
    return spec.update(partitions=entries)


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


# -- layouts that are asked for along explicit axes ------------------------------------------------


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
    others = [n for n in _names(target.spec) if n not in mesh.explicit_axes]
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


def reshard_to(x: Any, target: NamedSharding) -> Any:
    """An array as `explicit_sharding` says; where no mesh with devices is meant, as it is."""
    spec = _padded(target.spec, np.ndim(x))
    mesh = target.mesh
    if isinstance(mesh, AbstractMesh):
        context = devices_in_context()
        if context.axis_names == mesh.axis_names and context.axis_sizes == mesh.axis_sizes:
            mesh = context
    sharding = NamedSharding(mesh, spec)
    sharding.shard_shape(tuple(np.shape(x)))
    if isinstance(mesh, AbstractMesh):
        return x
    resolve_device(sharding)
    return sharding_constraint_p.bind1(x, sharding=sharding)


def laid_out_as(name: str, x: Any, out_sharding: Any) -> Any:
    """The result of a function as its `out_sharding=` says: None, or that of an empty mesh (as
    `typeof(x).sharding` is where no mesh is in use), say nothing."""
    if out_sharding is None or says_nothing(out_sharding):
        return x
    target = explicit_sharding(name, out_sharding)
    context = get_abstract_mesh()
    if not context.empty and context.shape_tuple != target.mesh.shape_tuple:
        fail(
            ValueError,
            f"{name}: Context mesh {context} should match the mesh of sharding {target.mesh}.",
            "What is computed inside of a mesh lies over that mesh.",
            "Pass a PartitionSpec, which is for the mesh in context.",
        )
    return reshard_to(x, target)


def result_as(name: str, x: Any, device: Any, out_sharding: Any) -> Any:
    """The result of a function that makes arrays, where its `device=` says, or as its
    `out_sharding=` does."""
    return laid_out_as(name, x, out_sharding) if device is None else result_on(x, device)
