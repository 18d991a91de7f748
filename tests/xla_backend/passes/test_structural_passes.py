"""dce, call inlining, tuples, cse, folding, control flow, expanders: a program each changes and
one it keeps."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.batch_norm_expander import BatchNormExpander
from xla_backend.passes.call_inliner import CallGraphFlattener, CallInliner
from xla_backend.passes.computation_deduplicator import ComputationDeduplicator
from xla_backend.passes.conditional_simplifier import ConditionalSimplifier
from xla_backend.passes.constant_folding import ConstantFolding
from xla_backend.passes.cse import CommonSubexpressionElimination
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.map_inliner import MapInliner
from xla_backend.passes.opt_barrier_elimination import OptBarrierElimination
from xla_backend.passes.rng_expander import RngBitGeneratorExpander, RngExpander
from xla_backend.passes.topk_decomposer import TopKDecomposer
from xla_backend.passes.tuple_simplifier import TupleSimplifier
from xla_backend.passes.while_loop_simplifier import WhileLoopSimplifier
from xla_backend.passes.zero_sized_elimination import ZeroSizedElimination

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
"""
PLAIN = """
HloModule m

ENTRY main {
  p = f32[4] parameter(0)
  ROOT r = f32[4] sine(p)
}
"""
CALL = """
HloModule m

double {
  x = f32[4] parameter(0)
  ROOT y = f32[4] add(x, x)
}

ENTRY main {
  p = f32[4] parameter(0)
  // CHECK: ENTRY
  // CHECK-NOT: call(
  c = f32[4] call(p), to_apply=double
  // CHECK: ROOT {{.*}} add(
  ROOT r = f32[4] call(c), to_apply=double
}
"""
LOOP = """
HloModule m

cond {
  t = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(%TRIPS%)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[4] get-tuple-element(t), index=1
  dead = f32[4] get-tuple-element(t), index=2
  same = f32[4] get-tuple-element(t), index=3
  b = f32[4] add(a, same)
  d = f32[4] negate(dead)
  ROOT r = (s32[], f32[4], f32[4], f32[4]) tuple(next, b, d, same)
}

ENTRY main {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[4], f32[4], f32[4]) tuple(zero, p, p, q)
  w = (s32[], f32[4], f32[4], f32[4]) while(t), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
}
"""
CONDITIONAL = """
HloModule m

yes {
  x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x)
}

no {
  x = f32[4] parameter(0)
  ROOT y = f32[4] sine(x)
}

ENTRY main {
  p = f32[4] parameter(0)
  c = %CONDITION%
  ROOT r = f32[4] conditional(c, p, p), true_computation=yes, false_computation=no
}
"""
BATCH_NORM = """
HloModule m

ENTRY main {
  x = f32[6,3,5] parameter(0)
  a = f32[3] parameter(1)
  b = f32[3] parameter(2)
  // CHECK-NOT: batch-norm
  ROOT r = (f32[6,3,5], f32[3], f32[3]) batch-norm-training(x, a, b), epsilon=0.001, feature_index=1
}
"""
BITS = """
HloModule m

ENTRY main {
  // CHECK-NOT: rng-bit-generator
  s = %STATE% parameter(0)
  ROOT r = (%STATE%, %BITS%) rng-bit-generator(s), algorithm=%ALGORITHM%
}
"""

# Where an update goes is a constant, as arrays of indices are: the body is to see it.
SMALL_CONSTANT = """
HloModule m

cond {
  t = (s32[], s32[2], f32[6]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(20)
  ROOT c = pred[] compare(i, n), direction=LT
}

// CHECK: body
// CHECK-DAG: s32[2] constant({1, 3})
// CHECK: ENTRY
body {
  t = (s32[], s32[2], f32[6]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  places = s32[2] get-tuple-element(t), index=1
  x = f32[6] get-tuple-element(t), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  last = s32[1] slice(places), slice={[1:2]}
  at = s32[] reshape(last)
  part = f32[2] slice(x), slice={[0:2]}
  new = f32[2] sine(part)
  y = f32[6] dynamic-update-slice(x, new, at)
  ROOT r = (s32[], s32[2], f32[6]) tuple(next, places, y)
}

ENTRY main {
  start = s32[] constant(0)
  places = s32[2] constant({1, 3})
  x = f32[6] parameter(0)
  t = (s32[], s32[2], f32[6]) tuple(start, places, x)
  w = (s32[], s32[2], f32[6]) while(t), condition=cond, body=body
  ROOT y = f32[6] get-tuple-element(w), index=2
}
"""

CHANGES = {
    "dce": (
        DeadCodeElimination,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " d = f32[4] tanh(p)\n"
            "// CHECK-NOT: tanh\n"
            " ROOT r = f32[4] sine(p)\n"
            "}\n"
        ),
    ),
    "call-inliner": (
        CallInliner,
        CALL,
    ),
    "gte-of-tuple": (
        TupleSimplifier,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " q = f32[4] parameter(1)\n"
            " t = (f32[4], f32[4]) tuple(p, q)\n"
            " g = f32[4] get-tuple-element(t), index=1\n"
            "// CHECK: sine(%q)\n"
            " ROOT r = f32[4] sine(g)\n"
            "}\n"
        ),
    ),
    "tuple-of-gtes": (
        TupleSimplifier,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = (f32[4], f32[2]) parameter(0)\n"
            " a = f32[4] get-tuple-element(p), index=0\n"
            " b = f32[2] get-tuple-element(p), index=1\n"
            "// CHECK: ROOT {{.*}} parameter(0)\n"
            " ROOT t = (f32[4], f32[2]) tuple(a, b)\n"
            "}\n"
        ),
    ),
    "cse": (
        CommonSubexpressionElimination,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " q = f32[4] parameter(1)\n"
            " a = f32[4] add(p, q)\n"
            " b = f32[4] add(q, p)\n"
            "// CHECK: [[A:%[^ ]+]] = f32[4] add(\n"
            "// CHECK: multiply([[A]], [[A]])\n"
            " ROOT r = f32[4] multiply(a, b)\n"
            "}\n"
        ),
    ),
    "cse-reduces": (
        CommonSubexpressionElimination,
        "HloModule m\n"
        + ADD
        + ADD.replace("add {", "add2 {")
        + (
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " z = f32[] constant(0)\n"
            " a = f32[] reduce(p, z), dimensions={0}, to_apply=add\n"
            " b = f32[] reduce(p, z), dimensions={0}, to_apply=add2\n"
            "// CHECK: multiply([[A:%[^ ,]+]], [[A]])\n"
            " ROOT r = f32[] multiply(a, b)\n"
            "}\n"
        ),
    ),
    "cse-collectives": (
        CommonSubexpressionElimination,
        "HloModule m\n"
        + ADD
        + (
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " a = f32[4] all-reduce(p), channel_id=1, replica_groups={{0}}, to_apply=add\n"
            " b = f32[4] all-reduce(p), channel_id=2, replica_groups={{0}}, to_apply=add\n"
            " c = f32[4] all-reduce(p), channel_id=3, to_apply=add\n"
            " d = f32[4] multiply(a, b)\n"
            "// CHECK: [[C:%[^ ]+]] = f32[4] all-reduce({{.*}}channel_id=3\n"
            "// CHECK: [[A:%[^ ]+]] = f32[4] all-reduce({{.*}}channel_id=1\n"
            "// CHECK: multiply([[A]], [[A]])\n"
            " ROOT r = f32[4] add(c, d)\n"
            "}\n"
        ),
    ),
    "constant-folding": (
        ConstantFolding,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " a = s32[] constant(3)\n"
            " b = s32[] constant(4)\n"
            "// CHECK: ROOT {{.*}} constant(12)\n"
            " ROOT r = s32[] multiply(a, b)\n"
            "}\n"
        ),
    ),
    "zero-sized": (
        ZeroSizedElimination,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[0,4] parameter(0)\n"
            "// CHECK: ROOT {{.*}} f32[0,4] constant(\n"
            " ROOT r = f32[0,4] sine(p)\n"
            "}\n"
        ),
    ),
    "deduplicator": (
        ComputationDeduplicator,
        "HloModule m\n"
        + ADD
        + ADD.replace("add {", "add2 {")
        + (
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " z = f32[] constant(0)\n"
            " a = f32[] reduce(p, z), dimensions={0}, to_apply=add\n"
            "// CHECK-NOT: add2\n"
            " b = f32[] reduce(p, a), dimensions={0}, to_apply=add2\n"
            " ROOT r = f32[] multiply(a, b)\n"
            "}\n"
        ),
    ),
    "map": (
        MapInliner,
        "HloModule m\n"
        + ADD
        + (
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " q = f32[4] parameter(1)\n"
            "// CHECK: ROOT {{.*}} f32[4] add(\n"
            " ROOT r = f32[4] map(p, q), dimensions={0}, to_apply=add\n"
            "}\n"
        ),
    ),
    "topk": (
        TopKDecomposer,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[3,8] parameter(0)\n"
            "// CHECK: sort(\n"
            " ROOT r = (f32[3,2], s32[3,2]) topk(p), k=2, largest=true\n"
            "}\n"
        ),
    ),
    "opt-barrier": (
        OptBarrierElimination,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            "// CHECK-NOT: opt-barrier\n"
            " b = f32[4] opt-barrier(p)\n"
            " ROOT r = f32[4] sine(b)\n"
            "}\n"
        ),
    ),
    "loop-drops-carries": (
        WhileLoopSimplifier,
        LOOP.replace("%TRIPS%", "50") + ("// CHECK: ENTRY\n// CHECK: while({{.*}}\n"),
    ),
    "loop-never-runs": (
        WhileLoopSimplifier,
        LOOP.replace("%TRIPS%", "0") + ("// CHECK: ENTRY\n// CHECK-NOT: while(\n"),
    ),
    "loop-unrolled": (
        WhileLoopSimplifier,
        LOOP.replace("%TRIPS%", "4") + ("// CHECK: ENTRY\n// CHECK-NOT: while(\n"),
    ),
    "loop-knows-small-constants": (
        WhileLoopSimplifier,
        SMALL_CONSTANT,
    ),
    "loop-runs-once": (
        WhileLoopSimplifier,
        LOOP.replace("%TRIPS%", "1") + ("// CHECK: ENTRY\n// CHECK-NOT: while(\n"),
    ),
    "conditional-known": (
        ConditionalSimplifier,
        CONDITIONAL.replace("%CONDITION%", "pred[] constant(false)")
        + ("// CHECK: ENTRY\n// CHECK: ROOT {{.*}} sine(\n"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    hlo_pass, text = CHANGES[name]
    check_pass(hlo_pass(), text)


def test_dead_carry_is_gone():
    module = check_pass(WhileLoopSimplifier(), LOOP.replace("%TRIPS%", "50"))
    (loop,) = [n for n in module.entry if n.opcode.value == "while"]
    assert [str(s) for s in loop.shape.tuple_shapes] == ["s32[]", "f32[4]", "f32[4]"]


def test_batch_norm_training():
    check_pass(BatchNormExpander(), BATCH_NORM, exact=False, rtol=1e-4, seed=3)


@pytest.mark.parametrize(
    "kind, state",
    [
        ("rng_three_fry", "u64[2]"),
        ("rng_philox", "u64[2]"),
        ("rng_philox", "u64[3]"),
        ("rng_default", "u64[2]"),
        ("rng_three_fry", "u32[4]"),
    ],
)
@pytest.mark.parametrize("bits", ["u32[7]", "u32[2,3,4]", "u64[5]", "u8[6]", "s64[2,2]"])
def test_bit_generator(kind, state, bits):
    text = BITS.replace("%STATE%", state).replace("%BITS%", bits).replace("%ALGORITHM%", kind)
    check_pass(RngBitGeneratorExpander(), text)


KEPT = {
    "dce": DeadCodeElimination,
    "call-inliner": CallInliner,
    "call-graph-flattener": CallGraphFlattener,
    "tuple-simplifier": TupleSimplifier,
    "cse": CommonSubexpressionElimination,
    "constant-folding": ConstantFolding,
    "zero-sized": ZeroSizedElimination,
    "deduplicator": ComputationDeduplicator,
    "map": MapInliner,
    "topk": TopKDecomposer,
    "opt-barrier": OptBarrierElimination,
    "loop": WhileLoopSimplifier,
    "conditional": ConditionalSimplifier,
    "batch-norm": BatchNormExpander,
    "bits": RngBitGeneratorExpander,
    "rng": RngExpander,
}


@pytest.mark.parametrize("name", KEPT)
def test_keeps_plain_program(name):
    check_pass(KEPT[name](), PLAIN, expect_change=False)


KEPT_LOOK_ALIKES = {
    "cse-not-commutative": (
        CommonSubexpressionElimination,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " q = f32[4] parameter(1)\n"
            " a = f32[4] subtract(p, q)\n"
            " b = f32[4] subtract(q, p)\n"
            " ROOT r = f32[4] multiply(a, b)\n"
            "}\n"
        ),
    ),
    "cse-behind-barrier": (
        CommonSubexpressionElimination,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " p = f32[4] parameter(0)\n"
            " b = f32[4] opt-barrier(p)\n"
            " a = f32[4] sine(p)\n"
            " c = f32[4] sine(b)\n"
            " ROOT r = f32[4] multiply(a, c)\n"
            "}\n"
        ),
    ),
    "fold-large-broadcast": (
        ConstantFolding,
        (
            "HloModule m\n"
            "\n"
            "ENTRY main {\n"
            " c = f32[] constant(1)\n"
            " ROOT r = f32[4000] broadcast(c), dimensions={}\n"
            "}\n"
        ),
    ),
    "conditional-unknown": (
        ConditionalSimplifier,
        CONDITIONAL.replace("%CONDITION%", "pred[] parameter(1)"),
    ),
}


@pytest.mark.parametrize("name", KEPT_LOOK_ALIKES)
def test_keeps(name):
    hlo_pass, text = KEPT_LOOK_ALIKES[name]
    check_pass(hlo_pass(), text, expect_change=False)


def test_flattener_copies_a_shared_body():
    text = LOOP.replace("%TRIPS%", "3").replace(
        "  ROOT r = f32[4] get-tuple-element(w), index=1",
        "  w2 = (s32[], f32[4], f32[4], f32[4]) while(w), condition=cond, body=body\n"
        "  ROOT r = f32[4] get-tuple-element(w2), index=1",
    )
    module = check_pass(CallGraphFlattener(), text)
    callees = [c for n in module.entry for c in n.called]
    assert len(set(callees)) == 4
