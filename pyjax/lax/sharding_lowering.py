"""Layouts that values must have, as they are written into programs.

They are shardings of HLO, which name the axes of meshes; where a program runs on one device they do
nothing.
"""

from __future__ import annotations

from typing import Any

from pyjax.interpreters.hlo import constrained
from pyjax.sharding.hlo_shardings import hlo_axes, hlo_mesh, sharding_on
from pyjax.sharding.shardings import NamedSharding
from pyjax.sharding.splits import of_summands
from xla_backend.hlo import device_lists
from xla_backend.hlo.instruction import Instruction


def lay_out(ctx: Any, x: Instruction, sharding: Any, is_open: bool = False) -> Instruction:
    """A value that is to lie so; what is no NamedSharding says nothing here.

    Args:
      is_open: whether the compiler may cut it further.
    """
    if not isinstance(sharding, NamedSharding):
        return x
    sharding = of_summands(sharding, x.shape.rank - len(sharding.spec.unreduced))
    manual = ctx.module.manual
    if manual is not None:
        spec, rank = sharding.spec, x.shape.rank
        own = sharding_on(
            manual.where, manual.names, spec, rank, is_open=is_open, manual=manual.axes
        )
        return constrained(ctx.builder, x, own)
    devices = ctx.module.devices
    if devices:
        mesh, names = hlo_mesh(sharding.mesh, devices), sharding.mesh.axis_names
        there = sharding_on(mesh, names, sharding.spec, x.shape.rank, is_open=is_open)
        return constrained(ctx.builder, x, there)
    there = sharding_on(
        device_lists.Mesh(hlo_axes(sharding.mesh)), sharding.mesh.axis_names, sharding.spec,
        x.shape.rank, is_open=is_open,
    )  # fmt: skip
    return constrained(ctx.builder, x, there)
