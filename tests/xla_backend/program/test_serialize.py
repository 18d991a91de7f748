"""Programs as bytes and back."""

import json

import numpy as np
import pytest
from native_checks import arguments_of
from opcode_programs import PROGRAMS
from sample_programs import BODIES, sample

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import Host, Program
from xla_backend.program.printer import program_to_text
from xla_backend.program.records import ProgramFormatError
from xla_backend.program.serialize import program_from_bytes, program_to_bytes
from xla_backend.program.stepper import Stepper
from xla_backend.program.verifier import verify_program
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.hlo_client import host_device
from xla_backend.runtime.host_functions import host_function
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.emit_program import emit_program
from xla_backend.targets.cpu.routines.contract_table import ROUTINES


def stepper_of(program, arguments):
    return Stepper(program, arguments, ROUTINES, host_function, ExecutionContext(host_device()))


def check_round_trip(program: Program) -> Program:
    data = program_to_bytes(program)
    read = program_from_bytes(data)
    assert read.steps == program.steps and read.procedures == program.procedures
    assert program_to_text(read, ROUTINES) == program_to_text(program, ROUTINES)
    texts = {name: kernel_to_text(kernel) for name, kernel in program.kernels.items()}
    assert {name: kernel_to_text(kernel) for name, kernel in read.kernels.items()} == texts
    for was, now in zip((*program.constants, *program.state), (*read.constants, *read.state)):
        assert was.dtype == now.dtype and was.shape == now.shape
        assert was.tobytes() == now.tobytes()
    assert program_to_bytes(read) == data
    verify_program(read, ROUTINES)
    return read


@pytest.mark.parametrize("name", BODIES)
def test_samples_run_the_same(name):
    executable, arguments = sample(name)
    read = check_round_trip(executable.program)
    programs = (executable.program, read)
    was, now = (stepper_of(p, arguments).run() for p in programs)
    for a, b in zip(was, now, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", BODIES)
def test_samples_emit_the_same_code(name):
    program = sample(name)[0].program
    if any(isinstance(step, Host) for step in program.steps):
        return  # calls of the host are numbered
    texts = []
    for each in (program, program_from_bytes(program_to_bytes(program))):
        writer = ModuleWriter(host_target())
        emit_program(each, writer)
        texts.append(writer.to_text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_opcodes(name):
    program = PROGRAMS[name]
    module = parse_module(program.text(program.types[len(program.types) // 2]))
    executable = compile_module(module, CompileOptions())
    check_round_trip(executable.program)


def test_custom_calls_keep_their_attributes():
    text = """HloModule m
ENTRY e {
  a = f64[4,4] parameter(0)
  ROOT r = (f64[4,4], s32[]) custom-call(a), custom_call_target="lapack.potrf",
    backend_config="{uplo = 76 : ui8}"
}"""
    module = parse_module(text)
    (a,) = arguments_of(module)
    a = a @ a.T + 4 * np.eye(4)
    executable = compile_module(module, CompileOptions())
    read = check_round_trip(executable.program)
    factor, info = stepper_of(read, [a]).run()
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(a), rtol=1e-12)
    assert info == 0


def changed(change) -> bytes:  # type: ignore[no-untyped-def]
    line, _, pieces = program_to_bytes(sample("kernel")[0].program).partition(b"\n")
    content = json.loads(line)
    change(content)
    return json.dumps(content).encode() + b"\n" + pieces


def reading(*written) -> bytes:  # type: ignore[no-untyped-def]
    content = {"format": "pyjax program", "version": 2, "modules": []}
    return json.dumps({**content, "program": written}).encode() + b"\n" + bytes(8)


DAMAGE = {
    "no serialised program": lambda: b"\x00\x01",
    "no serialised program: 'format'": lambda: b"{}",
    "'pyjax program' of version 0, expected": lambda: changed(lambda c: c.update(version=0)),
    "is damaged: KeyError('NoSuchRecord')": lambda: changed(
        lambda c: c.update(program=["o", "NoSuchRecord"])
    ),
    "is damaged: KeyError('posix')": lambda: changed(lambda c: c.update(program=["k", "posix"])),
    "is damaged: KeyError(\"Program is made with ['name',": lambda: changed(
        lambda c: c["program"].pop()
    ),
    "is damaged: IndexError": lambda: changed(lambda c: c.update(program=["r", 3])),
    "8 bytes are left over": lambda: reading("t"),
    "4 bytes are left over": lambda: reading("n", "f32", []),
    "12 bytes are asked for behind 0": lambda: reading("a", "f32", [3]),
    "4 bytes are asked for behind 6": lambda: reading("t", ["b", 6], ["n", "f32", []]),
    "-4 bytes are asked for behind 4": lambda: reading("t", ["b", 4], ["a", "f32", [-1]]),
    "hold a tuple, expected a Program": lambda: changed(lambda c: c.update(program=["t"])),
}


@pytest.mark.parametrize("text", DAMAGE)
def test_damaged(text):
    with pytest.raises(ProgramFormatError) as error:
        program_from_bytes(DAMAGE[text]())
    assert text in str(error.value)


def test_what_cannot_be_kept():
    program = Program("p", (), (), (Host("h", 0.0, "f", (), (), object()),), {})
    with pytest.raises(ProgramFormatError, match="cannot be serialised with <object object"):
        program_to_bytes(program)
