"""Small loops and branches run as one launch of one block; others step by step."""

import numpy as np
import pytest

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.program.ir import Launch, Resident, all_steps

LOOP = """HloModule loop
cond {{ s = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] {bound}  ROOT r = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[{n}]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[{n}] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[{n}] cosine(x)  ROOT t = (s32[], f32[{n}]) tuple(j, y) }}
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
    executable = planned(loop(1 << 16))
    steps = list(all_steps(executable.loaded.plan.program.steps))
    assert not any(isinstance(s, Resident) for s in steps)
    assert any(isinstance(s, Launch) for s in steps)


@pytest.mark.parametrize(("n", "together"), [(100, True), (1 << 16, False)])
@pytest.mark.parametrize("taken", [False, True])
def test_a_small_branch_is_taken_on_the_device(n, together, taken):
    executable = planned(BRANCH.format(n=n))
    steps = executable.loaded.plan.program.steps
    assert any(isinstance(s, Resident) for s in steps) == together
    x = np.linspace(0, 1, n, dtype=np.float32)
    expected = np.sin(x) if taken else -x
    np.testing.assert_allclose(executable.execute([x, np.array(taken)])[0], expected, rtol=1e-6)
