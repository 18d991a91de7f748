"""Values that are to lie alike over the devices of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.layouts import Known, layout_rules
from pyjax.interpreters.rules import LINEAR, define_primitive
from pyjax.interpreters.splits import AS_TYPED, split_rules
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode


def _transpose(cts: Sequence[Any], x: Any, y: Any) -> list[Any]:
    if all(type(ct) is ad.Zero for ct in cts):
        return [ad.Zero(x.aval), ad.Zero(y.aval)]
    return shard_alike_p.bind(*map(ad.instantiate_zeros, cts))


def _batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    moved = [bdim_at_front(x, dim, axis_size) for x, dim in zip(args, dims)]
    return shard_alike_p.bind(*moved), [0, 0]


def _lowering(ctx: LoweringContext, *operands: Instruction) -> list[Instruction]:
    if not ctx.module.devices or ctx.module.manual is not None:
        return list(operands)
    group = ctx.module.next_group()
    found = []
    for x in operands:
        attributes = CustomCallAttributes("Sharding")
        call = ctx.builder.add(Opcode.CUSTOM_CALL, (x,), attributes, shape=x.shape)
        call.annotations = {"sharding": f"{{unknown shard_as {group}}}"}
        found.append(call)
    return found


def _layouts(eqn: Any, operands: Sequence[Known]) -> Sequence[Known]:
    known = next((layout for layout in operands if layout is not None), None)
    return [layout or known for layout in operands]


shard_alike_p = define_primitive(
    "shard_alike",
    abstract_eval=lambda x, y: [x, y],
    jvp=LINEAR,
    transpose=_transpose,
    batching=_batching,
    lowering=_lowering,
    multiple_results=True,
)
split_rules[shard_alike_p] = AS_TYPED
layout_rules[shard_alike_p] = _layouts
