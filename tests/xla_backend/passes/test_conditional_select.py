"""Conditionals whose branches are a few scalar instructions become selections."""

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.conditional_simplifier import ConditionalSimplifier

BRANCHES = """
HloModule m

b0 {
  t = (f32[%N%], f32[]) parameter(0)
  x = f32[%N%] get-tuple-element(t), index=0
  y = f32[%N%] negate(x)
  s = f32[] get-tuple-element(t), index=1
  ROOT r = (f32[%N%], f32[]) tuple(y, s)
}

b1 {
  t = (f32[%N%], f32[]) parameter(0)
  x = f32[%N%] get-tuple-element(t), index=0
  s = f32[] get-tuple-element(t), index=1
  d = f32[] add(s, s)
  ROOT r = (f32[%N%], f32[]) tuple(x, d)
}

b2 {
  t = (f32[%N%], f32[]) parameter(0)
  x = f32[%N%] get-tuple-element(t), index=0
  y = f32[%N%] %OP%(x)
  c = f32[] constant(7)
  ROOT r = (f32[%N%], f32[]) tuple(y, c)
}
"""
BY_NUMBER = """
ENTRY main {
  i = s32[] parameter(0)
  x = f32[%N%] parameter(1)
  s = f32[] parameter(2)
  t = (f32[%N%], f32[]) tuple(x, s)
  // CHECK: compare(%i, {{.*}}direction=EQ
  // CHECK-NOT: conditional(
  ROOT r = (f32[%N%], f32[]) conditional(i, t, t, t), branch_computations={b0, b1, b2}
}
"""
BY_TRUTH = """
ENTRY main {
  i = pred[] parameter(0)
  x = f32[%N%] parameter(1)
  s = f32[] parameter(2)
  t = (f32[%N%], f32[]) tuple(x, s)
  // CHECK-NOT: conditional(
  // CHECK: select(
  ROOT r = (f32[%N%], f32[]) conditional(i, t, t), true_computation=b0, false_computation=b1
}
"""


def program(entry: str, size: int = 4, opcode: str = "abs") -> str:
    return (BRANCHES + entry).replace("%N%", str(size)).replace("%OP%", opcode)


@pytest.mark.parametrize("entry, selectors", [(BY_NUMBER, range(-1, 4)), (BY_TRUTH, [0, 1])])
def test_small_branches_are_selected(entry, selectors):
    text = program(entry)
    after = check_pass(ConditionalSimplifier(), text)
    before = parse_module(text)
    dtype = before.entry.parameters[0].shape.element_type.numpy_dtype
    for selector in selectors:
        x = np.array([1, -2, 3, -0.0], np.float32)
        arguments = [np.asarray(selector).astype(dtype), x, np.float32(5)]
        for expected, got in zip(evaluate(before, arguments), evaluate(after, arguments)):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "text",
    [
        program(BY_NUMBER, size=4096),  # an array is worth a branch
        program(BY_NUMBER, opcode="tanh"),  # so is an expensive function
        program(BY_NUMBER, opcode="cholesky").replace(
            "cholesky(x)", 'custom-call(x), custom_call_target="f"'
        ),
    ],
)
def test_other_branches_stay(text):
    text = text.replace("// CHECK", "// ")
    module = parse_module(text)
    assert not ConditionalSimplifier().run(module)
