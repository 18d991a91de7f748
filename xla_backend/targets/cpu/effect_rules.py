"""Operations with an effect beyond their results: the state of the random number generator, and
transfers with the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import RngGetAndUpdateStateAttributes, TransferAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator.interpreter import RNG_INITIAL_STATE
from xla_backend.hlo.evaluator.transfers import INFEED_QUEUE, channel_queue, take
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.host_queues import host_of
from xla_backend.targets.cpu.driver import Driver, runs
from xla_backend.targets.cpu.host_rules import call_host

_STATE = "pyjax_rng_state"
Arrays = Sequence[np.ndarray]


@runs(Opcode.RNG_GET_AND_UPDATE_STATE)
def _rng_get_and_update_state(driver: Driver, node: Instruction) -> None:
    """The state is one word of the program, kept between executions; the high word stays 0 (a
    stream of 2^64 blocks does not end)."""
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    if not driver.uses_rng_state:
        driver.uses_rng_state = True
        driver.writer.add(f"@{_STATE} = internal global i64 {RNG_INITIAL_STATE}")
    w = driver.w
    old = w.value(f"atomicrmw add ptr @{_STATE}, i64 {node.attributes.delta} monotonic")
    target = driver.address(node)
    w.store("i64", old, target)
    w.store("i64", "0", w.gep("i64", target, 1))


# -- the host --------------------------------------------------------------------------------------


@runs(Opcode.INFEED)
def _infeed(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, partial(_run_infeed, str(node)))


def _run_infeed(node: str, operands: Arrays, results: Arrays, attributes: Any) -> None:
    _fill(results, take(host_of().infeed, _shapes(results), node, INFEED_QUEUE))


@runs(Opcode.OUTFEED)
def _outfeed(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, _run_outfeed)


def _run_outfeed(operands: Arrays, results: Arrays, attributes: Any) -> None:
    host_of().outfeed.append([np.array(x) for x in operands])


@runs(Opcode.SEND)
def _send(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, partial(_run_send, _host_channel(node)))


def _run_send(channel: int, operands: Arrays, results: Arrays, attributes: Any) -> None:
    """The result is the operands and a number that means nothing."""
    host_of().from_device.setdefault(channel, []).append([np.array(x) for x in operands])
    _fill(results, [*operands, np.zeros((), np.uint32)])


@runs(Opcode.RECV, Opcode.SEND_DONE)
def _announcement(driver: Driver, node: Instruction) -> None:
    """recv-done has the data, and send has sent it."""
    _host_channel(node)


@runs(Opcode.RECV_DONE)
def _recv_done(driver: Driver, node: Instruction) -> None:
    call_host(driver, node, partial(_run_recv, str(node), _host_channel(node)))


def _run_recv(node: str, channel: int, operands: Arrays, results: Arrays, attributes: Any) -> None:
    queue = host_of().to_device.get(channel)
    _fill(results, take(queue, _shapes(results), node, channel_queue(channel)))


def _host_channel(node: Instruction) -> int:
    """The channel of a transfer with the host; transfers within the device are paired up by now."""
    start = node
    if node.opcode in (Opcode.SEND_DONE, Opcode.RECV_DONE) and node.operands[0].opcode in (
        Opcode.SEND,
        Opcode.RECV,
    ):
        start = node.operands[0]
    attributes = start.attributes
    assert isinstance(attributes, TransferAttributes)
    if not attributes.is_host_transfer:
        raise UnimplementedError(
            f"{node!r}: the CPU backend runs transfers between devices for one device only; "
            "compile the module with replica_count=1 and num_partitions=1"
        )
    return attributes.channel_id or 0


def _shapes(arrays: Arrays) -> list[Shape]:
    return [Shape.of(x) for x in arrays]


def _fill(results: Arrays, values: Arrays) -> None:
    for result, value in zip(results, values):
        result[...] = value
