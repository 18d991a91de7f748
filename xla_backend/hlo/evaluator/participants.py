"""Who takes part in a run: replicas times partitions, the groups of a collective, and the meeting
point where participants exchange values in lockstep."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_backend.hlo.attributes import CollectiveAttributes, CollectivePermuteAttributes
from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode

Value = Any
Groups = tuple[tuple[int, ...], ...]
# From the operands of each member of a group, in group order, to the result of each.
Meaning = Callable[[list[list[Value]]], Sequence[Value]]

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


@dataclass(frozen=True, slots=True)
class Topology:
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

    def pairs(self, node: Instruction) -> dict[int, int]:
        """Target to source of a collective-permute, as participant numbers."""
        a = node.attributes
        assert isinstance(a, CollectivePermuteAttributes)
        listed = a.source_target_pairs
        if a.channel_id is None:
            parts = range(self.num_partitions)
            return {self.number(t, p): self.number(s, p) for s, t in listed for p in parts}
        replicas = range(self.replica_count)
        return {self.number(r, t): self.number(r, s) for s, t in listed for r in replicas}


class _Stopped(Exception):
    """Another participant failed; this one is to end quietly."""


class Lockstep:
    """The meeting point of participants that each run in a thread of their own. Nobody computes
    while waiting, so the order in which threads run cannot be seen in the results."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._condition = threading.Condition()
        self._waiting: dict[int, str] = {}  # participant -> what it waits for
        self._finished = 0
        self._meetings: dict[Hashable, dict[int, list[Value]]] = {}
        self._results: dict[tuple[Hashable, int], Value] = {}
        self._mail: dict[tuple[Hashable, int], deque[Value]] = {}
        self.failure: BaseException | None = None

    def exchange(
        self,
        me: int,
        key: Hashable,
        group: Sequence[int],
        what: str,
        operands: list[Value],
        meaning: Meaning,
    ) -> Value:
        """Wait until every member of `group` has come to `key`; the result of this one."""
        with self._condition:
            arrived = self._meetings.setdefault(key, {})
            arrived[me] = operands
            if len(arrived) == len(group):
                del self._meetings[key]
                for member, result in zip(group, meaning([arrived[p] for p in group])):
                    self._results[key, member] = result
                    self._waiting.pop(member, None)
                self._condition.notify_all()
            else:
                self._wait(me, what, lambda: (key, me) in self._results)
            return self._results.pop((key, me))

    def post(self, channel: Hashable, target: int, value: Value) -> None:
        with self._condition:
            self._mail.setdefault((channel, target), deque()).append(value)
            self._waiting.pop(target, None)
            self._condition.notify_all()

    def take(self, channel: Hashable, me: int, what: str) -> Value:
        with self._condition:
            box = self._mail.setdefault((channel, me), deque())
            if not box:
                self._wait(me, what, lambda: bool(box))
            return box.popleft()

    def finish(self, failure: BaseException | None = None) -> None:
        """A participant is through, or failed: then all stop."""
        with self._condition:
            self._finished += 1
            if failure is not None and not isinstance(failure, _Stopped):
                self.failure = self.failure or failure
            self._check_progress()
            self._condition.notify_all()

    def _wait(self, me: int, what: str, ready: Callable[[], bool]) -> None:
        while not ready():
            if self.failure is not None:
                raise _Stopped
            self._waiting[me] = what
            self._check_progress()
            if self.failure is not None:  # noticed here: this participant reports it
                raise self.failure
            self._condition.wait()

    def _check_progress(self) -> None:
        """When all that are not finished wait, they wait forever."""
        if self._waiting and len(self._waiting) + self._finished == self._count:
            waits = "; ".join(f"{p} in {what}" for p, what in sorted(self._waiting.items()))
            self.failure = self.failure or RuntimeFailure(
                f"participants wait for partners that never come: {waits}. All members of a group "
                f"must run the same collectives in the same order"
            )
            self._condition.notify_all()


class Participant:
    """One replica and partition of a run, and how it meets the others."""

    def __init__(self, number: int, topology: Topology, lockstep: Lockstep) -> None:
        self.number = number
        self.topology = topology
        self.replica, self.partition = divmod(number, topology.num_partitions)
        self._lockstep = lockstep
        self._visits: dict[Hashable, int] = {}

    def exchange(self, node: Instruction, operands: list[Value], meaning: Meaning) -> Value:
        """Run a collective with the group that this participant belongs to."""
        group = next((g for g in self.topology.groups(node) if self.number in g), None)
        if group is None:
            raise RuntimeFailure(f"participant {self.number} is in no replica group of {node}")
        return self.meet(node, group, operands, meaning)

    def meet(
        self, node: Instruction, group: tuple[int, ...], operands: list[Value], meaning: Meaning
    ) -> Value:
        """Exchange with `group`, which contains this participant."""
        if group == (self.number,):
            return meaning([operands])[0]
        if max(group) >= self.topology.size:
            raise UnimplementedError(
                f"{node} joins participants {list(group)}, the run has {self.topology.size}; use "
                f"evaluate_partitioned with all of them"
            )
        # A channel may be spelled by several instructions (one per branch); else the node is it.
        channel = getattr(node.attributes, "channel_id", None)
        place = (node.opcode, channel) if channel is not None else (node.opcode, id(node), "node")
        key = (place, group)
        visit = self._visits[key] = self._visits.get(key, 0) + 1
        what = f"%{node.name} ({node.opcode})"
        return self._lockstep.exchange(self.number, (key, visit), group, what, operands, meaning)

    def send(self, channel: Hashable, target: int, value: Value) -> None:
        """Leave a value for `target` (a participant number)."""
        self._lockstep.post(channel, target, value)

    def receive(self, channel: Hashable, node: Instruction) -> Value:
        """The oldest value left for this participant; waits for it."""
        return self._lockstep.take(channel, self.number, f"%{node.name} ({node.opcode})")


def lone_participant() -> Participant:
    """The only participant of a run of its own."""
    return Participant(0, Topology(), Lockstep(1))


_PAIR = re.compile(r"\{(\d+),(\d+)\}")
_PAIRS_KEY = "_xla_send_recv_source_target_pairs="


def transfer_pairs(node: Instruction) -> list[tuple[int, int]] | None:
    """(source, target) partitions that a send or recv names in its frontend attributes."""
    text = str((node.annotations or {}).get("frontend_attributes", ""))
    if _PAIRS_KEY not in text:
        return None
    listed = text.split(_PAIRS_KEY, 1)[1].split("}}")[0] + "}}"
    return [(int(s), int(t)) for s, t in _PAIR.findall(listed.replace(" ", ""))]
