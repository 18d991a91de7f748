"""What a valid program is: each check has a program that fails it."""

from dataclasses import replace

import numpy as np
import pytest
from sample_programs import BODIES, sample

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.ir import (
    PARTITION,
    Call,
    Copy,
    Host,
    If,
    KernelOperand,
    Launch,
    Library,
    Program,
    Slice,
    Space,
    Step,
    Undefined,
    While,
    all_steps,
)
from xla_backend.program.verifier import ProgramError, verify_program
from xla_backend.targets.cpu.routines.contract_table import ROUTINES

F, FLAG, SMALL = Shape.array(P.F32, (4, 6)), Shape.array(P.PRED), Shape.array(P.F32, (5,))
ARG, OUT = Slice(Space.ARGUMENT, 0, 0, F), Slice(Space.OUTPUT, 0, 0, F)
TEMP, HALF = Slice(Space.TEMP, 0, 0, F), Slice(Space.TEMP, 0, 48, F)
ALWAYS = Slice(Space.ARGUMENT, 1, 0, FLAG)
FILL = Copy("fill", 0.0, TEMP, ARG)
FINISH = Copy("finish", 0.0, OUT, TEMP)


def program(*steps: Step, **fields) -> Program:  # type: ignore[no-untyped-def]
    base = Program("test", (F, FLAG), (F,), tuple(steps), {}, temp_size=256)
    return replace(base, **fields)


def message(program: Program) -> str:
    with pytest.raises(ProgramError) as error:
        verify_program(program, ROUTINES)
    return str(error.value)


@pytest.mark.parametrize("name", BODIES)
def test_samples_are_valid(name):
    executable, _ = sample(name)
    verify_program(executable.program, ROUTINES)


VALID = {
    "straight": program(FILL, FINISH),
    "after a loop's condition": program(While("w", 0.0, (FILL,), ALWAYS, ()), FINISH),
    "in both branches": program(If("c", 0.0, ALWAYS, ((FILL,), (FILL,))), FINISH),
    "in a procedure": program(Call("c", 0.0, "p"), FINISH, procedures={"p": (FILL,)}),
    "undefined": program(Undefined("u", 0.0, TEMP), FINISH),
    "output is an argument": program(aliases={0: 0}),
}


@pytest.mark.parametrize("case", VALID)
def test_valid(case):
    verify_program(VALID[case], ROUTINES)


INVALID = {
    "out0 is not written": program(),
    "step %finish: temp[0:96] f32[4,6] is read before it is written": program(FINISH),
    "temp[48:144] f32[4,6] is read before": program(FILL, Copy("half", 0.0, OUT, HALF)),
    "step %finish: temp[0:96]": program(While("w", 0.0, (), ALWAYS, (FILL,)), FINISH),
    "temp[0:96] f32[4,6] is read": program(If("c", 0.0, ALWAYS, ((FILL,), ())), FINISH),
    "there is no arg2": program(Copy("c", 0.0, OUT, Slice(Space.ARGUMENT, 2, 0, F))),
    "there is no const0": program(Copy("c", 0.0, OUT, Slice(Space.CONSTANT, 0, 0, F))),
    "there is no stack0": program(Undefined("u", 0.0, Slice(Space.STACK, 0, 0, F))),
    "there is no state0": program(Undefined("u", 0.0, Slice(Space.STATE, 0, 0, F))),
    "temp[192:288] f32[4,6] lies outside its memory of 256 bytes": program(
        Copy("c", 0.0, Slice(Space.TEMP, 0, 192, F), ARG)
    ),
    "scratch[0:96] f32[4,6] lies outside its memory of 0 bytes": program(
        Copy("c", 0.0, Slice(Space.SCRATCH, 0, 0, F), ARG)
    ),
    "is a constant and cannot be written": program(
        Copy("c", 0.0, Slice(Space.CONSTANT, 0, 0, F), ARG),
        constants=(np.zeros((4, 6), np.float32),),
    ),
    "is the context and cannot be written": program(
        Copy("c", 0.0, PARTITION, Slice(Space.ARGUMENT, 0, 0, PARTITION.shape)),
    ),
    "context[8:12] u32[] lies outside its memory of 8 bytes": program(
        Copy("c", 0.0, OUT, Slice(Space.CONTEXT, 0, 8, PARTITION.shape)),
    ),
    "copies 96 bytes to 20": program(Copy("c", 0.0, Slice(Space.TEMP, 0, 0, SMALL), ARG)),
    "arg0 f32[4,6] decides what runs, expected pred[]": program(While("w", 0.0, (), ARG, ())),
    "decides what runs, expected pred[] or s32[]": program(If("c", 0.0, ARG, ((), ()))),
    "3 branches for a pred[] selector": program(If("c", 0.0, ALWAYS, ((), (), ()))),
    "there is no procedure 'p'": program(Call("c", 0.0, "p")),
    "procedure 'p' calls itself": program(
        Call("c", 0.0, "p"), procedures={"p": (Call("again", 0.0, "p"),)}
    ),
    "there is no kernel 'k'": program(Launch("l", 0.0, "k", ())),
    "there is no routine 'r'": program(Library("l", 0.0, "r", ())),
    "sort_f32 takes 8 operands, got 1": program(Library("l", 0.0, "sort_f32", (ARG,))),
    "sort_f32 takes number for n, got None": program(
        Library("l", 0.0, "sort_f32", (ARG, OUT, 1, None, 6, 0, 0, 6))
    ),
    "sort_s32 takes s32 for in, got f32": program(
        Library("l", 0.0, "sort_s32", (ARG, OUT, 1, 4, 6, 0, 0, 6))
    ),
    "sort_f32 writes arg0 f32[4,6], where arg0 f32[4,6] lies": program(
        Library("l", 0.0, "sort_f32", (ARG, ARG, 1, 4, 6, 0, 0, 6))
    ),
    "step %h: temp[0:96] f32[4,6] is read": program(Host("h", 0.0, "f", (TEMP,), (OUT,), None)),
    "Step is no step of a program": program(Step("s", 0.0)),
}


@pytest.mark.parametrize("text", INVALID)
def test_invalid(text):
    assert text in message(INVALID[text])


def changed(name: str, kind: type[Step], **fields) -> Program:  # type: ignore[no-untyped-def]
    """A sample with other fields in its last step of a kind."""
    found, _ = sample(name)
    steps = list(found.program.steps)
    step = [s for s in all_steps(found.program.steps) if isinstance(s, kind)][-1]
    values = {**step.__dict__, **fields}
    steps[steps.index(step)] = kind(**values)
    return replace(found.program, steps=tuple(steps))


def test_kernels_get_their_buffers():
    assert "takes 2 arrays, got 1" in message(changed("kernel", Launch, buffers=(ARG,)))
    small = Slice(Space.OUTPUT, 0, 0, SMALL)
    text = message(changed("kernel", Launch, buffers=(ARG, small)))
    assert "out0 of kernel" in text and "has 96 bytes, out0 f32[5] has 20" in text


def test_a_launch_overwrites_an_operand_only_where_it_says_so():
    in_place = changed("kernel", Launch, buffers=(ARG, ARG), in_place=((0, 0),))
    verify_program(replace(in_place, aliases={0: 0}), ROUTINES)
    text = message(changed("kernel", Launch, buffers=(ARG, ARG)))
    assert "writes out0, where p0 lies" in text


def test_epilogues_get_their_buffers():
    found, _ = sample("product-epilogue")
    (step,) = found.program.steps
    assert isinstance(step, Library)
    (epilogue,) = [o for o in step.operands if isinstance(o, KernelOperand)]
    wrong = tuple(
        KernelOperand(epilogue.kernel, epilogue.buffers[:-1]) if o is epilogue else o
        for o in step.operands
    )
    assert "arrays, got" in message(changed("product-epilogue", Library, operands=wrong))


def test_a_host_function_of_an_opcode_is_no_custom_call():
    found, _ = sample("host")
    (step,) = found.program.steps
    assert isinstance(step, Host) and step.target is Opcode.CHOLESKY


def test_a_routine_overwrites_an_operand_only_where_its_contract_says_so():
    found, _ = sample("transform over two axes")
    second = [s for s in all_steps(found.program.steps) if isinstance(s, Library)][-1]
    *others, x, y = second.operands
    assert x == y
    verify_program(found.program, ROUTINES)
    shifted = Slice(Space.OUTPUT, 0, 8, Shape.array(P.C64, (4, 5)))
    step = {"operands": (*others, x, shifted)}
    assert "where out0 c64[4,6] lies" in message(
        changed("transform over two axes", Library, **step)
    )
