"""Who takes part in a run: replicas times partitions, and the groups that collectives join."""

from __future__ import annotations

from xla_backend.hlo.attributes import CollectiveAttributes, CollectivePermuteAttributes, Value
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode

Group = tuple[int, ...]
Groups = tuple[Group, ...]

# With a channel and no use_global_device_ids these join the replicas of all partitions; the other
# collectives join partitions of one replica.
_JOINS_REPLICAS_AND_PARTITIONS = frozenset(
    {
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_START,
        Opcode.ALL_GATHER,
        Opcode.ALL_GATHER_START,
        Opcode.REDUCE_SCATTER,
    }
)


class Topology(Value):
    """`replica_count` x `num_partitions` participants; number = replica * partitions +
    partition."""

    replica_count: int = 1
    num_partitions: int = 1

    @property
    def size(self) -> int:
        return self.replica_count * self.num_partitions

    def groups(self, node: Instruction) -> Groups:
        """Groups of a collective as participant numbers, each in the order of its attribute.

        The four modes: without a channel, groups name replicas, once per partition; with a
        channel, they name partitions, once per replica, or (all-reduce, all-gather,
        reduce-scatter) replicas with all their partitions; with use_global_device_ids, they name
        participants.
        """
        a = node.attributes
        assert isinstance(a, CollectiveAttributes)
        parts, replicas = range(self.num_partitions), range(self.replica_count)
        named = a.replica_groups
        if a.use_global_device_ids:
            return named or (tuple(range(self.size)),)
        if a.channel_id is None:
            named = named or (tuple(replicas),)
            return tuple(tuple(self.number(r, p) for r in g) for g in named for p in parts)
        if node.opcode in _JOINS_REPLICAS_AND_PARTITIONS:
            named = named or (tuple(replicas),)
            return tuple(tuple(self.number(r, p) for r in g for p in parts) for g in named)
        named = named or (tuple(parts),)
        return tuple(tuple(self.number(r, p) for p in g) for g in named for r in replicas)

    def number(self, replica: int, partition: int) -> int:
        """The participant that is this replica and partition."""
        return replica * self.num_partitions + partition

    def pairs(self, node: Instruction) -> tuple[tuple[int, int], ...]:
        """(source, target) of a collective-permute, as participant numbers."""
        a = node.attributes
        assert isinstance(a, CollectivePermuteAttributes)
        listed = a.source_target_pairs
        if a.channel_id is None:
            parts = range(self.num_partitions)
            return tuple((self.number(s, p), self.number(t, p)) for s, t in listed for p in parts)
        replicas = range(self.replica_count)
        return tuple((self.number(r, s), self.number(r, t)) for s, t in listed for r in replicas)


ALONE = Topology()
