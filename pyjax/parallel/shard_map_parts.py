"""shard_map in a program that the devices of its mesh run together: each computes the body on its
blocks, and collectives are exchanges between them.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, subjaxprs
from pyjax.interpreters.hlo import LoweringContext, aval_to_shape, constrained
from pyjax.interpreters.manual_mesh import ManualMesh
from pyjax.lax.collectives_lowering import without_form
from pyjax.sharding.hlo_shardings import hlo_mesh, hlo_sharding
from pyjax.sharding.mesh import AbstractMesh, Mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding


def is_by_parts(
    ctx: LoweringContext,
    *,
    mesh: Mesh | AbstractMesh,
    newly_manual_axes: AbstractSet[Any],
    jaxpr: ClosedJaxpr,
    **_: Any,
) -> bool:
    """Whether the devices of the program are those of the mesh, and the body says of all of them
    what they do."""
    module = ctx.module
    if len(module.devices) != mesh.size or module.manual is not None:
        return False
    split = {name for name, size in mesh.shape.items() if size > 1}
    return split <= {*newly_manual_axes} and not _has_unavailable(jaxpr.jaxpr)


def _has_unavailable(jaxpr: Jaxpr) -> bool:
    return any(eqn.primitive.name in without_form for eqn in jaxpr.eqns) or any(
        map(_has_unavailable, subjaxprs(jaxpr))
    )


def lower_by_parts(
    ctx: LoweringContext,
    *operands: Instruction,
    jaxpr: ClosedJaxpr,
    mesh: Mesh | AbstractMesh,
    in_specs: tuple[PartitionSpec, ...],
    out_specs: tuple[PartitionSpec, ...],
    **_: Any,
) -> list[Instruction]:
    module, builder, names = ctx.module, ctx.builder, ctx.names
    devices, avals_out = module.devices, list(ctx.avals_out)
    blocks = [
        _to_parts(builder, x, _sharding(mesh, spec, devices, x), aval_to_shape(aval))
        for x, spec, aval in zip(operands, in_specs, jaxpr.in_avals)
    ]
    where = hlo_mesh(mesh, devices)
    ids = tuple(where.ids().reshape(-1).tolist())
    module.manual = ManualMesh(mesh.axis_names, mesh.axis_sizes, ids)
    ctx.names = (*names, *(ctx.source.names if ctx.source else ()), "shard_map")
    try:
        parts = ctx.call(jaxpr, "shmap_body", *blocks)
    finally:
        module.manual = None
        ctx.names = names
    return [
        _to_whole(builder, x, spec, mesh, devices, aval_to_shape(aval))
        for x, spec, aval in zip(parts, out_specs, avals_out)
    ]


def _sharding(
    mesh: Mesh | AbstractMesh, spec: PartitionSpec, devices: Any, x: Instruction
) -> Sharding:
    return hlo_sharding(NamedSharding(mesh, spec), devices, x.shape.rank)


def _to_parts(builder: HloBuilder, x: Instruction, sharding: Sharding, part: Shape) -> Instruction:
    x = constrained(builder, x, sharding)
    attributes = CustomCallAttributes("SPMDFullToShardShape")
    call = builder.add(Opcode.CUSTOM_CALL, (x,), attributes, shape=part)
    call.annotations = {"sharding": "{manual}"}
    return call


def _to_whole(
    builder: HloBuilder,
    x: Instruction,
    spec: PartitionSpec,
    mesh: Mesh | AbstractMesh,
    devices: Any,
    whole: Shape,
) -> Instruction:
    attributes = CustomCallAttributes("SPMDShardToFullShape")
    call = builder.add(Opcode.CUSTOM_CALL, (x,), attributes, shape=whole)
    call.annotations = {"sharding": str(_sharding(mesh, spec, devices, call))}
    return call
