"""A stand-in for CuPy's module of NCCL, over the stand-in's streams and memory.

A group of calls becomes a piece of work of each stream that it names. A stream stands still there
until all of them have come, for ever if one never does; then the bytes move, and sums are formed in
the order of ranks. `calls` has what was called, with ranks; `made` and `ended` count communicators.
Calls that do not belong together (other counts, a member that is missing) raise, where NCCL would
hang.
"""

from __future__ import annotations

import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_TYPES = {
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "UINT32": np.uint32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT32": np.float32,
    "FLOAT64": np.float64,
}
_OPERATIONS: dict[str, Any] = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.fmax,
    "MIN": np.fmin,
}
_DTYPES = [np.dtype(t) for t in _TYPES.values()]
_UFUNCS = list(_OPERATIONS.values())


class NcclError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"NCCL_ERROR_{status}")


class Call(NamedTuple):
    """Of one communicator: `source` and `target` are addresses, or 0; `number` is a reduction, or a
    rank."""

    communicator: NcclCommunicator
    name: str
    source: int
    target: int
    count: int
    dtype: np.dtype
    number: int
    stream: Any

    @property
    def same_for_all(self) -> tuple[Any, ...]:
        return self.name, self.count, self.dtype, self.number


class Clique:
    """The communicators of one set of devices."""

    def __init__(self, devices: list[int]) -> None:
        self.devices = devices
        self.is_over = False


class Meeting:
    """One group of calls of a clique."""

    def __init__(self, nccl: FakeNccl, clique: Clique, calls: list[Call]) -> None:
        self.nccl, self.clique, self.calls = nccl, clique, calls
        self.streams = list(dict.fromkeys(call.stream for call in calls))
        self.arrived: set[Any] = set()
        self.looking = self.done = False

    def arrive(self, stream: Any) -> bool:
        """Whether a stream that has come can go on."""
        self.arrived.add(stream)
        if self.clique.is_over or self.done:
            return True
        if not self.looking:
            self.looking = True
            for other in self.streams:
                if other not in self.arrived:
                    other.step_aside()
            self.looking = False
        if len(self.arrived) < len(self.streams):
            return False
        self.done = True
        self.nccl.perform(self.calls)
        return True


class Part:
    """What a stream has of a meeting."""

    def __init__(self, meeting: Meeting, stream: Any) -> None:
        self.meeting, self.stream = meeting, stream

    def blocked(self) -> bool:
        return not self.meeting.arrive(self.stream)

    def __call__(self) -> None:
        pass


class NcclCommunicator:
    def __init__(self, nccl: FakeNccl, clique: Clique, rank: int) -> None:
        self._nccl, self._clique, self._rank = nccl, clique, rank

    def rank_id(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self._clique.devices)

    def allReduce(self, source: int, target: int, count: int, type: int, op: int, s: int) -> None:
        self._call("allReduce", source, target, count, type, op, s)

    def reduceScatter(
        self, source: int, target: int, count: int, type: int, op: int, s: int
    ) -> None:
        self._call("reduceScatter", source, target, count, type, op, s)

    def allGather(self, source: int, target: int, count: int, type: int, s: int) -> None:
        self._call("allGather", source, target, count, type, 0, s)

    def broadcast(self, source: int, target: int, count: int, type: int, root: int, s: int) -> None:
        self._call("broadcast", source, target, count, type, root, s)

    def send(self, source: int, count: int, type: int, peer: int, s: int) -> None:
        self._call("send", source, 0, count, type, peer, s)

    def recv(self, target: int, count: int, type: int, peer: int, s: int) -> None:
        self._call("recv", 0, target, count, type, peer, s)

    def check_async_error(self) -> None:
        if self._nccl.met:
            raise NcclError(self._nccl.met)

    def abort(self) -> None:
        self._clique.is_over = True
        self._nccl.ended += 1

    def destroy(self) -> None:
        assert not self._nccl.is_busy(self._clique), "destroyed before its work is done"
        self.abort()

    def _call(self, name: str, *arguments: int) -> None:
        nccl = self._nccl
        assert not self._clique.is_over, "a communicator that is gone"
        source, target, count, type, number, stream = arguments
        nccl.fail_if_told()
        nccl.calls.append((name, self._rank, count, list(_TYPES)[type], number))
        found = nccl.stream(stream)
        assert found.gpu.number == self._clique.devices[self._rank], "a stream of another device"
        nccl.open.append(Call(self, name, source, target, count, _DTYPES[type], number, found))
        assert nccl.depth, "a call outside of a group: it waits for calls that nobody makes"


class FakeNccl(types.SimpleNamespace):
    """The module. `failing`: the status of the next call; `met`: of what goes on."""

    def __init__(self, stream: Callable[[int], Any]) -> None:
        super().__init__()
        self.available, self.stream = True, stream
        self.version = 22501
        self.depth = self.made = self.ended = self.failing = self.met = 0
        self.open: list[Call] = []
        self.calls: list[tuple[str, int, int, str, int]] = []
        self.meetings: list[Meeting] = []
        for names in (_TYPES, _OPERATIONS):
            for number, name in enumerate(names):
                setattr(self, f"NCCL_{name}", number)
        self.NcclError = NcclError
        self.NcclCommunicator = types.SimpleNamespace(initAll=self._init_all)

    def _init_all(self, devices: list[int]) -> list[NcclCommunicator]:
        self.fail_if_told()
        assert len({*devices}) == len(devices)
        clique = Clique(devices)
        self.made += len(devices)
        return [NcclCommunicator(self, clique, rank) for rank in range(len(devices))]

    def get_version(self) -> int:
        return self.version

    def groupStart(self) -> None:
        self.depth += 1

    def groupEnd(self) -> None:
        self.depth -= 1
        if self.depth:
            return
        calls, self.open = self.open, []
        cliques = defaultdict(list)
        for call in calls:
            cliques[call.communicator._clique].append(call)
        for clique, own in cliques.items():
            self._check(clique, own)
            meeting = Meeting(self, clique, own)
            self.meetings.append(meeting)
            for stream in meeting.streams:
                stream.put(Part(meeting, stream))

    def _check(self, clique: Clique, calls: list[Call]) -> None:
        """All members make the same collectives; what is sent is received."""
        ranks = range(len(clique.devices))
        by_rank = {r: [c for c in calls if c.communicator._rank == r] for r in ranks}
        collectives = [
            [c.same_for_all for c in own if c.name not in ("send", "recv")]
            for own in by_rank.values()
        ]
        assert all(own == collectives[0] for own in collectives), "collectives that do not match"
        for one, other in (("send", "recv"), ("recv", "send")):
            for rank in ranks:
                for peer in ranks:
                    mine = [c.count for c in by_rank[rank] if c.name == one and c.number == peer]
                    theirs = [
                        c.count for c in by_rank[peer] if c.name == other and c.number == rank
                    ]
                    assert mine == theirs, "messages that do not match"

    def fail_if_told(self) -> None:
        if self.failing:
            status, self.failing = self.failing, 0
            raise NcclError(status)

    def is_busy(self, clique: Clique) -> bool:
        return any(m.clique is clique and not m.done for m in self.meetings)

    def perform(self, calls: list[Call]) -> None:
        by_rank: dict[int, list[Call]] = defaultdict(list)
        sent: dict[tuple[int, int], list[Call]] = defaultdict(list)
        received: dict[tuple[int, int], list[Call]] = defaultdict(list)
        for call in calls:
            rank = call.communicator._rank
            if call.name == "send":
                sent[rank, call.number].append(call)
            elif call.name == "recv":
                received[call.number, rank].append(call)
            else:
                by_rank[rank].append(call)
        for pair, sends in sent.items():
            for send, recv in zip(sends, received[pair], strict=True):
                _write(recv, _read(send, send.count))
        for together in zip(*[by_rank[rank] for rank in sorted(by_rank)]):
            _COLLECTIVES[together[0].name](together)


def _read(call: Call, count: int) -> np.ndarray:
    data = call.stream.gpu.view(call.source, count * call.dtype.itemsize)
    return data.view(call.dtype).copy()


def _write(call: Call, array: np.ndarray) -> None:
    data = np.ascontiguousarray(array).view(np.uint8)
    call.stream.gpu.view(call.target, data.size)[:] = data


def _reduced(arrays: list[np.ndarray], number: int) -> np.ndarray:
    total = arrays[0]
    for array in arrays[1:]:
        total = _UFUNCS[number](total, array).astype(total.dtype)
    return total


def _all_reduce(calls: tuple[Call, ...]) -> None:
    total = _reduced([_read(c, c.count) for c in calls], calls[0].number)
    for call in calls:
        _write(call, total)


def _reduce_scatter(calls: tuple[Call, ...]) -> None:
    total = _reduced([_read(c, c.count * len(calls)) for c in calls], calls[0].number)
    for call, part in zip(calls, np.split(total, len(calls))):
        _write(call, part)


def _all_gather(calls: tuple[Call, ...]) -> None:
    whole = np.concatenate([_read(c, c.count) for c in calls])
    for call in calls:
        _write(call, whole)


def _broadcast(calls: tuple[Call, ...]) -> None:
    root = calls[calls[0].number]
    data = _read(root, root.count)
    for call in calls:
        _write(call, data)


_COLLECTIVES = {
    "allReduce": _all_reduce,
    "reduceScatter": _reduce_scatter,
    "allGather": _all_gather,
    "broadcast": _broadcast,
}
