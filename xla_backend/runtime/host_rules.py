"""Operations that run on the host, the same for every target: custom calls, FFT, the dense solvers
of HLO, and transfers. `HOST_RULES` is what a target's own rules add to."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.attributes import ALLOCATE_BUFFER, CustomCallAttributes, TransferAttributes
from xla_backend.hlo.errors import UnimplementedError, UnknownTargetError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import source_places
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.source_tables import place_lines
from xla_backend.program.build import ProgramBuilder, Rules
from xla_backend.program.ir import Host, Step, Undefined
from xla_backend.runtime.custom_calls import find_custom_call
from xla_backend.runtime.transfers import Transfer

_RULES = Rules("host")
HOST_RULES = _RULES.opcodes


def host_step(
    builder: ProgramBuilder, node: Instruction, target: str | Opcode, attributes: Any
) -> Host:
    """Call a host function with the arrays of an instruction."""
    operands = [s for o in node.operands for s in builder.slices(o)]
    return Host(
        node.name,
        0.0,
        target,
        tuple(s for s in operands if s is not None),
        tuple(s for s in builder.slices(node) if s is not None),
        attributes,
    )


@_RULES.runs(Opcode.CUSTOM_CALL)
def _custom_call(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    assert isinstance(node.attributes, CustomCallAttributes)
    target = node.attributes.target
    if target == ALLOCATE_BUFFER:
        return [Undefined(node.name, 0.0, s) for s in builder.slices(node) if s is not None]
    if find_custom_call(target) is None:
        lines = place_lines(source_places(node))
        raise UnknownTargetError(repr(node), target, lines[0] if lines else "")
    return [host_step(builder, node, target, node.attributes)]


@_RULES.runs(Opcode.FFT, Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE)
def _on_host(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return [host_step(builder, node, node.opcode, node.attributes)]


# -- transfers -------------------------------------------------------------------------------------


@_RULES.runs(Opcode.INFEED, Opcode.OUTFEED)
def _queue(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return [host_step(builder, node, node.opcode, Transfer(0, str(node)))]


@_RULES.runs(Opcode.SEND, Opcode.RECV_DONE)
def _transfer(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return [
        host_step(builder, node, node.opcode, Transfer(_host_channel(builder, node), str(node)))
    ]


@_RULES.runs(Opcode.RECV, Opcode.SEND_DONE)
def _announcement(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    """recv-done has the data, and send has sent it."""
    _host_channel(builder, node)
    return []


def _host_channel(builder: ProgramBuilder, node: Instruction) -> int:
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
            f"{node!r}: the {builder.backend} runs transfers between devices for one device only; "
            "compile the module with replica_count=1 and num_partitions=1"
        )
    return attributes.channel_id or 0
