"""What passes on collectives ask about them."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import CollectiveAttributes, DynamicSliceAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.topology import Groups, Topology
from xla_backend.passes.participant_values import value_by_participant


def exchanged_alike(first: Instruction, second: Instruction) -> bool:
    """Whether two collectives of one opcode go between the same devices, combine by the same
    operation and join or cut the same dimension."""
    return key_of(first) == key_of(second)


def key_of(node: Instruction) -> tuple[object, ...]:
    """What two collectives have in common that can be one."""
    a = node.attributes
    assert isinstance(a, CollectiveAttributes)
    operation = monoid(node.called[0]) if node.called else None
    types = tuple(dict.fromkeys(x.shape.element_type for x in node.operands if node.called))
    return (
        node.opcode, a.replica_groups, a.channel_id is None, a.dimensions,
        a.use_global_device_ids, a.constrain_layout, operation, types,
    )  # fmt: skip


def topology_of(node: Instruction) -> Topology:
    """Who runs an instruction's module."""
    assert node.parent is not None and node.parent.module is not None
    module = node.parent.module
    return Topology(module.replica_count, module.num_partitions)


def sliced_by_position(
    node: Instruction, groups: Groups, topology: Topology
) -> tuple[int, Groups] | None:
    """Of a dynamic-slice that gives each member of a group an equal part of one dimension: the
    dimension, and the groups in the order of these parts."""
    a = node.attributes
    assert isinstance(a, DynamicSliceAttributes)
    whole, starts = node.operands[0].shape.dimensions, node.operands[1:]
    cut = [d for d, (size, taken) in enumerate(zip(whole, a.sizes)) if size != taken]
    if len(cut) != 1 or not groups:
        return None
    (d,) = cut
    if any(len(group) * a.sizes[d] != whole[d] for group in groups):
        return None
    begins = value_by_participant(starts[d], topology)
    if begins is None:
        return None
    ordered = [_in_order(group, begins, a.sizes[d]) for group in groups]
    found = [group for group in ordered if group is not None]
    return (d, tuple(found)) if len(found) == len(groups) else None


def _in_order(group: Sequence[int], begins: Sequence[int], size: int) -> tuple[int, ...] | None:
    """Members as they take one part after the other; None: they do not."""
    ordered = tuple(sorted(group, key=lambda member: begins[member]))
    wanted = [size * k for k in range(len(group))]
    return ordered if [begins[member] for member in ordered] == wanted else None
