"""Operations with an effect beyond their results: the state of the random number generator, and
transfers with the host."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import RngGetAndUpdateStateAttributes, TransferAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator.interpreter import RNG_INITIAL_STATE
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step
from xla_backend.runtime.host_functions import Transfer
from xla_backend.targets.cpu.host_rules import host_step
from xla_backend.targets.cpu.rules import RULES


@RULES.runs(Opcode.RNG_GET_AND_UPDATE_STATE)
def _rng_get_and_update_state(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    """The state is one word of the program, kept between executions; the high word stays 0 (a
    stream of 2^64 blocks does not end)."""
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    state = builder.state("rng", np.asarray([RNG_INITIAL_STATE], np.uint64))
    operands = (state, builder.slice(node), node.attributes.delta)
    return [Library(node.name, 0.0, "rng_state", operands)]


# -- the host --------------------------------------------------------------------------------------


@RULES.runs(Opcode.INFEED, Opcode.OUTFEED)
def _queue(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return [host_step(builder, node, node.opcode, Transfer(0, str(node)))]


@RULES.runs(Opcode.SEND, Opcode.RECV_DONE)
def _transfer(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return [host_step(builder, node, node.opcode, Transfer(_host_channel(node), str(node)))]


@RULES.runs(Opcode.RECV, Opcode.SEND_DONE)
def _announcement(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    """recv-done has the data, and send has sent it."""
    _host_channel(node)
    return []


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
