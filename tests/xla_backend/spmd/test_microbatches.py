"""Loops over microbatches, compiled: what is exchanged in them, and what before and after."""

import pytest
from pass_checks import STYLE, match_checks

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.targets.cpu.pipeline import build_pipeline

A = "mesh['a'=4]"
BATCHES = f"{{{A}, [{{}}, {{'a'}}, {{}}]}}"
STATE = "(s32[], f32[64,64], f32[64,64], f32[8,16,64])"


def step(weights: str) -> str:
    """The gradient of a weight, summed over eight microbatches of which each device has a part."""
    return f"""HloModule m, num_partitions=4
body {{ s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[64,64] get-tuple-element(s), index=1
  g = f32[64,64] get-tuple-element(s), index=2
  xs = f32[8,16,64] get-tuple-element(s), index=3
  one = s32[] constant(1)
  z = s32[] constant(0)
  j = s32[] add(i, one)
  x1 = f32[1,16,64] dynamic-slice(xs, i, z, z), dynamic_slice_sizes={{1,16,64}}
  x = f32[16,64] reshape(x1)
  h = f32[16,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[16,64] tanh(h)
  dw = f32[64,64] dot(x, t), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ng = f32[64,64] add(g, dw)
  ROOT r = {STATE} tuple(j, w, ng, xs) }}
condition {{ s = {STATE} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT r = pred[] compare(i, n), direction=LT }}
ENTRY main {{
  w = f32[64,64] parameter(0), sharding={weights}
  xs = f32[8,16,64] parameter(1), sharding={BATCHES}
  z = s32[] constant(0)
  f = f32[] constant(0)
  g = f32[64,64] broadcast(f), dimensions={{}}
  s = {STATE} tuple(z, w, g, xs)
  l = {STATE} while(s), condition=condition, body=body
  ROOT o = f32[64,64] get-tuple-element(l), index=2, sharding={weights}
}}
"""


# How weights are cut, and what is exchanged where: the entry stands at the end.
STEPS = {
    "each device has all weights": (
        f"{{{A}, [{{}}, {{}}]}}",
        "// CHECK-NOT: all-reduce(\n// CHECK: ENTRY\n// CHECK: f32[64,64] all-reduce(\n// CHECK: }",
    ),
    "weights are cut": (
        f"{{{A}, [{{'a'}}, {{}}]}}",
        "// CHECK-NOT: all-gather(\n// CHECK: f32[16,64] reduce-scatter(\n// CHECK: ENTRY\n"
        "// CHECK: f32[64,64] all-gather(\n// CHECK: while(\n// CHECK: }",
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_step(name: str) -> None:
    weights, checks = STEPS[name]
    module = parse_module(step(weights))
    build_pipeline(CompileOptions()).run(module)
    match_checks(checks, module_to_text(module, STYLE))
