"""Collectives as instructions of HLO, in programs that several devices run together: there a named
axis is one of the mesh, and its positions are devices.

Over the axis of a vmap none is ever lowered: batching has turned it into operations on a dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.core.axis_env import names_of
from pyjax.core.errors import fail
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.manual_mesh import ManualMesh
from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    DynamicSliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType

# `rule(context, mesh, *operands, **params)`: the results.
OverMesh = Callable[..., "list[Instruction] | Instruction"]


def lowering_over_mesh(name: str, rule: OverMesh) -> Callable[..., Any]:
    """The lowering rule of a collective.

    Raises, when it is used:
      NameError: no map binds the axis.
    """

    def lowering(ctx: LoweringContext, *operands: Instruction, **params: Any) -> Any:
        mesh = ctx.module.manual
        if mesh is None:
            axes = params.get("axes", params.get("axis_name", ()))
            fail(
                NameError,
                f"Found an unbound axis name: {axes}.",
                f"{name} was compiled outside of a map that binds it.",
                "call it inside vmap(f, axis_name=...).",
            )
        return rule(ctx, mesh, *operands, **params)

    return lowering


def _attributes(
    ctx: LoweringContext,
    mesh: ManualMesh,
    axes: Any,
    groups: Any,
    *dimensions: int,
) -> CollectiveAttributes:
    return CollectiveAttributes(
        mesh.groups(names_of(axes), groups),
        ctx.module.next_channel(),
        dimensions,
        use_global_device_ids=True,
    )


def reduction(opcode: Opcode) -> OverMesh:
    """psum and the like: an all-reduce of each operand."""

    def rule(
        ctx: LoweringContext,
        mesh: ManualMesh,
        *operands: Instruction,
        axes: tuple[Any, ...],
        axis_index_groups: Any = None,
    ) -> list[Instruction]:
        if len(mesh.groups(axes, axis_index_groups)[0]) == 1:
            return list(operands)
        return [
            mesh.own(
                ctx.builder.add(
                    Opcode.ALL_REDUCE,
                    (x,),
                    _attributes(ctx, mesh, axes, axis_index_groups),
                    [ctx.reducer(opcode, x.shape.element_type)],
                    shape=x.shape,
                )
            )
            for x in operands
        ]

    return rule


def all_gather(
    ctx: LoweringContext,
    mesh: ManualMesh,
    x: Instruction,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    axis_size: int,
    tiled: bool,
    axis_index_groups: Any = None,
) -> Instruction:
    dims = list(x.shape.dimensions)
    if not tiled:
        dims.insert(all_gather_dimension, 1)
        x = ctx.builder.reshape(x, dims)
    if axis_size == 1:
        return x
    dims[all_gather_dimension] *= axis_size
    attributes = _attributes(ctx, mesh, axis_name, axis_index_groups, all_gather_dimension)
    shape = x.shape.with_dimensions(tuple(dims))
    return mesh.own(ctx.builder.add(Opcode.ALL_GATHER, (x,), attributes, shape=shape))


def reduce_scatter(
    ctx: LoweringContext,
    mesh: ManualMesh,
    x: Instruction,
    *,
    axis_name: Any,
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
    axis_index_groups: Any = None,
) -> Instruction:
    dims = list(x.shape.dimensions)
    dims[scatter_dimension] //= axis_size
    if axis_size > 1:
        attributes = _attributes(ctx, mesh, axis_name, axis_index_groups, scatter_dimension)
        called = [ctx.reducer(Opcode.ADD, x.shape.element_type)]
        shape = x.shape.with_dimensions(tuple(dims))
        x = mesh.own(ctx.builder.add(Opcode.REDUCE_SCATTER, (x,), attributes, called, shape))
    if not tiled:
        del dims[scatter_dimension]
    return ctx.builder.reshape(x, dims)


def all_to_all(
    ctx: LoweringContext,
    mesh: ManualMesh,
    x: Instruction,
    *,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    axis_index_groups: Any,
    tiled: bool,
) -> Instruction:
    """The slices in front, numbered by who gets them, become numbered by who sent them."""
    rest = [d for d in range(x.shape.rank) if d != split_axis]
    x = ctx.builder.transpose(x, [split_axis, *rest])
    if x.shape.dimensions[0] > 1:
        attributes = _attributes(ctx, mesh, axis_name, axis_index_groups, 0)
        x = mesh.own(ctx.builder.add(Opcode.ALL_TO_ALL, (x,), attributes, shape=x.shape))
    order = list(range(1, x.shape.rank))
    order.insert(concat_axis, 0)
    return ctx.builder.transpose(x, order)


def ragged_all_to_all(
    ctx: LoweringContext,
    mesh: ManualMesh,
    *operands: Instruction,
    axis_name: Any,
    axis_index_groups: Any,
) -> Instruction:
    attributes = _attributes(ctx, mesh, axis_name, axis_index_groups)
    shape = operands[1].shape
    return mesh.own(ctx.builder.add(Opcode.RAGGED_ALL_TO_ALL, operands, attributes, shape=shape))


def ppermute(
    ctx: LoweringContext, mesh: ManualMesh, x: Instruction, *, axis_name: Any, perm: Any
) -> Instruction:
    pairs = tuple(
        (group[source], group[target])
        for group in mesh.groups(names_of(axis_name))
        for source, target in perm
    )
    attributes = CollectivePermuteAttributes(pairs, ctx.module.next_channel())
    return mesh.own(ctx.builder.add(Opcode.COLLECTIVE_PERMUTE, (x,), attributes, shape=x.shape))


def axis_index(ctx: LoweringContext, mesh: ManualMesh, *, axis_name: Any) -> Instruction:
    """Looked up by the number of the device."""
    builder = ctx.builder
    table = builder.constant(mesh.positions(axis_name))
    device = mesh.own(builder.add(Opcode.PARTITION_ID, shape=Shape.array(PrimitiveType.U32)))
    entry = builder.add(
        Opcode.DYNAMIC_SLICE,
        (table, builder.convert(device, PrimitiveType.S32)),
        DynamicSliceAttributes((1,)),
        shape=Shape.array(PrimitiveType.S32, (1,)),
    )
    return builder.reshape(entry, ())
