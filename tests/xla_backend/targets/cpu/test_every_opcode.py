"""Every opcode with every element type: native code against the evaluator."""

import pytest
from native_checks import arguments_of, check_native
from opcode_programs import PROGRAMS, Program

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.hlo.verifier import verify

# Opcodes whose tests need more than one program and one type.
ELSEWHERE = {
    "parameter", "get-tuple-element", "after-all", "custom-call", "rng",
    "rng-get-and-update-state", "infeed", "outfeed", "send", "send-done", "recv", "recv-done",
    "dynamic-reshape", "get-dimension-size", "set-dimension-size",
    "partition-id", "replica-id", "all-reduce", "all-reduce-start", "all-reduce-done",
    "all-gather", "all-gather-start", "all-gather-done", "all-to-all", "ragged-all-to-all",
    "reduce-scatter", "collective-broadcast", "collective-permute", "collective-permute-start",
    "collective-permute-done", "copy-start", "copy-done", "async-start", "async-update",
    "async-done",
}  # fmt: skip


def check(name: str, program: Program, type: P) -> None:
    module = parse_module(program.text(type))
    verify(module)
    # There is no negative number in this type.
    low = max(program.low, 0.3) if type is P.F8E8M0FNU else program.low
    check_native(module, arguments_of(module, 0, low, program.high), scale=program.scale)


def one_type_each() -> list[tuple[str, P]]:
    """All types in turn, so that each occurs with many opcodes."""
    return [(name, p.types[i % len(p.types)]) for i, (name, p) in enumerate(PROGRAMS.items())]


@pytest.mark.parametrize(("name", "type"), one_type_each(), ids=str)
def test_opcode(name, type):
    check(name, PROGRAMS[name], type)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_opcode_with_all_types(name):
    for type in PROGRAMS[name].types:
        check(name, PROGRAMS[name], type)


@pytest.mark.parametrize("name", ["add", "divide", "count-leading-zeros", "mulhi", "popcnt"])
@pytest.mark.parametrize("type", [P.S4, P.U4, P.S2, P.U2], ids=str)
def test_small_integers(name, type):
    """Stored one to a byte; the upper bits of the byte mean nothing."""
    check(name, PROGRAMS[name], type)


def test_every_opcode_has_a_program():
    used = set()
    for program in PROGRAMS.values():
        module = parse_module(program.text(program.types[0]))
        used |= {str(node.opcode) for c in module.computations for node in c}
    missing = {str(opcode) for opcode in Opcode} - used - ELSEWHERE
    assert not missing
