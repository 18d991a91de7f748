"""Collectives of a program: several participants step by step, against the evaluator."""

from dataclasses import replace

import numpy as np
import pytest
from native_checks import arguments_of, assert_close

import xla_backend
from tests.xla_backend.collective_modules import (
    BOTH,
    CALLED,
    MODE_IDS,
    MODES,
    MOVES,
    REDUCTIONS,
    SUM,
    TYPES,
    X,
    choice,
    in_a_loop,
    module_of,
    ragged,
    wild_ragged,
    with_groups,
)
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Topology
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.ir import Collective, Copy, Program, Slice, Space, Step, all_steps
from xla_backend.program.lockstep import run_together
from xla_backend.program.printer import program_to_text
from xla_backend.program.serialize import program_from_bytes, program_to_bytes
from xla_backend.program.stepper import Stepper
from xla_backend.program.verifier import ProgramError, verify_program
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.hlo_client import host_device
from xla_backend.runtime.host_functions import host_function
from xla_backend.targets.cpu.planned import plan_program
from xla_backend.targets.cpu.routines.contract_table import ROUTINES


def planned(module: HloModule) -> Program:
    return plan_program(module, CompileOptions(verify=True)).program


def contexts(program: Program) -> list[ExecutionContext]:
    parts = program.topology.num_partitions
    numbers = range(program.topology.size)
    return [ExecutionContext(host_device(), *divmod(n, parts), run=1) for n in numbers]


def steppers_of(program: Program, arguments) -> list[Stepper]:  # type: ignore[no-untyped-def]
    return [
        Stepper(program, given, ROUTINES, host_function, context)
        for given, context in zip(arguments, contexts(program), strict=True)
    ]


def check(module: HloModule, arguments=None) -> Program:  # type: ignore[no-untyped-def]
    """The program, what is written and read of it, and its native code give what the evaluator
    gives."""
    count = module.replica_count * module.num_partitions
    given = arguments or [arguments_of(module, seed) for seed in range(count)]
    want = evaluate_partitioned(module, given)
    program = planned(module)
    data = program_to_bytes(program)
    again = program_from_bytes(data)
    assert program_to_bytes(again) == data and again.steps == program.steps
    assert program_to_text(again, ROUTINES) == program_to_text(program, ROUTINES)
    verify_program(again, ROUTINES)
    native = xla_backend.compile(module).loaded
    runs = [run_together(steppers_of(each, given)) for each in (program, again)]
    for got in (*runs, native.run_arrays_together(given), native.run_arrays_together(given)):
        for mine, theirs in zip(got, want, strict=True):
            for g, w, shape in zip(mine, theirs, program.outputs, strict=True):
                assert_close(g, w, shape.element_type)
    return program


def collectives(program: Program) -> list[Collective]:
    blocks = [program.steps, *program.procedures.values()]
    return [s for steps in blocks for s in all_steps(steps) if isinstance(s, Collective)]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(("attributes", "replicas", "partitions"), MODES, ids=MODE_IDS)
@pytest.mark.parametrize(
    "line",
    [
        "TYPE[4,8] all-reduce(x), to_apply=sum",
        "TYPE[4,ALL] all-gather(x), dimensions={1}",
        "TYPE[4,PART] reduce-scatter(x), dimensions={1}, to_apply=sum",
    ],
    ids=["all-reduce", "all-gather", "reduce-scatter"],
)
def test_joining_in_every_mode(line, attributes, replicas, partitions, type):
    program = check(with_groups(attributes, replicas, partitions, line, type))
    (step,) = collectives(program)
    assert len(step.combiners) == ("to_apply" in line)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", MOVES)
def test_moving(name, type):
    line, replicas, partitions = MOVES[name]
    body = f"x = TYPE[4,8] parameter(0)\ny = TYPE[4,8] parameter(1)\nROOT r = {line}"
    program = check(module_of(body, replicas, partitions, type, ""))
    (step,) = collectives(program)
    assert step.combiners == ()


def test_ragged_all_to_all():
    check(*ragged())


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("type", ["s8", "s32", "s64", "u8", "u32", "u64"])
def test_ragged_all_to_all_out_of_bounds(type, members):
    """Rows that are none of both arrays are neither read nor written."""
    for seed in range(6):
        module, arguments, wanted = wild_ragged(type, members, seed)
        found = evaluate_partitioned(module, arguments)
        for (got,), want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, want)
        check(module, arguments)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    body = f"x = f32[4,8] parameter(0)\n{REDUCTIONS[name]}"
    module = module_of(body, 3, 1, called=SUM + CALLED)
    combiners = [c for s in collectives(check(module)) for c in s.combiners]
    assert combiners


def test_equal_reductions_have_one_kernel():
    program = planned(
        module_of(
            """x = f32[8] parameter(0)
            y = f32[8] all-reduce(x), replica_groups={}, to_apply=sum
            ROOT z = f32[8] all-reduce(y), replica_groups={{1,0}}, to_apply=sum""",
            2,
            1,
        )
    )
    assert len({s.combiners for s in collectives(program)}) == 1


def test_in_a_loop():
    program = check(in_a_loop())
    assert collectives(program) and not any(isinstance(s, Collective) for s in program.steps)


GLOBAL = "channel_id=1, use_global_device_ids=true, "


def test_in_both_branches_under_one_channel():
    other = f"all-reduce(c), {GLOBAL}replica_groups={{{{0,1}}}}, to_apply=sum"
    program = check(choice(GLOBAL, other), BOTH)
    assert len(collectives(program)) == 2


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        ("negate(c)", r"never come: 0 in %r[.\d]* \(all-reduce\)\. All members"),
        (
            "all-reduce(c), replica_groups={{0,1}}, to_apply=sum",
            r"never come: 0 in %r[.\d]* \(all-reduce\); 1 in %r[.\d]* \(all-reduce\)\. All",
        ),
    ],
    ids=["nobody comes", "they come to two places"],
)
def test_partners_that_never_come(other, waits):
    program = planned(choice("", other))
    with pytest.raises(RuntimeFailure, match=waits):
        run_together(steppers_of(program, BOTH))


def test_a_participant_in_no_group():
    body = """x = f32[4] parameter(0)
      ROOT r = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=sum"""
    program = planned(module_of(body, 3, 1))
    wanted = r"participant 2 is in no replica group of %r \(all-reduce\)"
    with pytest.raises(RuntimeFailure, match=wanted):
        run_together(steppers_of(program, [[X]] * 3))


REDUCED = "x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), replica_groups={}, to_apply=sum"


def test_who_runs_together():
    program = planned(module_of(REDUCED, 2, 1))
    first, second = steppers_of(program, [[X], [X]])
    wanted = r"participants \[1, 0\] of 1 program\(s\) .* pass one for each of the 2 participants"
    with pytest.raises(ValueError, match=wanted):
        run_together([second, first])
    with pytest.raises(ValueError, match=r"participants \[0\] of 1"):
        run_together([first])
    with pytest.raises(ValueError, match=r"participants \[\] of 0 program\(s\)"):
        run_together([])
    other = steppers_of(replace(program), [[X], [X]])[1]
    with pytest.raises(ValueError, match=r"participants \[0, 1\] of 2"):
        run_together([first, other])


def test_one_alone_says_whom_it_needs():
    program = planned(module_of(REDUCED, 2, 1))
    stepper = steppers_of(program, [[X], [X]])[1]
    wanted = r"%r \(all-reduce\) joins participants \[0, 1\], and 1 runs by itself; .*run_together"
    with pytest.raises(RuntimeFailure, match=wanted):
        stepper.run()


def test_groups_of_one_need_nobody():
    program = planned(module_of(REDUCED.replace("{}", "{{0},{1}}"), 2, 1))
    (got,) = steppers_of(program, [[X], [X]])[1].run()
    np.testing.assert_array_equal(got, X)


def test_participants_of_the_emulator():
    executable = xla_backend.compile(module_of(REDUCED, 2, 1), "emulator").loaded
    participants = [ExecutionContext(executable.device, n, 0, run=1) for n in range(2)]
    steppers = [executable.stepper([X + n], context) for n, context in enumerate(participants)]
    for (got,) in run_together(steppers):
        np.testing.assert_array_equal(got, 2 * X + 1)
    with pytest.raises(RuntimeFailure, match="run all of them with `run_together`"):
        executable.run_arrays([X])


def test_a_program_of_several_is_not_run_by_one():
    program = xla_backend.compile(module_of(REDUCED, 2, 1))
    with pytest.raises(ValueError, match="'m' has 2 participants; run them together"):
        program.execute(arguments_of(module_of(REDUCED, 2, 1), 0))


# -- text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "f32[4,8] all-reduce(x), replica_groups={{0,2},{1,3}}, to_apply=sum",
            "all-reduce(arg0 f32[4,8]) -> (out0 f32[4,8]) groups {0,2}, {1,3}; combined by "
            "r_combine  # %r",
        ),
        (
            "f32[4,16] all-gather(x), channel_id=5, replica_groups={{0,1},{2,3}}, dimensions={1}, "
            "use_global_device_ids=true",
            "all-gather(arg0 f32[4,8]) -> (out0 f32[4,16]) groups {0,1}, {2,3}; dimension 1; "
            "channel 5  # %r",
        ),
        (
            "f32[4,8] collective-permute(x), source_target_pairs={{0,1},{3,0}}",
            "collective-permute(arg0 f32[4,8]) -> (out0 f32[4,8]) pairs 0->1, 3->0  # %r",
        ),
        (
            "f32[4,8] collective-permute(x), source_target_pairs={}",
            "collective-permute(arg0 f32[4,8]) -> (out0 f32[4,8]) groups none  # %r",
        ),
    ],
    ids=["all-reduce", "all-gather", "permute", "permute nothing"],
)
def test_text(line, wanted):
    program = planned(module_of(f"x = f32[4,8] parameter(0)\nROOT r = {line}", 4, 1))
    text = program_to_text(program, ROUTINES)
    assert wanted in text
    assert "  participants: 4 replica(s) x 1 partition(s)\n" in text


# -- what is not valid -----------------------------------------------------------------------------

ROW = Shape.array(P.F32, (8,))
IN, OTHER = Slice(Space.ARGUMENT, 0, 0, ROW), Slice(Space.ARGUMENT, 1, 0, ROW)
OUT, LATER = Slice(Space.OUTPUT, 0, 0, ROW), Slice(Space.OUTPUT, 1, 0, ROW)
PAIR = (0, 1)


def step(opcode: Opcode, *fields, operands=(IN,), results=(OUT,), combiners=()) -> Collective:  # type: ignore[no-untyped-def]
    return Collective("c", 0.0, Exchange(opcode, *fields), operands, results, combiners)


def slices(*shapes: Shape) -> tuple[Slice, ...]:
    return tuple(Slice(Space.TEMP, 0, 64 * n, shape) for n, shape in enumerate(shapes))


BROADCAST, PERMUTE, GATHER = (
    Opcode.COLLECTIVE_BROADCAST,
    Opcode.COLLECTIVE_PERMUTE,
    Opcode.ALL_GATHER,
)
SCATTER, EXCHANGE, REDUCE = Opcode.REDUCE_SCATTER, Opcode.ALL_TO_ALL, Opcode.ALL_REDUCE
INVALID: dict[str, Collective] = {
    "step %c: add is no collective": step(Opcode.ADD, (PAIR,)),
    "a group has no members": step(BROADCAST, (PAIR, ())),
    "a group names participant 4, there are 4": step(BROADCAST, ((0, 4),)),
    "a group names participant -1, there are 4": step(BROADCAST, ((0, -1),)),
    "groups name participant 1 twice": step(BROADCAST, (PAIR, (1, 2))),
    "collective-broadcast has no pairs": step(BROADCAST, (PAIR,), (PAIR,)),
    "pairs name source 0 twice": step(PERMUTE, ((0, 1, 2),), ((0, 1), (0, 2))),
    "pairs name target 2 twice": step(PERMUTE, ((0, 1, 2),), ((0, 2), (1, 2))),
    "must have the participants that pairs name": step(PERMUTE, ((0, 1, 2),), (PAIR,)),
    "all-gather needs a dimension": step(GATHER, (PAIR,)),
    "dimension 1 is none of (f32[8])": step(GATHER, (PAIR,), (), 1),
    "all-gather of (f32[8]) among 2 participants gives (f32[16]), not (f32[8])": step(
        GATHER, (PAIR,), (), 0
    ),
    "reduce-scatter of (f32[8]) among 2 participants gives (f32[4]), not (f32[8])": step(
        SCATTER, (PAIR,), (), 0
    ),
    "reduce-scatter of (f32[8]) cannot be among 3 participants": step(SCATTER, ((0, 1, 2),), (), 0),
    "all-to-all of (f32[8]) cannot be among 3 participants": step(EXCHANGE, ((0, 1, 2),), (), 0),
    "all-to-all of (f32[8]) cannot be among 2 participants": step(EXCHANGE, (PAIR,)),
    "among 2 participants gives (f32[8]), not (f32[8], f32[8])": step(
        BROADCAST, (PAIR,), results=(OUT, LATER)
    ),
    "ragged-all-to-all of (f32[8]) cannot be": step(Opcode.RAGGED_ALL_TO_ALL, (PAIR,)),
    "all-reduce has 0 combiners, expected 1": step(REDUCE, (PAIR,)),
    "collective-broadcast has 1 combiners, expected 0": step(
        BROADCAST, (PAIR,), combiners=("combine",)
    ),
    "there is no kernel 'k'": step(REDUCE, (PAIR,), combiners=("k",)),
    "p0 of kernel 'r_combine' is f32[4], combined are arrays f32[8]": step(
        REDUCE, (PAIR,), combiners=("combine",)
    ),
    "kernel 'negate_fusion' does not make one array of two": step(
        REDUCE, (PAIR,), combiners=("negate",)
    ),
    "collective-broadcast writes arg0 f32[8], where arg0 f32[8] lies": step(
        BROADCAST, (PAIR,), results=(IN,)
    ),
    "collective-broadcast writes out0 f32[8], where out0 f32[8] lies": step(
        BROADCAST, (PAIR,), operands=(IN, OTHER), results=(OUT, OUT)
    ),
    "temp[0:32] f32[8] is read before it is written": step(
        BROADCAST, (PAIR,), operands=slices(ROW)
    ),
    "out1 f32[8] is read before": step(BROADCAST, (PAIR,), operands=(LATER,)),
}


def _kernels() -> dict:  # type: ignore[type-arg]
    """One that combines arrays of four elements, one that takes one array of eight."""
    four = planned(module_of(REDUCED, 2, 1)).kernels["r_combine"]
    negate = planned(
        module_of("x = f32[8] parameter(0)\nROOT r = f32[8] negate(x)", 1, 1, called="")
    )
    (other,) = negate.kernels.values()
    return {"combine": four, "negate": other}


@pytest.mark.parametrize("text", INVALID)
def test_invalid(text):
    steps: tuple[Step, ...] = (INVALID[text], Copy("d", 0.0, LATER, IN))
    outputs = (ROW, ROW)
    program = Program(
        "test", (ROW, ROW), outputs, steps, _kernels(), temp_size=256, topology=Topology(4, 1)
    )
    with pytest.raises(ProgramError) as error:
        verify_program(program, ROUTINES)
    assert text in str(error.value)


def test_a_program_with_collectives_asks_who_runs_it():
    assert planned(module_of(REDUCED, 2, 1)).uses_context
    assert not planned(module_of(REDUCED, 1, 1)).uses_context
