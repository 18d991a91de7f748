"""The sharding dialect to HLO: where values live, and bodies that see parts.

The partitioner reads what is written here as attributes of the frontend (`xla.sdy.*`). Programs of
one device have no use for it.
"""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.attributes import CallAttributes, CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo.attribute_text import attribute_text
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.lowering import (
    Rule,
    Scope,
    annotations_from,
    captured_values,
    invalid,
)
from xla_backend.stablehlo.module import Module


def _constraint(scope: Scope, op: Operation) -> list[Instruction]:
    """A scalar lives on every device, in reducers too, where nothing else may stand; but for sums
    that are still to be made."""
    value = scope.value(op.operands[0])
    is_sum = "unreduced=" in attribute_text(op.attributes["sharding"])
    if scope.program.partitions == 1 or not (value.shape.rank or is_sum):
        return [value]
    return [
        _call(scope, "Sharding", [value], value.shape, {"sdy.sharding": op.attributes["sharding"]})
    ]


def _barrier(scope: Scope, op: Operation) -> list[Instruction]:
    """A value that is cut as another one, in one direction or none."""
    value = scope.value(op.operands[0])
    if op.attributes["allowed_direction"].value == 3:
        raise invalid(op, "a barrier that lets BOTH directions through is none; leave it out")
    if scope.program.partitions == 1 or not value.shape.rank:
        return [value]
    said = {"sdy.allowed_direction": op.attributes["allowed_direction"]}
    return [_call(scope, "xla.sdy.PropagationBarrier", [value], value.shape, said, True)]


def _group(scope: Scope, op: Operation) -> list[Instruction]:
    """A value that is cut as the others of its group."""
    value = scope.value(op.operands[0])
    if scope.program.partitions > 1 and value.shape.rank:
        said = {"sdy.sharding_group_id": op.attributes["group_id"]}
        _call(scope, "xla.sdy.ShardingGroup", [value], Shape.tuple([]), said, True)
    return []


def _call(
    scope: Scope,
    target: str,
    operands: list[Instruction],
    shape: Shape,
    attributes: dict[str, Any],
    has_side_effect: bool = False,
) -> Instruction:
    call = scope.builder.add(
        Opcode.CUSTOM_CALL,
        operands,
        CustomCallAttributes(target, has_side_effect=has_side_effect),
        shape=shape,
    )
    call.annotations = annotations_from(attributes)
    return call


def _manual_computation(scope: Scope, op: Operation) -> list[Instruction]:
    """A call of the body, between calls that take arrays apart and put results together."""
    outside = captured_values(op.regions)
    if outside:
        raise invalid(op, "the body uses a whole value from outside; pass it as an operand")
    axes = op.attributes["manual_axes"]
    block = op.regions[0].block
    parts: list[Instruction] = []
    if op.operands:
        shapes = [scope.program.shape(a.type) for a in block.arguments]
        if len(shapes) != len(op.operands):
            raise invalid(op, f"the body takes {len(shapes)} of {len(op.operands)} operands")
        attributes = {"sdy.in_shardings": op.attributes["in_shardings"], "sdy.manual_axes": axes}
        parts = _border(scope, "xla.sdy.GlobalToLocalShape", scope.operands(op), shapes, attributes)
    inner = Scope(scope.program, "manual_computation")
    for i, (argument, part) in enumerate(zip(block.arguments, parts)):
        inner.values[argument] = inner.builder.parameter(i, part.shape)
    body = inner.builder.build(inner.pack(inner.block(block)))
    call = scope.builder.add(Opcode.CALL, parts, CallAttributes(), [body])
    if not op.results:
        return []
    results = [call] if len(op.results) == 1 else scope.members(call)
    shapes = [scope.program.shape(t) for t in op.result_types]
    attributes = {"sdy.out_shardings": op.attributes["out_shardings"], "sdy.manual_axes": axes}
    return _border(scope, "xla.sdy.LocalToGlobalShape", results, shapes, attributes)


def _border(
    scope: Scope,
    target: str,
    operands: list[Instruction],
    shapes: list[Shape],
    attributes: dict[str, Any],
) -> list[Instruction]:
    if scope.program.partitions == 1:
        return operands
    shape = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    return scope.members(_call(scope, target, operands, shape, attributes, True))


def constrain_results(
    scope: Scope, function: Operation, results: list[Instruction]
) -> list[Instruction]:
    """The results of a program, cut as the attributes of the function's results say."""
    said: Any = function.attributes.get("res_attrs")
    if scope.program.partitions == 1 or not said:
        return results
    found = []
    for value, attributes in zip(results, said, strict=True):
        own = {k: v for k, v in attributes.items() if k in ("sdy.sharding", "mhlo.sharding")}
        is_sum = "unreduced=" in attribute_text(own.get("sdy.sharding", ""))
        if own and value.shape.is_array and (value.shape.rank or is_sum):
            value = _call(scope, "Sharding", [value], value.shape, own)
        found.append(value)
    return found


def set_meshes(result: HloModule, module: Module) -> None:
    """The meshes of a program, where the partitioner looks for them."""
    meshes = [op.attributes for op in module.body.block.operations if op.name == "sdy.mesh"]
    texts = [f"{m['sym_name']} = {attribute_text(m['mesh'])}" for m in meshes]
    if texts:
        said = f"{{xla.sdy.meshes={{{', '.join(texts)}}}}}"
        result.attributes["frontend_attributes"] = said


RULES: dict[str, Rule] = {
    "sdy.manual_computation": _manual_computation,
    "sdy.propagation_barrier": _barrier,
    "sdy.reshard": _constraint,
    "sdy.sharding_constraint": _constraint,
    "sdy.sharding_group": _group,
}
