"""Small loops and branches run as one launch of one block; others step by step."""

import re

import numpy as np
import pytest

import xla_backend
from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.compile_options import CompileOptions
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import Launch, Resident, Space, all_steps
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.kernel_functions import KernelFunctions, shared_operands
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target
from xla_backend.targets.gpu.ptxas import assemble
from xla_backend.targets.gpu.resident_functions import emit_resident

LOOP = """HloModule loop
cond {{ s = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] {bound}  ROOT r = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[{n}] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[{n}] tanh(x)  ROOT t = (s32[], f32[{n}]) tuple(j, y) }}
ENTRY e {{ x = f32[{n}] parameter(0)  zero = s32[] constant(0)
  t = (s32[], f32[{n}]) tuple(zero, x)
  w = (s32[], f32[{n}]) while(t), condition=cond, body=body
  ROOT r = f32[{n}] get-tuple-element(w), index=1 }}"""
BRANCH = """HloModule branch
yes {{ x = f32[{n}] parameter(0)  ROOT r = f32[{n}] sine(x) }}
no {{ x = f32[{n}] parameter(0)  ROOT r = f32[{n}] negate(x) }}
ENTRY e {{ x = f32[{n}] parameter(0)  p = pred[] parameter(1)
  ROOT r = f32[{n}] conditional(p, x, x), true_computation=yes, false_computation=no }}"""


def planned(text):
    module = xla_backend.parse_hlo(text)
    return xla_backend.compile(module, "gpu_emulator", CompileOptions(verify=True))


def loop(n, trips=50):
    return LOOP.format(n=n, bound=f"constant({trips})")


@pytest.mark.parametrize("n", [1, 33, 1000, 4096])
def test_a_small_loop_is_one_launch(n):
    executable = planned(loop(n))
    (resident,) = [s for s in executable.loaded.plan.program.steps if isinstance(s, Resident)]
    assert resident.threads % 32 == 0 and 32 <= resident.threads <= 1024
    x = np.linspace(0, 1, n, dtype=np.float32)
    expected = xla_backend.evaluate(xla_backend.parse_hlo(loop(n)), [x])[0]
    np.testing.assert_allclose(executable.execute([x])[0], expected, rtol=1e-6)


def test_the_program_says_how_often_and_by_whom():
    text = planned(loop(64, 70)).texts()["program"]
    assert "by one block of " in text
    assert "pred[], 70 times:" in text


def test_a_large_loop_is_launched_step_by_step():
    executable = planned(loop(1 << 24))
    steps = list(all_steps(executable.loaded.plan.program.steps))
    assert not any(isinstance(s, Resident) for s in steps)
    assert any(isinstance(s, Launch) for s in steps)


@pytest.mark.parametrize("taken", [False, True])
def test_a_small_branch_is_taken_on_the_device(taken):
    n = 100
    executable = planned(BRANCH.format(n=n))
    steps = executable.loaded.plan.program.steps
    assert any(isinstance(s, Resident) for s in steps)
    x = np.linspace(0, 1, n, dtype=np.float32)
    expected = np.sin(x) if taken else -x
    np.testing.assert_allclose(executable.execute([x, np.array(taken)])[0], expected, rtol=1e-6)


# -- their code ------------------------------------------------------------------------------------

# One row after another is summed up, by all threads of a block together.
ROWS = """HloModule rows
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
cond {{ s = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[{n}] get-tuple-element(s), index=1  zero = f32[] constant(0)
  sum = f32[] reduce(x, zero), dimensions={{0}}, to_apply=add
  most = f32[] constant(1e6)  ROOT r = pred[] compare(sum, most), direction=LT }}
body {{ s = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[{n}] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  zero = f32[] constant(0)  sum = f32[] reduce(x, zero), dimensions={{0}}, to_apply=add
  all = f32[{n}] broadcast(sum), dimensions={{}}  y = f32[{n}] add(x, all)
  ROOT t = (s32[], f32[{n}]) tuple(j, y) }}
ENTRY e {{ x = f32[{n}] parameter(0)  zero = s32[] constant(0)
  t = (s32[], f32[{n}]) tuple(zero, x)
  w = (s32[], f32[{n}]) while(t), condition=cond, body=body
  ROOT r = f32[{n}] get-tuple-element(w), index=1 }}"""
SWITCH = """HloModule switch
a {{ x = f32[{n}] parameter(0)  ROOT r = f32[{n}] sine(x) }}
b {{ x = f32[{n}] parameter(0)  ROOT r = f32[{n}] negate(x) }}
c {{ x = f32[{n}] parameter(0)  ROOT r = f32[{n}] exponential(x) }}
ENTRY e {{ x = f32[{n}] parameter(0)  i = s32[] parameter(1)
  ROOT r = f32[{n}] conditional(i, x, x, x), branch_computations={{a, b, c}} }}"""


def code_of(text, architecture="sm_90"):
    """PTX of the resident step of a program, and its function."""
    program = planned(text).loaded.plan.program
    (step,) = [s for s in program.steps if isinstance(s, Resident)]
    chosen = ARCHITECTURES[architecture]
    module = ModuleWriter(llvm_target(chosen))
    functions = KernelFunctions(module, chosen, shared_operands(program))
    function = emit_resident(functions, program, step)
    return compile_ptx(module.to_text(), chosen), function


def test_a_counted_loop_is_a_loop_of_the_device():
    ptx, function = code_of(loop(1000))
    assert f".entry {function.name}(" in ptx and f".reqntid {function.threads}" in ptx
    assert re.search(r"@%p\d+ bra", ptx)
    assert ptx.count("bar.sync") + ptx.count("barrier.sync") >= 1
    assert {space for space, _ in function.memories} == {Space.OUTPUT, Space.TEMP}


def test_nothing_is_taken_to_stay_as_it_is():
    """What one launch reads, another one writes. (tanh has a table, which does stay.)"""
    ptx, _ = code_of(loop(1000).replace("tanh", "sqrt"))
    assert "ld.global.nc" not in ptx and "ld.global" in ptx


def test_all_threads_see_a_condition_before_it_changes():
    """A barrier between reading it and writing what may be the same memory."""
    ptx, _ = code_of(BRANCH.format(n=100))
    after = re.search(r"ld\.global\.[bus]8.*?\n(.*?)st\.global", ptx, re.DOTALL)
    assert after is not None and re.search(r"bar(rier)?\.sync", after[1])


@NEEDS_PTXAS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("n", [7, 700])
@pytest.mark.parametrize("text", [loop, BRANCH.format, SWITCH.format, ROWS.format])
def test_the_code_assembles(text, n, architecture):
    ptx, function = code_of(text(n=n), architecture)
    used = assemble(ptx, architecture).resources[function.name]
    assert used.spill_stores == used.spill_loads == 0


@pytest.mark.parametrize("n", [7, 700])
def test_a_loop_ends_by_what_its_data_say(n):
    x = np.full(n, 0.5, np.float32)
    module = xla_backend.parse_hlo(ROWS.format(n=n))
    executable = planned(ROWS.format(n=n))
    assert any(isinstance(s, Resident) for s in executable.loaded.plan.program.steps)
    np.testing.assert_allclose(
        executable.execute([x])[0], xla_backend.evaluate(module, [x])[0], rtol=1e-5
    )


def test_more_rounds_than_32_bits_count():
    text = loop(64, 1 << 33).replace("s32[]", "s64[]")
    ptx, _ = code_of(text)
    assert re.search(rf"setp\.\w+\.[bsu]64\s+%p\d+, %rd\d+, {1 << 33}", ptx)
