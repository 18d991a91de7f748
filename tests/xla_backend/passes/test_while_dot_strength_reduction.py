"""while-dot-strength-reduction."""

import re

import pytest
from pass_checks import check_pass

from xla_backend.passes.while_dot_strength_reduction import WhileDotStrengthReduction

LOOP = """HloModule m

cond {
  t = (s32[], STATE, MATRIX) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], STATE, MATRIX) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = STATE get-tuple-element(t), index=1
  w = MATRIX get-tuple-element(t), index=2
  y = STATE DOT
  ROOT r = (s32[], STATE, MATRIX) tuple(next, y, w)
}

ENTRY main {
  p = STATE parameter(0)
  m = MATRIX parameter(1)
  start = s32[] constant(0)
  t = (s32[], STATE, MATRIX) tuple(start, p, m)
  l = (s32[], STATE, MATRIX) while(t), condition=cond, body=body
  ROOT a = STATE get-tuple-element(l), index=1
}
"""
RIGHT = "dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LEFT = "dot(x, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
MATRICES = "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
BATCH = (
    "dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
)


def loop(state: str, matrix: str, dot: str, checks: str = "") -> str:
    text = LOOP.replace("DOT", dot)
    text = re.sub(r"\bMATRIX\b", matrix, re.sub(r"\bSTATE\b", state, text))
    return text.replace("body {", f"{checks}\nbody {{", 1)


SLICES = """// CHECK: %body
// CHECK: slice(%x), slice={[0:2], [0:1]}
// CHECK: multiply
// CHECK: slice(%x), slice={[0:2], [1:2]}
// CHECK: add
// CHECK-NOT: dot(
// CHECK: ROOT"""
ROWS = """// CHECK: %body
// CHECK: multiply(%w
// CHECK: reduce({{.*}}), dimensions={1}
// CHECK-NOT: dot(
// CHECK: ROOT"""


@pytest.mark.parametrize(
    "text",
    [
        loop("f32[2,2]", "f32[2,2]", MATRICES, SLICES),
        loop("f32[8]", "f32[8,8]", RIGHT, ROWS),
        loop("f32[6]", "f32[6,6]", LEFT),
        loop("f64[3,4]", "f64[4,4]", MATRICES),
        loop("s32[2,3,3]", "s32[2,3,3]", BATCH),
    ],
)
def test_becomes_arithmetic(text: str) -> None:
    check_pass(WhileDotStrengthReduction(), text, exact=False)


@pytest.mark.parametrize(
    "text",
    [
        loop("f32[17]", "f32[17,17]", RIGHT),
        loop("f32[8,8]", "f32[8,8]", MATRICES),
        loop("f32[32,4,4]", "f32[32,4,4]", BATCH),
        loop("bf16[2,2]", "bf16[2,2]", MATRICES),
        "ENTRY main { p = f32[2,2] parameter(0)  ROOT d = f32[2,2] dot(p, p), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    ],
    ids=["long", "large", "many", "narrow", "in no loop"],
)
def test_stays(text: str) -> None:
    check_pass(WhileDotStrengthReduction(), text, expect_change=False)
