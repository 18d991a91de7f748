"""Constraints between instructions: halves of asynchronous pairs, channels, replica groups, and
what called computations may contain. A check returns what is wrong, or None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    RawAttributes,
    TransferAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode

Check = Callable[[Instruction], str | None]

# What must come before each second half, and after each first.
_STARTS = {
    Opcode.ALL_GATHER_DONE: (Opcode.ALL_GATHER_START,),
    Opcode.ALL_REDUCE_DONE: (Opcode.ALL_REDUCE_START,),
    Opcode.COLLECTIVE_PERMUTE_DONE: (Opcode.COLLECTIVE_PERMUTE_START,),
    Opcode.COPY_DONE: (Opcode.COPY_START,),
    Opcode.ASYNC_UPDATE: (Opcode.ASYNC_START, Opcode.ASYNC_UPDATE),
    Opcode.ASYNC_DONE: (Opcode.ASYNC_START, Opcode.ASYNC_UPDATE),
}
_DONES = {
    start: tuple(done for done, starts in _STARTS.items() if start in starts)
    for start in {s for starts in _STARTS.values() for s in starts}
}
_TRANSFERS = frozenset({Opcode.SEND, Opcode.RECV, Opcode.SEND_DONE, Opcode.RECV_DONE})
_FIRST_HALF = {Opcode.SEND_DONE: Opcode.SEND, Opcode.RECV_DONE: Opcode.RECV}
# Their computations may be applied any number of times, in any order.
_APPLIES = frozenset(
    {
        Opcode.MAP,
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
        Opcode.SORT,
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_START,
        Opcode.REDUCE_SCATTER,
    }
)


def _words(opcodes: tuple[Opcode, ...]) -> str:
    return " or ".join(map(str, opcodes))


def _second_half(node: Instruction) -> str | None:
    start = node.operands[0]
    allowed = _STARTS[node.opcode]
    # start_done_c1
    if start.opcode not in allowed:
        return f"the operand must be {_words(allowed)}, is %{start.name} ({start.opcode})"
    # async_c1
    if node.called and node.called[0] is not _first_half(start).called[0]:
        return f"calls %{node.called[0].name}, not what async-start calls"
    return None


def _first_half(node: Instruction) -> Instruction:
    while node.opcode is Opcode.ASYNC_UPDATE:
        node = node.operands[0]
    return node


def _one_second_half(node: Instruction) -> str | None:
    allowed = _DONES[node.opcode]
    # start_done_c2
    if len(node.users) + node.is_root > 1:
        return f"must have one use, {_words(allowed)}; it has {len(node.users) + node.is_root}"
    for user in node.users:
        # start_done_c3
        if user.opcode not in allowed:
            return f"its user must be {_words(allowed)}, is %{user.name} ({user.opcode})"
    return None


def _thread(node: Instruction) -> str | None:
    a = node.attributes
    said = a.get("async_execution_thread") if isinstance(a, RawAttributes) else None
    runs = node.called[0].execution_thread
    # async_c2
    if said is not None and said.strip('"') != runs:
        return f'async_execution_thread={said}, but %{node.called[0].name} runs on "{runs}"'
    return None


def _update(node: Instruction) -> str | None:
    return _second_half(node) or _one_second_half(node)


def _transfer(node: Instruction) -> str | None:
    """A loop may stand between the halves; what is next to each other must fit."""
    start = node.operands[0]
    wanted = _FIRST_HALF[node.opcode]
    # transfer_c1
    if start.opcode in (Opcode.SEND, Opcode.RECV) and start.opcode is not wanted:
        return f"the operand must be {wanted}, is %{start.name} ({start.opcode})"
    # transfer_c2
    if start.opcode is wanted and _ends(start) != _ends(node):
        return f"channel and host transfer differ from those of %{start.name}"
    return None


def _ends(node: Instruction) -> tuple[int | None, bool]:
    a = node.attributes
    return (
        (a.channel_id, a.is_host_transfer) if isinstance(a, TransferAttributes) else (None, False)
    )


def _applied(node: Instruction) -> str | None:
    for computation in node.called:
        for inner in computation:
            # to_apply_c1
            if inner.opcode.has_side_effect:
                return f"%{computation.name} has a side effect: %{inner.name} ({inner.opcode})"
    return None


def _fused(node: Instruction) -> str | None:
    for inner in node.called[0]:
        # fusion_c2
        if inner.opcode.has_side_effect and inner.opcode is not Opcode.RNG:
            return f"the fused %{inner.name} ({inner.opcode}) has a side effect"
    return None


def _groups(node: Instruction) -> str | None:
    a = node.attributes
    if not isinstance(a, CollectiveAttributes) or not a.replica_groups:
        return None
    ids = [i for group in a.replica_groups for i in group]
    # replica_groups_c1
    if len(set(ids)) != len(ids):
        repeated = [i for i, count in Counter(ids).items() if count > 1]
        return f"replica_groups name {repeated[0]} twice"
    # replica_groups_c2
    return _range(node, ids, a.use_global_device_ids, "replica_groups")


def _pairs(node: Instruction) -> str | None:
    a = node.attributes
    assert isinstance(a, CollectivePermuteAttributes)
    # collective_permute_c6
    ids = [i for pair in a.source_target_pairs for i in pair]
    return _range(node, ids, False, "source_target_pairs")


def _range(node: Instruction, ids: list[int], is_global: bool, what: str) -> str | None:
    """Ids must exist, in a module that says how many replicas and partitions it runs on."""
    module = node.parent.module if node.parent is not None else None
    count = 1 if module is None else module.replica_count * module.num_partitions
    if count == 1 or not ids:
        return None
    assert module is not None
    if not is_global:
        across = node.attributes.channel_id is not None  # type: ignore[attr-defined]
        partitions = (
            across
            and node.opcode not in _APPLIES
            and not node.opcode.value.startswith("all-gather")
        )
        count = module.num_partitions if partitions else module.replica_count
    worst = max(ids) if max(ids) >= count else min(ids)
    if 0 <= worst < count:
        return None
    return f"{what} name {worst}, there are {count}"


CHECKS: dict[Opcode, Check] = {
    **dict.fromkeys(_STARTS, _second_half),
    **dict.fromkeys(_DONES, _one_second_half),
    Opcode.ASYNC_START: lambda node: _thread(node) or _one_second_half(node),
    Opcode.ASYNC_UPDATE: _update,
    Opcode.SEND_DONE: _transfer,
    Opcode.RECV_DONE: _transfer,
    Opcode.FUSION: _fused,
    **dict.fromkeys(_APPLIES, _applied),
    Opcode.ALL_GATHER: _groups,
    Opcode.ALL_TO_ALL: _groups,
    Opcode.COLLECTIVE_BROADCAST: _groups,
    Opcode.RAGGED_ALL_TO_ALL: _groups,
    Opcode.COLLECTIVE_PERMUTE: _pairs,
    Opcode.ALL_REDUCE: lambda node: _applied(node) or _groups(node),
    Opcode.REDUCE_SCATTER: lambda node: _applied(node) or _groups(node),
    Opcode.ALL_REDUCE_START: lambda node: _applied(node) or _groups(node) or _one_second_half(node),
    Opcode.ALL_GATHER_START: lambda node: _groups(node) or _one_second_half(node),
    Opcode.COLLECTIVE_PERMUTE_START: lambda node: _pairs(node) or _one_second_half(node),
}


def channel_conflicts(module: HloModule) -> Iterator[tuple[Instruction, str]]:
    """Instructions that share a channel with one they cannot talk to."""
    first: dict[int, Instruction] = {}
    for computation in module.computations:
        for node in computation:
            channel = getattr(node.attributes, "channel_id", None)
            if channel is None:
                continue
            other = first.setdefault(channel, node)
            # channel_c1
            if (node.opcode in _TRANSFERS) != (other.opcode in _TRANSFERS):
                yield node, f"channel {channel} is that of %{other.name} ({other.opcode}), too"
            # channel_c2
            elif node.opcode in _TRANSFERS and _ends(node)[1] != _ends(other)[1]:
                yield node, f"channel {channel} is a host transfer for one of %{other.name} and it"
