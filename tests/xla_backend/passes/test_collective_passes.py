"""Passes on collectives: each on four devices, before and after."""

import numpy as np
import pytest
from pass_checks import STYLE, match_checks, random_arguments

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes.all_gather_dynamic_slice_simplifier import (
    AllGatherDynamicSliceSimplifier,
)
from xla_backend.passes.all_reduce_decomposition import AllReduceDecomposition
from xla_backend.passes.all_reduce_reassociate import AllReduceReassociation
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.collective_combiner import (
    AllGatherCombiner,
    AllReduceCombiner,
    ReduceScatterCombiner,
)
from xla_backend.passes.reduce_scatter_creator import ReduceScatterCreator

CALLED = """
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
other { d = f32[] parameter(0)
  e = f32[] parameter(1)
  ROOT f = f32[] add(d, e) }
largest { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
whole { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
"""
ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"
PAIRS = "channel_id=2, replica_groups={{0,1},{2,3}}, use_global_device_ids=true"
CROSS = "channel_id=3, replica_groups={{0,2},{1,3}}, use_global_device_ids=true"
ADD, MAX = ", to_apply=sum", ", to_apply=largest"
# The number of a device along a table of where parts begin.
PLACE = """
  p = u32[] partition-id()
  t = s32[4] constant(TABLE)
  n = s32[] convert(p)
  s = s32[1] dynamic-slice(t, n), dynamic_slice_sizes={1}
  i = s32[] reshape(s)
  z = s32[] constant(0)
"""


def check(hlo_pass: HloPass, body: str, *, expect_change: bool = True) -> None:
    text = f"HloModule m, num_partitions=4\n{CALLED}\nENTRY main {{\n{body}\n}}"
    before, after = parse_module(text), parse_module(text)
    changed = Pipeline("check", [hlo_pass], CompileOptions(verify=True)).run(after)
    printed = module_to_text(after, STYLE)
    assert changed == expect_change, printed
    if "CHECK" in body:
        match_checks(body, printed[printed.index("ENTRY") :])
    given = [random_arguments(before, device) for device in range(4)]
    for wanted, got in zip(evaluate_partitioned(before, given), evaluate_partitioned(after, given)):
        for want, value in zip(wanted, got, strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-5)


CHANGED = {
    "a large sum": (
        AllReduceDecomposition(least_bytes=96),
        f"""
      // CHECK: %[[R:.*]] = f32[24] reshape(%x)
      // CHECK: %[[S:.*]] = f32[6] reduce-scatter(%[[R]])
      // CHECK: %[[G:.*]] = f32[24] all-gather(%[[S]])
      // CHECK: ROOT %{{{{.*}}}} = f32[4,6] reshape
      x = f32[4,6] parameter(0)
      ROOT r = f32[4,6] all-reduce(x), {ALL}{ADD}
    """,
    ),
    "large and small ones, whose elements are no multiple of the members": (
        AllReduceDecomposition(least_bytes=96),
        f"""
      // CHECK-DAG: f32[28] pad(
      // CHECK-DAG: f32[32] pad(
      // CHECK: (f32[7], f32[8]) reduce-scatter
      // CHECK: (f32[28], f32[32]) all-gather
      // CHECK: all-reduce(%y)
      x = f32[5,5] parameter(0)
      y = f32[4] parameter(1)
      w = f32[31] parameter(2)
      ROOT r = (f32[5,5], f32[4], f32[31]) all-reduce(x, y, w), {ALL}{MAX}
    """,
    ),
    "a sum of sums": (
        AllReduceReassociation(),
        f"""
      // CHECK: %[[S:.*]] = f32[8] add(%x, %y)
      // CHECK-NEXT: ROOT %{{{{.*}}}} = f32[8] all-reduce(%[[S]])
      x = f32[8] parameter(0)
      y = f32[8] parameter(1)
      a = f32[8] all-reduce(x), {ALL}{ADD}
      b = f32[8] all-reduce(y), {ALL}, to_apply=other
      ROOT r = f32[8] add(a, b)
    """,
    ),
    "a sum of three": (
        AllReduceReassociation(),
        f"""
      // CHECK-NOT: all-reduce
      // CHECK: f32[8] maximum
      // CHECK: %[[S:.*]] = f32[8] maximum
      // CHECK-NEXT: ROOT %{{{{.*}}}} = f32[8] all-reduce(%[[S]])
      x = f32[8] parameter(0)
      y = f32[8] parameter(1)
      w = f32[8] parameter(2)
      a = f32[8] all-reduce(x), {PAIRS}{MAX}
      b = f32[8] all-reduce(y), {PAIRS}{MAX}
      c = f32[8] all-reduce(w), {PAIRS}{MAX}
      m = f32[8] maximum(a, b)
      ROOT r = f32[8] maximum(m, c)
    """,
    ),
    "a sum of scattered sums": (
        AllReduceReassociation(),
        f"""
      // CHECK: add(%x, %y)
      // CHECK-NEXT: ROOT %{{{{.*}}}} = f32[2] reduce-scatter
      x = f32[8] parameter(0)
      y = f32[8] parameter(1)
      a = f32[2] reduce-scatter(x), {ALL}, dimensions={{0}}{ADD}
      b = f32[2] reduce-scatter(y), {ALL}, dimensions={{0}}{ADD}
      ROOT r = f32[2] add(a, b)
    """,
    ),
    "the device's part of a sum": (
        ReduceScatterCreator(),
        PLACE.replace("TABLE", "{0,2,4,6}")
        + f"""
      // CHECK-NOT: all-reduce
      // CHECK: ROOT %{{{{.*}}}} = f32[3,2] reduce-scatter(%x), {{{{.*}}}}dimensions={{1}}
      x = f32[3,8] parameter(0)
      a = f32[3,8] all-reduce(x), {ALL}{ADD}
      ROOT r = f32[3,2] dynamic-slice(a, z, i), dynamic_slice_sizes={{3,2}}
    """,
    ),
    "parts in another order": (
        ReduceScatterCreator(),
        PLACE.replace("TABLE", "{4,4,0,0}")
        + f"""
      // CHECK: reduce-scatter(%x), {{{{.*}}}}2,0}},{{3,1
      x = f32[8] parameter(0)
      a = f32[8] all-reduce(x), {CROSS}{ADD}
      ROOT r = f32[4] dynamic-slice(a, i), dynamic_slice_sizes={{4}}
    """,
    ),
    "parts by arithmetic": (
        ReduceScatterCreator(),
        f"""
      // CHECK: reduce-scatter(%x)
      x = f32[8] parameter(0)
      a = f32[8] all-reduce(x), {PAIRS}{MAX}
      p = u32[] partition-id()
      two = u32[] constant(2)
      four = u32[] constant(4)
      m = u32[] remainder(p, two)
      k = u32[] multiply(m, four)
      ROOT r = f32[4] dynamic-slice(a, k), dynamic_slice_sizes={{4}}
    """,
    ),
    "what was gathered": (
        AllGatherDynamicSliceSimplifier(),
        PLACE.replace("TABLE", "{0,3,0,3}")
        + f"""
      // CHECK-NOT: all-gather
      // CHECK: ROOT %{{{{.*}}}} = f32[3,2] negate(%x)
      x = f32[3,2] parameter(0)
      a = f32[6,2] all-gather(x), {PAIRS}, dimensions={{0}}
      o = f32[3,2] dynamic-slice(a, i, z), dynamic_slice_sizes={{3,2}}
      ROOT r = f32[3,2] negate(o)
    """,
    ),
    "sums of all shapes": (
        AllReduceCombiner(),
        f"""
      // CHECK: = (f32[8], f32[2,3], f32[], f32[]) all-reduce(%x, %y, %v, %w)
      // CHECK-NOT: all-reduce(
      x = f32[8] parameter(0)
      y = f32[2,3] parameter(1)
      v = f32[] parameter(2)
      w = f32[] parameter(3)
      a = f32[8] all-reduce(x), {ALL}{ADD}
      b = f32[2,3] all-reduce(y), {ALL}, to_apply=other
      c = (f32[], f32[]) all-reduce(v, w), {ALL}{ADD}
      ROOT r = (f32[8], f32[2,3], (f32[], f32[])) tuple(a, b, c)
    """,
    ),
    "sums that need others": (
        AllReduceCombiner(),
        f"""
      // CHECK: = (f32[8], f32[8]) all-reduce(%x, %y)
      // CHECK: = (f32[8], f32[8]) all-reduce(%{{{{[an]}}}}
      // CHECK-NOT: all-reduce(
      x = f32[8] parameter(0)
      y = f32[8] parameter(1)
      a = f32[8] all-reduce(x), {ALL}{ADD}
      b = f32[8] all-reduce(y), {ALL}{ADD}
      n = f32[8] negate(a)
      e = f32[8] abs(b)
      c = f32[8] all-reduce(n), {ALL}{ADD}
      d = f32[8] all-reduce(e), {ALL}{ADD}
      ROOT r = f32[8] add(c, d)
    """,
    ),
    "gathers of several types": (
        AllGatherCombiner(),
        f"""
      // CHECK: = (f32[8], s32[8,2]) all-gather(%x, %y)
      x = f32[4] parameter(0)
      y = s32[4,2] parameter(1)
      a = f32[8] all-gather(x), {PAIRS}, dimensions={{0}}
      b = s32[8,2] all-gather(y), {PAIRS}, dimensions={{0}}
      ROOT r = (f32[8], s32[8,2]) tuple(a, b)
    """,
    ),
    "scattered sums": (
        ReduceScatterCombiner(),
        f"""
      // CHECK: = (f32[2], f32[1,2]) reduce-scatter(%x, %y)
      x = f32[8] parameter(0)
      y = f32[4,2] parameter(1)
      a = f32[2] reduce-scatter(x), {ALL}, dimensions={{0}}{ADD}
      b = f32[1,2] reduce-scatter(y), {ALL}, dimensions={{0}}{ADD}
      ROOT r = (f32[2], f32[1,2]) tuple(a, b)
    """,
    ),
    "as many as are allowed": (
        AllReduceCombiner(most_operands=2),
        f"""
      // CHECK: = (f32[8], f32[8]) all-reduce(%x, %y)
      // CHECK: = f32[8] all-reduce(%w)
      x = f32[8] parameter(0)
      y = f32[8] parameter(1)
      w = f32[8] parameter(2)
      a = f32[8] all-reduce(x), {ALL}{ADD}
      b = f32[8] all-reduce(y), {ALL}{ADD}
      c = f32[8] all-reduce(w), {ALL}{ADD}
      ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, c)
    """,
    ),
}
TWO = "x = f32[8] parameter(0)\ny = f32[8] parameter(1)\n"
KEPT = {
    "a small sum": (
        AllReduceDecomposition(),
        f"""
      x = f32[5] parameter(0)
      ROOT r = f32[5] all-reduce(x), {ALL}{ADD}
    """,
    ),
    "a large sum of two": (
        AllReduceDecomposition(least_bytes=1),
        f"""
      x = f32[5] parameter(0)
      ROOT r = f32[5] all-reduce(x), {PAIRS}{ADD}
    """,
    ),
    "sums of other groups": (
        AllReduceReassociation(),
        f"{TWO}a = f32[8] all-reduce(x), {PAIRS}{ADD}\nb = f32[8] all-reduce(y), {CROSS}{ADD}\n"
        "ROOT r = f32[8] add(a, b)",
    ),
    "a sum of largest": (
        AllReduceReassociation(),
        f"{TWO}a = f32[8] all-reduce(x), {ALL}{MAX}\nb = f32[8] all-reduce(y), {ALL}{MAX}\n"
        "ROOT r = f32[8] add(a, b)",
    ),
    "a sum that others use": (
        AllReduceReassociation(),
        f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\nb = f32[8] all-reduce(y), {ALL}{ADD}\n"
        "c = f32[8] add(a, b)\nROOT r = (f32[8], f32[8]) tuple(a, c)",
    ),
    "a sum with itself": (
        AllReduceReassociation(),
        f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\nROOT r = f32[8] add(a, a)",
    ),
    "the same part for two": (
        ReduceScatterCreator(),
        PLACE.replace("TABLE", "{0,2,2,6}") + f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\n"
        "ROOT r = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
    ),
    "a part that is computed": (
        ReduceScatterCreator(),
        f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\ni = s32[] parameter(2)\n"
        "ROOT r = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}",
    ),
    "parts that overlap": (
        ReduceScatterCreator(),
        PLACE.replace("TABLE", "{0,2,4,6}") + f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\n"
        "ROOT r = f32[3] dynamic-slice(a, i), dynamic_slice_sizes={3}",
    ),
    "a part of the sum, and the sum": (
        ReduceScatterCreator(),
        PLACE.replace("TABLE", "{0,2,4,6}") + f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\n"
        "d = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}\n"
        "ROOT r = (f32[8], f32[2]) tuple(a, d)",
    ),
    "the neighbour's part": (
        AllGatherDynamicSliceSimplifier(),
        PLACE.replace("TABLE", "{8,0,8,0}")
        + f"{TWO}a = f32[16] all-gather(x), {PAIRS}, dimensions={{0}}\n"
        "ROOT r = f32[8] dynamic-slice(a, i), dynamic_slice_sizes={8}",
    ),
    "one that needs the other": (
        AllReduceCombiner(),
        f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\nb = f32[8] negate(a)\n"
        f"ROOT r = f32[8] all-reduce(b), {ALL}{ADD}",
    ),
    "other groups": (
        AllReduceCombiner(),
        f"{TWO}a = f32[8] all-reduce(x), {PAIRS}{ADD}\nb = f32[8] all-reduce(y), {CROSS}{ADD}\n"
        "ROOT r = (f32[8], f32[8]) tuple(a, b)",
    ),
    "other dimensions": (
        AllGatherCombiner(),
        f"x = f32[4,2] parameter(0)\na = f32[8,2] all-gather(x), {PAIRS}, dimensions={{0}}\n"
        f"b = f32[4,4] all-gather(x), {PAIRS}, dimensions={{1}}\n"
        "ROOT r = (f32[8,2], f32[4,4]) tuple(a, b)",
    ),
    "other types": (
        AllReduceCombiner(),
        f"x = f32[4] parameter(0)\ny = s32[4] parameter(1)\na = f32[4] all-reduce(x), {ALL}{ADD}\n"
        f"b = s32[4] all-reduce(y), {ALL}, to_apply=whole\n"
        "ROOT r = (f32[4], s32[4]) tuple(a, b)",
    ),
    "too many bytes": (
        AllReduceCombiner(most_bytes=63),
        f"{TWO}a = f32[8] all-reduce(x), {ALL}{ADD}\nb = f32[8] all-reduce(y), {ALL}{ADD}\n"
        "ROOT r = (f32[8], f32[8]) tuple(a, b)",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changes(name):
    check(*CHANGED[name])


@pytest.mark.parametrize("name", KEPT)
def test_keeps(name):
    check(*KEPT[name], expect_change=False)
