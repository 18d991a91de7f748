"""send and recv within one device."""

from __future__ import annotations

from collections import defaultdict

from xla_backend.hlo.attributes import TransferAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import depend_on_any
from xla_backend.process.on_first_use import on_first_use

_transfer_pairs = on_first_use("xla_backend.hlo.evaluator.participants", "transfer_pairs")

_OPCODES = frozenset({Opcode.SEND, Opcode.RECV, Opcode.SEND_DONE, Opcode.RECV_DONE})


class TransferPairing(HloPass):
    """recv -> what the send of its channel sends; the n-th recv of a channel takes from its n-th
    send. Transfers whose pairs leave this device out send nothing and receive zeros.

    Transfers with the host stay: the runtime does them.

    Why: one device has nobody else to talk to.
    Needs: a module for one device.  Leaves: no send or recv between devices.
    """

    name = "transfer-pairing"
    opcodes = _OPCODES

    def run(self, module: HloModule) -> bool:
        if module.replica_count * module.num_partitions != 1:
            return False
        return super().run(module)

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = [n for n in topological_order(computation) if n.opcode in _OPCODES]
        nodes = [n for n in nodes if not _with_host(n)]
        sent: dict[int, list[Instruction]] = defaultdict(list)
        received: dict[int, int] = defaultdict(int)
        for node in nodes:
            if node.opcode is Opcode.SEND and _takes_part(node):
                sent[_channel(node)].append(node.operands[0])
        for node in nodes:
            replacement = self._replacement(node, sent, received)
            computation.replace_uses(node, replacement)
        for node in reversed(nodes):
            computation.remove(node)
        return bool(nodes)

    def _replacement(
        self,
        node: Instruction,
        sent: dict[int, list[Instruction]],
        received: dict[int, int],
    ) -> Instruction:
        b = Emit(node)
        if node.opcode is Opcode.SEND_DONE:
            return b.gte(node.operands[0], 2)
        if node.opcode is Opcode.RECV_DONE:
            return b.tuple([b.gte(node.operands[0], 0), b.gte(node.operands[0], 2)])
        data_shape, number_shape, _ = node.shape.tuple_shapes
        if node.opcode is Opcode.SEND:
            data, token = node.operands
        elif _takes_part(node):
            (token,) = node.operands
            data = self._sent_data(node, sent, received)
        else:
            (token,) = node.operands
            data = b.splat(data_shape, 0)
        return b.tuple([data, b.splat(number_shape, 0), token])

    def _sent_data(
        self,
        node: Instruction,
        sent: dict[int, list[Instruction]],
        received: dict[int, int],
    ) -> Instruction:
        channel = _channel(node)
        number = received[channel]
        received[channel] += 1
        if number >= len(sent[channel]):
            raise UnimplementedError(
                f"{node!r}: nothing in computation %{node.parent.name} sends on channel "  # type: ignore[union-attr]
                f"{channel}, and this program runs on one device; send and recv of a channel must "
                "stand in one computation"
            )
        data = sent[channel][number]
        if depend_on_any([data], (node,)):
            raise UnimplementedError(
                f"{node!r}: what is sent on channel {channel} depends on what is received from "
                "it: on one device this waits for ever"
            )
        return data


def _attributes(node: Instruction) -> TransferAttributes:
    assert isinstance(node.attributes, TransferAttributes)
    return node.attributes


def _channel(node: Instruction) -> int:
    return _attributes(node).channel_id or 0


def _with_host(node: Instruction) -> bool:
    if node.opcode in (Opcode.SEND_DONE, Opcode.RECV_DONE):
        start = node.operands[0]
        if start.opcode in _OPCODES:
            return _attributes(start).is_host_transfer
    return _attributes(node).is_host_transfer


def _takes_part(node: Instruction) -> bool:
    pairs = _transfer_pairs(node)
    return pairs is None or (0, 0) in pairs
