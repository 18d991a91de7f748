"""HLO's calls around bodies that see parts, as `sdy.manual_computation`; what guides
propagation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.stablehlo.attributes import DialectAttribute
from xla_backend.stablehlo.from_hlo_context import Scope, Values, discardable, leaf_types

_INTO, _OUT_OF = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"


class ManualComputation(NamedTuple):
    """The calls that it is made of; `into` is None if it has no operands."""

    into: Instruction | None
    body: Instruction
    out_of: Instruction


def manual_computation_of(node: Instruction) -> ManualComputation | None:
    """That which an instruction is a part of, if nothing else uses what is inside."""
    end: Instruction | None = node
    while end is not None and _target(end) != _OUT_OF:
        end = _only_user(end) if end.opcode is Opcode.CALL or _target(end) == _INTO else None
    body = None if end is None else _source(end.operands)
    if end is None or body is None or body.opcode is not Opcode.CALL or _only_user(body) != end:
        return None
    into = _source(body.operands)
    if body.operands and (into is None or _target(into) != _INTO or _only_user(into) != body):
        return None
    found = ManualComputation(into, body, end)
    return found if node in found else None


def manual_computation(scope: Scope, node: Instruction, found: ManualComputation) -> Values:
    """What a part of one gives: its beginning hands the whole arrays on, its end is the operation;
    the values in between are those of the body."""
    if node is found.into:
        return scope.operands(node)
    if node is found.body:
        return []
    said = discardable(node.annotations)
    shardings = DialectAttribute("sdy.sharding_per_value", "[]")
    operands: Values = []
    if found.into is not None:
        shardings = discardable(found.into.annotations)["sdy.in_shardings"]
        operands = scope.leaves(found.into)
    region = scope.region(found.body.called[0])
    region.block.terminator.name = "sdy.return"
    attributes = {
        "in_shardings": shardings,
        "out_shardings": said["sdy.out_shardings"],
        "manual_axes": said["sdy.manual_axes"],
    }
    types = leaf_types(node.shape)
    return scope.emit("sdy.manual_computation", operands, types, attributes, [region])


def guide(scope: Scope, node: Instruction) -> Values | None:
    """Of a call that is a constraint, a barrier or a member of a group: that; None: of another."""
    said, target = discardable(node.annotations), _target(node)
    name, field, own = _GUIDES.get(target, ("", "", ""))
    if own not in said:
        return None
    types = leaf_types(node.shape)
    return scope.emit(name, scope.operands(node), types, {field: said[own]})


# Of each target the operation, its attribute, and that of the call.
_GUIDES = {
    "Sharding": ("sdy.sharding_constraint", "sharding", "sdy.sharding"),
    "xla.sdy.PropagationBarrier": (
        "sdy.propagation_barrier", "allowed_direction", "sdy.allowed_direction",
    ),
    "xla.sdy.ShardingGroup": ("sdy.sharding_group", "group_id", "sdy.sharding_group_id"),
}  # fmt: skip


def _target(node: Instruction) -> str:
    return getattr(node.attributes, "target", "")


def _source(values: Sequence[Instruction]) -> Instruction | None:
    """The instruction that these are the value of, or in order all members."""
    if len(values) == 1 and values[0].opcode is not Opcode.GET_TUPLE_ELEMENT:
        return values[0]
    if not values or any(v.opcode is not Opcode.GET_TUPLE_ELEMENT for v in values):
        return None
    (source, *others) = {v.operands[0] for v in values}
    in_order = [v.tuple_index for v in values] == [*range(source.shape.leaf_count)]
    return source if in_order and not others else None


def _only_user(node: Instruction) -> Instruction | None:
    """The one that uses a value or its members; None: several, or what is around does."""
    root = None if node.parent is None else node.parent.root
    users: set[Instruction] = set()
    for user in node.users:
        members = user.opcode is Opcode.GET_TUPLE_ELEMENT
        users.update(user.users if members else (user,))
        if user is root and members:
            return None
    return users.pop() if len(users) == 1 and node is not root else None
