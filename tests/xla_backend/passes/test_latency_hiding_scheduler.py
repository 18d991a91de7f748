"""Collectives go down to what needs them, and no further than effects and memory allow."""

from __future__ import annotations

import pytest
from pass_checks import STYLE, match_checks

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes.base import Pipeline
from xla_backend.passes.latency_hiding_scheduler import LatencyHidingScheduler

CALLED = """
sum { left = f32[] parameter(0)
  right = f32[] parameter(1)
  ROOT both = f32[] add(left, right) }
"""
ALL = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
COLLECTIVES = {
    "all-reduce": f"f32[64] all-reduce(x), channel_id=1, {ALL}, to_apply=sum",
    "all-gather": f"f32[256] all-gather(x), channel_id=1, dimensions={{0}}, {ALL}",
    "reduce-scatter": (
        f"f32[16] reduce-scatter(x), channel_id=1, dimensions={{0}}, {ALL}, to_apply=sum"
    ),
    "all-to-all": f"f32[64] all-to-all(x), channel_id=1, dimensions={{0}}, {ALL}",
    "collective-permute": (
        "f32[64] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}"
    ),
    "collective-broadcast": "f32[64] collective-broadcast(x), channel_id=1, replica_groups={{0,1}}",
}


def check(body: str, changed: bool = True, called: str = CALLED) -> None:
    text = f"HloModule m, num_partitions=4, is_scheduled=true\n{called}\nENTRY main {{\n{body}\n}}"
    module = parse_module(text)
    hlo_pass = LatencyHidingScheduler()
    assert Pipeline("check", [hlo_pass], CompileOptions(verify=True)).run(module) == changed
    printed = module_to_text(module, STYLE)
    match_checks(body, printed[printed.index("ENTRY") :])


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_each_kind_waits_for_its_reader(kind: str) -> None:
    check(
        f"""x = f32[64] parameter(0)
        y = f32[64] parameter(1)
        r = {COLLECTIVES[kind]}
        a = f32[64] sine(y)
        b = f32[64] cosine(a)
        n = {COLLECTIVES[kind].split()[0]} negate(r)
        ROOT t = ({COLLECTIVES[kind].split()[0]}, f32[64]) tuple(n, b)
        CHECK: %a = {{{{.*}}}}sine
        CHECK-NEXT: %b = {{{{.*}}}}cosine
        CHECK-NEXT: %r = {{{{.*}}}}{kind}(
        CHECK-NEXT: %n = """.replace("        CHECK", "// CHECK")
    )


@pytest.mark.parametrize("predecessor", ["r", "n"])
def test_control_predecessors_come_first(predecessor: str) -> None:
    """The collective itself, or what only names its result, precedes what says so."""
    check(
        f"""x = f32[64] parameter(0)
        y = f32[64] parameter(1)
        r = {COLLECTIVES["all-reduce"]}
        n = f32[64] bitcast(r)
        a = f32[64] sine(y)
        b = f32[64] cosine(a), control-predecessors={{{predecessor}}}
        c = f32[64] tan(b)
        m = f32[64] negate(n)
        ROOT t = (f32[64], f32[64]) tuple(m, c)
        CHECK: %a = {{{{.*}}}}sine
        CHECK-NEXT: %r = {{{{.*}}}}all-reduce(
        {"CHECK-NEXT: %n = " if predecessor == "n" else ""}
        CHECK: %b = {{{{.*}}}}cosine
        CHECK-NEXT: %c = {{{{.*}}}}tan""".replace("        CHECK", "// CHECK")
    )


def test_the_order_of_collectives_stays() -> None:
    """The second one's reader comes first, and the first one goes before."""
    check(
        f"""x = f32[64] parameter(0)
        y = f32[64] parameter(1)
        r = f32[256] all-gather(x), channel_id=1, dimensions={{0}}, {ALL}
        s = f32[256] all-gather(y), channel_id=2, dimensions={{0}}, {ALL}
        a = f32[64] sine(y)
        n = f32[256] negate(s)
        b = f32[64] cosine(a)
        m = f32[256] add(n, r)
        ROOT t = (f32[256], f32[64]) tuple(m, b)
// CHECK: %a =
// CHECK-NEXT: %r = {{{{.*}}}}all-gather
// CHECK-NEXT: %s = {{{{.*}}}}all-gather
// CHECK-NEXT: %n =
// CHECK-NEXT: %b ="""
    )


def test_effects_stay_behind_the_collectives_before_them() -> None:
    check(
        f"""x = f32[64] parameter(0)
        r = f32[64] all-reduce(x), channel_id=1, {ALL}, to_apply=sum
        c = f32[64] custom-call(x), custom_call_target="note", custom_call_has_side_effect=true
        a = f32[64] sine(x)
        ROOT m = f32[64] add(r, a)
// CHECK: %r = {{{{.*}}}}all-reduce
// CHECK-NEXT: %c =""",
        changed=False,
    )


def test_operands_are_not_overwritten_first() -> None:
    """The update takes the memory of what the collective reads."""
    check(
        f"""z = s32[] constant(0)
        y = f32[64] parameter(0)
        u = f32[1] parameter(1)
        x = f32[64] sine(y)
        r = f32[64] all-reduce(x), channel_id=1, {ALL}, to_apply=sum
        a = f32[64] cosine(y)
        d = f32[64] dynamic-update-slice(x, u, z)
        e = f32[64] add(d, a)
        ROOT m = f32[64] add(r, e)
// CHECK: %a =
// CHECK-NEXT: %r = {{{{.*}}}}all-reduce
// CHECK-NEXT: %d ="""
    )


def test_memory_that_would_be_kept_for_long_is_not() -> None:
    """The operand is four times the result: kept until the end, it doubles what is alive."""
    check(
        f"""y = f32[1048576] parameter(0)
        x = f32[1048576] sine(y)
        r = f32[262144] reduce-scatter(x), channel_id=1, dimensions={{0}}, {ALL}, to_apply=sum
        a = f32[1048576] cosine(y)
        b = f32[262144] slice(a), slice={{[0:262144]}}
        ROOT m = f32[262144] add(r, b)
// CHECK: %r = {{{{.*}}}}reduce-scatter
// CHECK-NEXT: %a =""",
        changed=False,
    )


def test_in_the_bodies_of_loops() -> None:
    """The next blocks are asked for before the work on these."""
    check(
        """x = f32[64] parameter(0)
        z = s32[] constant(0)
        t = (s32[], f32[64], f32[64]) tuple(z, x, x)
        ROOT w = (s32[], f32[64], f32[64]) while(t), condition=some, body=step
// CHECK: while""",
        called="""some { p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = f32[64] get-tuple-element(p), index=1
  a = f32[64] get-tuple-element(p), index=2
  q = f32[64] collective-permute(k), channel_id=1,
    source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  s = f32[64] sine(k)
  b = f32[64] add(a, s)
  ROOT t = (s32[], f32[64], f32[64]) tuple(j, q, b) }
""",
    )
