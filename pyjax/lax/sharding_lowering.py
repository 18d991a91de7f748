"""Layouts that values must have, as they are written into programs.

They are shardings of HLO, or, where a program runs on one device, of the sharding dialect
(`jax_use_shardy_partitioner`), where names of meshes and axes stay.
"""

from __future__ import annotations

from typing import Any

from pyjax._config import options
from pyjax.interpreters.hlo import constrained
from pyjax.sharding.hlo_shardings import hlo_mesh, sharding_on
from pyjax.sharding.partition_spec import UNCONSTRAINED
from pyjax.sharding.shardings import NamedSharding
from pyjax.sharding.splits import of_summands
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.text_position import quote


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
