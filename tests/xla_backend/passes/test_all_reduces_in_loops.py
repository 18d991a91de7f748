"""Sums over devices that leave loops: on four devices, before and after."""

import numpy as np
import pytest
from pass_checks import STYLE, match_checks, random_arguments

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes.base import Pipeline
from xla_backend.passes.while_loop_all_reduce_code_motion import WhileLoopAllReduceCodeMotion

ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"
PAIRS = "channel_id=2, replica_groups={{0,1},{2,3}}, use_global_device_ids=true"
STATE = "(s32[], f32[6], f32[4,6], f32[4,6])"


def loop(
    body: str, *, start: str = "z", condition: str = "ROOT c = pred[] compare(i, n), direction=LT"
) -> str:
    """A loop of four rounds over a total t, rows w that it writes, and rows x that it reads. `body`
    makes `u` and `v` of `t`, `w`, a round's row `y` and its number `i`."""
    return f"""
HloModule m, num_partitions=4
sum {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
largest {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }}
body {{ s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = f32[6] get-tuple-element(s), index=1
  w = f32[4,6] get-tuple-element(s), index=2
  x = f32[4,6] get-tuple-element(s), index=3
  one = s32[] constant(1)
  o = s32[] constant(0)
  j = s32[] add(i, one)
  r = f32[1,6] dynamic-slice(x, i, o), dynamic_slice_sizes={{1,6}}
  y = f32[6] reshape(r)
  {body}
  ROOT q = {STATE} tuple(j, u, v, x) }}
condition {{ s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  t = f32[6] get-tuple-element(s), index=1
  n = s32[] constant(4)
  {condition} }}
ENTRY main {{
  x = f32[4,6] parameter(0)
  p = f32[6] parameter(1)
  o = s32[] constant(0)
  f = f32[] constant(0)
  z = f32[6] broadcast(f), dimensions={{}}
  e = f32[4,6] broadcast(f), dimensions={{}}
  s = {STATE} tuple(o, {start}, e, x)
  l = {STATE} while(s), condition=condition, body=body
  t = f32[6] get-tuple-element(l), index=1
  w = f32[4,6] get-tuple-element(l), index=2
  ROOT q = (f32[6], f32[4,6]) tuple(t, w)
}}"""


def moved(text: str) -> tuple[bool, HloModule]:
    """Whether the pass changes it, and the module; results stay what they are."""
    before, after = parse_module(text), parse_module(text)
    passes = [WhileLoopAllReduceCodeMotion()]
    changed = Pipeline("check", passes, CompileOptions(verify=True)).run(after)
    given = [random_arguments(before, device) for device in range(4)]
    for wanted, got in zip(evaluate_partitioned(before, given), evaluate_partitioned(after, given)):
        for want, value in zip(wanted, got, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)
    return changed, after


SUM = f"y1 = f32[6] negate(y)\na = f32[6] all-reduce(y1), {ALL}, to_apply=sum\n"
SAME = "\nv = f32[4,6] copy(w)"
OTHER = "\nu = f32[6] copy(t)"
UPDATE = f"{SUM}k = f32[1,6] reshape(a)\nv = f32[4,6] dynamic-update-slice(w, k, "
# name -> (CHECK lines, program)
MOVED = {
    "gradients of microbatches": (
        "// CHECK-NOT: all-reduce(\n// CHECK: ENTRY\n// CHECK: while(\n"
        "// CHECK: f32[6] all-reduce(\n// CHECK: ROOT",
        loop(f"{SUM}u = f32[6] add(t, a){SAME}"),
    ),
    "behind what there was": (
        "// CHECK: %u = f32[6] add(%y1, %t)\n// CHECK: ENTRY\n"
        "// CHECK: %[[A:.*]] = f32[6] all-reduce(\n// CHECK: f32[6] add(%p, %[[A]])",
        loop(f"{SUM}u = f32[6] add(a, t){SAME}", start="p"),
    ),
    "two in a round": (
        "// CHECK: ENTRY\n// CHECK: f32[6] all-reduce(\n// CHECK-NOT: all-reduce(\n// CHECK: ROOT",
        loop(
            f"{SUM}b = f32[6] all-reduce(y), {ALL}, to_apply=sum\n"
            f"t1 = f32[6] add(t, a)\nu = f32[6] add(b, t1){SAME}"
        ),
    ),
    "the largest": (
        "// CHECK: maximum(%t, %y)\n// CHECK: ENTRY\n// CHECK: constant(-inf)\n"
        "// CHECK: %[[A:.*]] = f32[6] all-reduce({{.*}}0,1},{2,3\n// CHECK: maximum(%p, %[[A]])",
        loop(
            f"a = f32[6] all-reduce(y), {PAIRS}, to_apply=largest\nu = f32[6] maximum(t, a){SAME}",
            start="p",
        ),
    ),
    "gradients of layers": (
        "// CHECK-NOT: all-reduce(\n// CHECK: ENTRY\n// CHECK: f32[4,6] all-reduce(\n"
        "// CHECK: ROOT",
        loop(f"{UPDATE}i, o){OTHER}"),
    ),
    "gradients of layers, from the last": (
        "// CHECK-NOT: all-reduce(\n// CHECK: ENTRY\n// CHECK: f32[4,6] all-reduce(\n"
        "// CHECK: ROOT",
        loop(f"last = s32[] constant(3)\nh = s32[] subtract(last, i)\n{UPDATE}h, o){OTHER}"),
    ),
}  # fmt: skip
KEPT = {
    "a sum that the round uses": loop(
        f"{SUM}u = f32[6] add(t, a)\nk = f32[1,6] reshape(a)\n"
        "v = f32[4,6] dynamic-update-slice(w, k, i, o)"
    ),
    "a total that the round uses": loop(
        f"m = f32[6] multiply(y, t)\na = f32[6] all-reduce(m), {ALL}, to_apply=sum\n"
        f"u = f32[6] add(t, a){SAME}"
    ),
    "a total that decides": loop(
        f"{SUM}u = f32[6] add(t, a){SAME}",
        condition="t1 = f32[1] slice(t), slice={[0:1]}\nt0 = f32[] reshape(t1)\n"
        "m = f32[] constant(2)\nn1 = pred[] compare(i, n), direction=LT\n"
        "n2 = pred[] compare(t0, m), direction=LT\nROOT n3 = pred[] and(n1, n2)",
    ),
    "the sum of largest": loop(
        f"a = f32[6] all-reduce(y), {ALL}, to_apply=largest\nu = f32[6] add(t, a){SAME}"
    ),
    "sums of other groups": loop(
        f"{SUM}b = f32[6] all-reduce(y), {PAIRS}, to_apply=sum\n"
        f"t1 = f32[6] add(t, a)\nu = f32[6] add(b, t1){SAME}"
    ),
    "something else, too": loop(f"{SUM}b = f32[6] add(y, a)\nu = f32[6] add(t, b){SAME}"),
    "one row again and again": loop(f"{UPDATE}one, o){OTHER}"),
    "rows that are read": loop(
        f"{SUM}g = f32[1,6] dynamic-slice(w, i, o), dynamic_slice_sizes={{1,6}}\n"
        "k = f32[1,6] reshape(a)\nh = f32[1,6] add(g, k)\n"
        f"v = f32[4,6] dynamic-update-slice(w, h, i, o){OTHER}"
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_sum_leaves_the_loop(name):
    checks, text = MOVED[name]
    changed, after = moved(text)
    assert changed
    match_checks(checks, module_to_text(after, STYLE))


@pytest.mark.parametrize("name", KEPT)
def test_sum_stays(name):
    changed, _ = moved(KEPT[name])
    assert not changed
