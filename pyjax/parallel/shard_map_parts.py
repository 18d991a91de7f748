"""shard_map in a program that the devices of its mesh run together: each computes the body on its
blocks, and collectives are exchanges between them. Along the axes that the body does not see the
compiler cuts what it computes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.interpreters.hlo import LoweringContext, aval_to_shape, constrained
from pyjax.interpreters.manual_mesh import ManualMesh
from pyjax.parallel.blocks import stored_spec
from pyjax.sharding.hlo_shardings import hlo_mesh, sharding_on
from pyjax.sharding.mesh import AbstractMesh, Mesh
from pyjax.sharding.partition_spec import PartitionSpec
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding


def is_by_parts(ctx: LoweringContext, *, mesh: Mesh | AbstractMesh, **_: Any) -> bool:
    """Whether the devices of the program are those of the mesh."""
    return len(ctx.module.devices) == mesh.size


def lower_by_parts(
    ctx: LoweringContext,
    *operands: Instruction,
    jaxpr: ClosedJaxpr,
    mesh: Mesh | AbstractMesh,
    in_specs: tuple[PartitionSpec, ...],
    out_specs: tuple[PartitionSpec, ...],
    newly_manual_axes: AbstractSet[Any],
    **_: Any,
) -> list[Instruction]:
    module, builder, names = ctx.module, ctx.builder, ctx.names
    around, avals_out = module.manual, list(ctx.avals_out)
    body = _Body(mesh, newly_manual_axes, module.devices, around)
    blocks = [
        body.to_parts(builder, x, spec, aval_to_shape(aval))
        for x, spec, aval in zip(operands, in_specs, jaxpr.in_avals)
    ]
    module.manual = body.manual
    ctx.names = (*names, *(ctx.source.names if ctx.source else ()), "shard_map")
    try:
        parts = ctx.call(jaxpr, "shmap_body", *blocks)
    finally:
        module.manual = around
        ctx.names = names
    return [
        body.to_whole(builder, x, spec, aval_to_shape(aval))
        for x, spec, aval in zip(parts, out_specs, avals_out)
    ]


class _Body:
    """The values of one shard_map in HLO's words.

    Attributes:
      manual: what holds inside.
    """

    def __init__(
        self,
        mesh: Mesh | AbstractMesh,
        newly_manual: AbstractSet[Any],
        devices: Any,
        around: ManualMesh | None,
    ) -> None:
        """`around`: of a shard_map around this one, whose mesh is the same."""
        where = hlo_mesh(mesh, devices) if around is None else around.where
        self._outside: AbstractSet[Any] = frozenset() if around is None else around.axes
        axes = self._outside | frozenset(newly_manual)
        self._is_open = any(size > 1 and n not in axes for n, size in mesh.shape.items())
        text = "{manual}"
        if self._is_open:
            text = str(sharding_on(where, mesh.axis_names, PartitionSpec(), 0, manual=axes))
        self._sizes = mesh.shape
        self.manual = ManualMesh(mesh.axis_names, where, axes, text)

    def to_parts(
        self, builder: HloBuilder, x: Instruction, spec: PartitionSpec, part: Shape
    ) -> Instruction:
        """`part`: the shape that a device has, of a sum that is still to be made its summand."""
        x = constrained(builder, x, self._cut(spec, x.shape.rank))
        attributes = CustomCallAttributes("SPMDFullToShardShape")
        ones = (1,) * len(spec.unreduced)
        shape = part.with_dimensions((*ones, *part.dimensions)) if ones else part
        call = self.manual.own(builder.add(Opcode.CUSTOM_CALL, (x,), attributes, shape=shape))
        return builder.reshape(call, part.dimensions) if ones else call

    def to_whole(
        self, builder: HloBuilder, x: Instruction, spec: PartitionSpec, whole: Shape
    ) -> Instruction:
        if spec.unreduced:
            x = builder.reshape(x, ((1,) * len(spec.unreduced) + x.shape.dimensions))
        attributes = CustomCallAttributes("SPMDShardToFullShape")
        call = builder.add(Opcode.CUSTOM_CALL, (x,), attributes, shape=whole)
        call.annotations = {"sharding": str(self._cut(spec, whole.rank))}
        return call

    def _cut(self, spec: PartitionSpec, rank: int) -> Sharding:
        """Along the axes that are manual inside, of a value that is outside."""
        where, names = self.manual.where, self.manual.names
        spec = stored_spec(self._sizes, spec)
        return sharding_on(where, names, spec, rank, is_open=self._is_open, manual=self._outside)
