"""Collectives to HLO, and asynchronous operations, which are done where they start."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import (
    Dims,
    Rule,
    Scope,
    flag,
    integer,
    invalid,
)
from xla_backend.stablehlo.struct_attributes import struct_fields


def _groups(op: Operation, name: str = "replica_groups") -> tuple[Dims, ...]:
    """Rows of a dense matrix; -1 fills rows of groups that are smaller."""
    value = op.attributes.get(name)
    if value is None:
        return ()
    return tuple(tuple(int(d) for d in row if d >= 0) for row in value.array)


def _channel(op: Operation) -> int | None:
    """The channel; 0 stands for none."""
    handle: Any = op.attributes.get("channel_handle")
    return (struct_fields(handle).get("handle") or None) if handle is not None else None


def _attributes(op: Operation, dimensions: Dims = ()) -> CollectiveAttributes:
    return CollectiveAttributes(
        _groups(op), _channel(op), dimensions, flag(op, "use_global_device_ids")
    )


def _several(
    scope: Scope, op: Operation, opcode: Opcode, attributes: CollectiveAttributes
) -> list[Instruction]:
    """One instruction for all operands; several results make a tuple."""
    operands = scope.operands(op)
    called = [scope.region(r) for r in op.regions]
    shapes = [scope.program.shape(t) for t in op.result_types]
    shape = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    return scope.members(scope.builder.add(opcode, operands, attributes, called, shape))


def _all_gather(scope: Scope, op: Operation) -> list[Instruction]:
    return _several(scope, op, Opcode.ALL_GATHER, _attributes(op, (integer(op, "all_gather_dim"),)))


def _all_reduce(scope: Scope, op: Operation) -> list[Instruction]:
    return _several(scope, op, Opcode.ALL_REDUCE, _attributes(op))


def _reduce_scatter(scope: Scope, op: Operation) -> list[Instruction]:
    return _several(
        scope, op, Opcode.REDUCE_SCATTER, _attributes(op, (integer(op, "scatter_dimension"),))
    )


def _collective_broadcast(scope: Scope, op: Operation) -> Instruction:
    return scope.add(op, Opcode.COLLECTIVE_BROADCAST, scope.operands(op), _attributes(op))


def _collective_permute(scope: Scope, op: Operation) -> Instruction:
    pairs = tuple((a, b) for a, b in _groups(op, "source_target_pairs"))
    attributes = CollectivePermuteAttributes(pairs, _channel(op))
    return scope.add(op, Opcode.COLLECTIVE_PERMUTE, scope.operands(op), attributes)


def _all_to_all(scope: Scope, op: Operation) -> list[Instruction]:
    """HLO's exchanges blocks along one dimension; another dimension to join them along needs the
    block number moved there."""
    split, joined = integer(op, "split_dimension"), integer(op, "concat_dimension")
    count = integer(op, "split_count")
    results = []
    for operand in scope.operands(op):
        dims = operand.shape.dimensions
        if dims[split] % count:
            raise invalid(op, f"dimension {split} of {operand.shape} is no multiple of {count}")
        exchanged = scope.builder.add(
            Opcode.ALL_TO_ALL, [operand], _attributes(op, (split,)), shape=operand.shape
        )
        if split == joined:
            results.append(exchanged)
            continue
        block = dims[split] // count
        parts = scope.builder.reshape(exchanged, (*dims[:split], count, block, *dims[split + 1 :]))
        order = [d for d in range(len(dims) + 1) if d != split]
        order.insert(joined, split)
        moved = scope.builder.transpose(parts, order)
        final = list(dims)
        final[split], final[joined] = block, dims[joined] * count
        results.append(scope.builder.reshape(moved, final))
    return results


def _sum_computation(shape: Shape) -> Computation:
    builder = HloBuilder("sum")
    scalar = Shape(shape.element_type)
    operands = [builder.parameter(0, scalar), builder.parameter(1, scalar)]
    return builder.build(builder.add(Opcode.ADD, operands))


def _cross_replica_sum(scope: Scope, op: Operation) -> Instruction:
    (operand,) = scope.operands(op)
    return scope.add(
        op, Opcode.ALL_REDUCE, [operand], _attributes(op), [_sum_computation(operand.shape)]
    )


def _device_number(opcode: Opcode) -> Rule:
    return lambda scope, op: scope.add(op, opcode, ())


# -- asynchronous operations -----------------------------------------------------------------------


def _async_start(scope: Scope, op: Operation) -> Instruction:
    """The region's operations right here: when they run is not part of the meaning."""
    block = op.regions[0].block
    scope.values.update(zip(block.arguments, scope.operands(op)))
    return scope.pack(scope.block(block))


def _async_done(scope: Scope, op: Operation) -> list[Instruction]:
    (future,) = scope.operands(op)
    return [future] if len(op.results) == 1 else scope.members(future)


RULES: dict[str, Rule] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.async_done": _async_done,
    "stablehlo.async_start": _async_start,
    "stablehlo.collective_broadcast": _collective_broadcast,
    "stablehlo.collective_permute": _collective_permute,
    "stablehlo.cross-replica-sum": _cross_replica_sum,
    "stablehlo.partition_id": _device_number(Opcode.PARTITION_ID),
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.replica_id": _device_number(Opcode.REPLICA_ID),
}
