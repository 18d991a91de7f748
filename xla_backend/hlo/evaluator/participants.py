"""The participants of a run, each in a thread of its own, and the meeting point where they exchange
values in lockstep."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.exchanges import never_come
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.topology import ALONE, Topology

Value = Any
# From the operands of each member of a group, in group order, to the result of each.
Meaning = Callable[[list[list[Value]]], Sequence[Value]]


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
            self.failure = self.failure or never_come(self._waiting)
            self._condition.notify_all()


class Participant:
    """One replica and partition of a run, and how it meets the others."""

    def __init__(self, number: int, topology: Topology, lockstep: Lockstep) -> None:
        self.number = number
        self.topology = topology
        self.replica, self.partition = divmod(number, topology.num_partitions)
        self._lockstep = lockstep
        self._visits: dict[Hashable, int] = {}

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
    return Participant(0, ALONE, Lockstep(1))


_PAIR = re.compile(r"\{(\d+),(\d+)\}")
_PAIRS_KEY = "_xla_send_recv_source_target_pairs="


def transfer_pairs(node: Instruction) -> list[tuple[int, int]] | None:
    """(source, target) partitions that a send or recv names in its frontend attributes."""
    text = str((node.annotations or {}).get("frontend_attributes", ""))
    if _PAIRS_KEY not in text:
        return None
    listed = text.split(_PAIRS_KEY, 1)[1].split("}}")[0] + "}}"
    return [(int(s), int(t)) for s, t in _PAIR.findall(listed.replace(" ", ""))]
