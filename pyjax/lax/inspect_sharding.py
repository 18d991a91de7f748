"""How the compiler has laid out a value of a program that several devices run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.effects import debug_effect
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.rules import FullJvp, Unsupported, define_primitive
from pyjax.runtime.devices import default_device
from pyjax.sharding.hlo_shardings import mesh_of_devices, named_sharding
from pyjax.sharding.shardings import Sharding, SingleDeviceSharding
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding as HloSharding
from xla_backend.spmd.custom import Mappings, PartitionedCall, PartitioningRule

_numbers = itertools.count()


class _Inspection(PartitioningRule):
    """A call that does nothing, and learns how its operand is cut."""

    devices: Sequence[Any]
    callback: Callable[[Sharding], None]
    shape: Shape

    def mappings(self) -> Mappings | None:
        return None

    def results_of(self, operands: Sequence[HloSharding]) -> Sequence[HloSharding] | None:
        return None

    def partitioned(
        self, operands: Sequence[HloSharding], results: Sequence[HloSharding]
    ) -> PartitionedCall:
        (cut,) = operands
        mesh = mesh_of_devices(cut.mesh, self.devices)
        found = named_sharding(cut, mesh, self.shape.rank)
        self.callback(found)
        builder = HloBuilder("inspected")
        part = found.shard_shape(self.shape.dimensions)
        builder.parameter(0, self.shape.with_dimensions(part))
        return PartitionedCall(builder.build(builder.tuple(())), operands, ())


def _lowering(
    ctx: LoweringContext, x: Instruction, *, callback: Callable[[Sharding], None]
) -> list[Instruction]:
    devices = ctx.module.devices
    if len(devices) < 2:
        callback(SingleDeviceSharding(default_device()))
        return []
    rule = _Inspection(f"inspection {next(_numbers)}")
    rule.devices, rule.callback, rule.shape = devices, callback, x.shape
    attributes = CustomCallAttributes("InspectSharding", rule, has_side_effect=True)
    ctx.builder.add(Opcode.CUSTOM_CALL, (x,), attributes, shape=Shape.tuple(()))
    return []


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    inspect_sharding_p.bind_all(*primals, **params)
    return [], []


def _batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
    inspect_sharding_p.bind_all(*args, **params)
    return [], []


inspect_sharding_p: Primitive = define_primitive(
    "inspect_sharding",
    abstract_eval=lambda x, *, callback: [],
    jvp=FullJvp(_jvp),
    transpose=Unsupported("it has no result"),
    batching=_batching,
    lowering=_lowering,
    effects=lambda *avals, **params: frozenset([debug_effect]),
    multiple_results=True,
)
