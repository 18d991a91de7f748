"""Operations that run on the host: custom calls, FFT, and the dense solvers of HLO."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.attributes import ALLOCATE_BUFFER, CustomCallAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Host, Step, Undefined
from xla_backend.runtime.custom_calls import find_custom_call
from xla_backend.targets.cpu.rules import RULES


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


@RULES.runs(Opcode.CUSTOM_CALL)
def _custom_call(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    assert isinstance(node.attributes, CustomCallAttributes)
    target = node.attributes.target
    if target == ALLOCATE_BUFFER:
        return [Undefined(node.name, 0.0, s) for s in builder.slices(node) if s is not None]
    if find_custom_call(target) is None:
        raise UnimplementedError(
            f"{node!r}: no function is registered for custom-call target {target!r} on CPU; "
            f"register one with "
            "register_custom_call"
        )
    return [host_step(builder, node, target, node.attributes)]


@RULES.runs(Opcode.FFT, Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE)
def _on_host(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    return [host_step(builder, node, node.opcode, node.attributes)]
