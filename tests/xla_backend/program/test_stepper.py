"""Programs in Python, step by step, against native code."""

import numpy as np
import pytest
from native_checks import arguments_of, assert_close
from opcode_programs import PROGRAMS
from sample_programs import BODIES, sample

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.ir import Launch, Program, Space, While
from xla_backend.program.stepper import Stepper
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.hlo_client import host_device
from xla_backend.runtime.host_functions import host_function
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.routines.contract_table import ROUTINES


def stepper_of(program: Program, arguments, state=None) -> Stepper:  # type: ignore[no-untyped-def]
    context = ExecutionContext(host_device())
    return Stepper(program, arguments, ROUTINES, host_function, context, state)


def check_stepper(executable: CpuExecutable, arguments, scale: float = 1.0) -> None:  # type: ignore[no-untyped-def]
    got = stepper_of(executable.program, arguments).run()
    want = executable.run_arrays(arguments)
    assert len(got) == len(want)
    shapes = [s for s in executable.output_shapes if s.is_array]
    for g, w, shape in zip(got, want, shapes):
        assert_close(g, w, shape.element_type, scale)


@pytest.mark.parametrize("name", BODIES)
def test_samples(name):
    check_stepper(*sample(name))


def one_type_each():  # type: ignore[no-untyped-def]
    """All types in turn, so that each occurs with many opcodes."""
    return [(name, p.types[i % len(p.types)]) for i, (name, p) in enumerate(PROGRAMS.items())]


@pytest.mark.parametrize(("name", "type"), one_type_each(), ids=str)
def test_opcodes(name, type):
    program = PROGRAMS[name]
    module = parse_module(program.text(type))
    low = max(program.low, 0.3) if type is P.F8E8M0FNU else program.low
    arguments = arguments_of(module, 0, low, program.high)
    executable = compile_module(module, CompileOptions(verify=True))
    check_stepper(executable, arguments, program.scale)


def test_every_branch_of_a_switch():
    executable, (x, _) = sample("switch")
    for i in (-1, 0, 1, 2, 3):
        check_stepper(executable, [x, np.int32(i)])


def test_steps_are_seen_before_they_run():
    executable, (x,) = sample("kernel")
    stepper = stepper_of(executable.program, [x])
    steps = stepper.steps()
    launch = next(steps)
    assert isinstance(launch, Launch)
    out = stepper.array(launch.buffers[-1])
    assert out.view(np.uint32).tolist() == np.full((4, 6), 0xA5A5A5A5).tolist()
    assert next(steps, None) is None
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-6)


def test_loops_show_their_rounds():
    executable, arguments = sample("loop")
    steps = list(stepper_of(executable.program, arguments).steps())
    (loop,) = [s for s in executable.program.steps if isinstance(s, While)]
    assert sum(s is loop for s in steps) == 1
    assert sum(s is loop.body[0] for s in steps) == 40
    assert sum(s is loop.condition[0] for s in steps) == 41


def test_arguments_are_left_alone_and_state_is_kept():
    executable, arguments = sample("update")
    before = [a.copy() for a in arguments]
    stepper_of(executable.program, arguments).run()
    for x, y in zip(arguments, before):
        np.testing.assert_array_equal(x, y)
    program = sample("random")[0].program
    state = [a.copy() for a in program.state]
    first, second = (stepper_of(program, [], state).run() for _ in range(2))
    start = int(program.state[0][0])
    low = [[int(r[0]) - start for r in run] for run in (first, second)]
    assert sorted(low[0] + low[1])[0] == 0 and max(low[1]) > max(low[0])
    assert int(state[0][0]) - start == 24
    again = stepper_of(program, []).run()  # from the initial state
    assert [r.tolist() for r in again] == [r.tolist() for r in first]


def test_wrong_arguments():
    executable, _ = sample("kernel")
    with pytest.raises(ValueError, match=r"takes \(f32\[4,6\]\), got \(f64\[4,6\]\)"):
        stepper_of(executable.program, [np.zeros((4, 6))])
    with pytest.raises(ValueError, match=r"takes \(f32\[4,6\]\), got \(\)"):
        stepper_of(executable.program, [])


def test_memory_can_be_looked_at():
    executable, arguments = sample("product-epilogue")
    stepper = stepper_of(executable.program, arguments)
    assert set(stepper.memory) >= {(Space.ARGUMENT, 2), (Space.OUTPUT, 0), (Space.TEMP, 0)}
