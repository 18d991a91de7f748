"""Meaning of transfers: infeed and outfeed, send and recv, and pairs of -start and -done."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from xla_backend.hlo.attributes import TransferAttributes
from xla_backend.hlo.evaluator.participants import Participant, transfer_pairs
from xla_backend.hlo.evaluator.values import flatten_value, unflatten_value, zeros_of
from xla_backend.hlo.host_queues import INFEED_QUEUE, Host, Leaves, channel_queue, take
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

Value = Any


def _next(queue: deque[Leaves] | None, shape: Shape, node: Instruction, where: str) -> Value:
    leaves = take(queue, [s for s in shape.flatten() if s.is_array], str(node), where)
    return unflatten_value(shape, leaves)


class Device(Protocol):
    """What transfers need of the interpreter that runs them."""

    host: Host
    participant: Participant

    def run(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """Value of the root for these parameter values."""


def infeed(device: Device, node: Instruction, inputs: list[Value]) -> Value:
    shape = node.shape.tuple_shapes[0]
    return _next(device.host.infeed, shape, node, INFEED_QUEUE), None


def outfeed(device: Device, node: Instruction, inputs: list[Value]) -> Value:
    device.host.outfeed.append(_copies(inputs[0]))


def _copies(value: Value) -> Leaves:
    return [np.array(x) for x in flatten_value(value) if x is not None]


def _channel(node: Instruction) -> tuple[int, bool]:
    a = node.attributes
    if not isinstance(a, TransferAttributes):
        return 0, False
    return a.channel_id or 0, a.is_host_transfer


def _pairs(node: Instruction) -> list[tuple[int, int]] | None:
    """Source and target partitions of a transfer; a -done half may leave them to the other."""
    pairs = transfer_pairs(node)
    if pairs is None and node.operands and node.operands[0].opcode in (Opcode.SEND, Opcode.RECV):
        return transfer_pairs(node.operands[0])
    return pairs


def send(device: Device, node: Instruction, inputs: list[Value]) -> Value:
    """To the host, to the partition that the pairs name, or to a recv of the same device."""
    channel, to_host = _channel(node)
    data, me = inputs[0], device.participant
    if to_host:
        device.host.from_device.setdefault(channel, []).append(_copies(data))
    else:
        pairs = _pairs(node)
        base = me.replica * me.topology.num_partitions
        targets = (
            [me.number] if pairs is None else [base + t for s, t in pairs if s == me.partition]
        )
        for target in targets:
            me.send(channel, target, data)
    return data, np.zeros((), np.uint32), None


def recv(device: Device, node: Instruction, inputs: list[Value]) -> Value:
    """Only an announcement: recv-done has the data."""
    return zeros_of(node.shape)


def recv_done(device: Device, node: Instruction, inputs: list[Value]) -> Value:
    channel, from_host = _channel(node)
    shape, me = node.shape.tuple_shapes[0], device.participant
    if from_host:
        queue = device.host.to_device.get(channel)
        return _next(queue, shape, node, channel_queue(channel)), None
    pairs = _pairs(node)
    if pairs is not None and me.partition not in [t for _, t in pairs]:
        return zeros_of(shape), None
    return me.receive(channel, node), None


def copy_start(node: Instruction, value: Value) -> Value:
    return value, value, np.zeros((), np.uint32)


def async_start(device: Device, node: Instruction, inputs: list[Value]) -> Value:
    """The computation runs at once: nothing the program can see tells when it runs."""
    result = device.run(node.called[0], inputs)
    return (tuple(inputs), result, *(zeros_of(s) for s in node.shape.tuple_shapes[2:]))
