"""Loop passes: invariant code, trip counts, double buffering. Each by text and by values."""

import numpy as np
import pytest
from pass_checks import check_pass, random_arguments

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.cost_analysis import known_trip_count
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.passes.while_dead_initial_value import WhileDeadInitialValue
from xla_backend.passes.while_dot_accumulation import WhileDotAccumulation
from xla_backend.passes.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from xla_backend.passes.while_trip_count import WhileTripCountAnnotator
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.arena_interpreter import ArenaInterpreter

# State: counter, u, v (both 8 by 64), w (64 by 64).
LOOP = """
HloModule m

cond {
  t = (s32[], f32[8,64], f32[8,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(%TRIPS%)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[8,64], f32[8,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  u = f32[8,64] get-tuple-element(t), index=1
  v = f32[8,64] get-tuple-element(t), index=2
  w = f32[64,64] get-tuple-element(t), index=3
%BODY%
  ROOT r = (s32[], f32[8,64], f32[8,64], f32[64,64]) tuple(next, %NEXT%, w)
}

ENTRY main {
  p = f32[8,64] parameter(0)
  q = f32[8,64] parameter(1)
  w = f32[64,64] parameter(2)
  start = s32[] constant(0)
  x = f32[8,64] sine(p)
  t = (s32[], f32[8,64], f32[8,64], f32[64,64]) tuple(start, x, q, w)
  l = (s32[], f32[8,64], f32[8,64], f32[64,64]) while(t), condition=cond, body=body
  lu = f32[8,64] get-tuple-element(l), index=1
  lv = f32[8,64] get-tuple-element(l), index=2
  ROOT r = (f32[8,64], f32[8,64]) tuple(lu, lv)
}
"""
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
HALF = "  h = f32[] constant(0.5)\n  hb = f32[8,64] broadcast(h), dimensions={}\n"


def loop(body: str, following: str, trips: int = 30) -> str:
    text = LOOP.replace("%BODY%", body).replace("%NEXT%", following)
    return text.replace("%TRIPS%", str(trips))


INVARIANT = {
    "an exponential of weights": (
        f"  e = f32[64,64] exponential(w)\n  d = f32[8,64] dot(u, e), {DOT}\n"
        "  s = f32[8,64] tanh(d)\n",
        "s, v",
        "exponential",
    ),
    "a product of weights": (
        f"  e = f32[64,64] dot(w, w), {DOT}\n  d = f32[8,64] dot(u, e), {DOT}\n"
        "  s = f32[8,64] tanh(d)\n",
        "s, v",
        "dot(%w, %w)",
    ),
    "cheap, but read by a library call": (
        f"  e = f32[64,64] negate(w)\n  d = f32[8,64] dot(u, e), {DOT}\n  s = f32[8,64] tanh(d)\n",
        "s, v",
        "negate",
    ),
    "the new value of a carry": ("  e = f32[8,64] exponential(v)\n", "e, v", "exponential"),
}


@pytest.mark.parametrize("case", INVARIANT)
def test_invariant_work_moves_out(case):
    body, following, moved = INVARIANT[case]
    module = check_pass(WhileLoopInvariantCodeMotion(), loop(body, following, 3), exact=False)
    entry = module.entry.instructions
    (loop_node,) = [n for n in entry if n.opcode is Opcode.WHILE]
    opcode = moved.split("(")[0]
    inside = [n.opcode.value for n in loop_node.called[1].instructions]
    assert opcode in [n.opcode.value for n in entry]
    assert inside.count(opcode) == body.count(f"{opcode}(") - 1
    assert not WhileLoopInvariantCodeMotion().run(module)


@pytest.mark.parametrize(
    "body, following",
    [
        ("  e = f32[8,64] exponential(u)\n", "e, v"),  # varies
        ("  e = f32[8,64] negate(v)\n  s = f32[8,64] add(u, e)\n", "s, v"),  # cheap and fused
    ],
)
def test_other_work_stays(body, following):
    check_pass(
        WhileLoopInvariantCodeMotion(), loop(body, following, 3), expect_change=False, exact=False
    )


PLACES = """
cond {
  t = (s32[], f32[9], s32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] minimum(a, b)
}

body {
  t = (s32[], f32[9], s32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[9] get-tuple-element(t), index=1
  p = s32[64] get-tuple-element(t), index=2
  u = f32[64] get-tuple-element(t), index=3
  k = s32[64] negate(p)
  places = s32[64,1] reshape(k)
  r = f32[9] scatter(x, places, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=least
  ROOT n = (s32[], f32[9], s32[64], f32[64]) tuple(next, r, p, u)
}

ENTRY main {
  x = f32[9] parameter(0)
  p = s32[64] parameter(1)
  u = f32[64] parameter(2)
  start = s32[] constant(0)
  t = (s32[], f32[9], s32[64], f32[64]) tuple(start, x, p, u)
  l = (s32[], f32[9], s32[64], f32[64]) while(t), condition=cond, body=body
  ROOT r = f32[9] get-tuple-element(l), index=1
}
"""


def test_what_a_scatter_reads_reshaped_moves_out():
    module = check_pass(WhileLoopInvariantCodeMotion(), PLACES)
    (loop_node,) = [n for n in module.entry.instructions if n.opcode is Opcode.WHILE]
    assert Opcode.NEGATE not in [n.opcode for n in loop_node.called[1].instructions]
    assert Opcode.NEGATE in [n.opcode for n in module.entry.instructions]
    assert not WhileLoopInvariantCodeMotion().run(module)


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_trip_count_is_written_down(trips):
    text = loop("", "v, u", trips)
    module = check_pass(WhileTripCountAnnotator(), text)
    (node,) = [n for n in module.entry.instructions if n.opcode is Opcode.WHILE]
    assert known_trip_count(node) == trips
    assert not WhileTripCountAnnotator().run(module)


def test_unknown_trip_count_is_left_out():
    check_pass(
        WhileTripCountAnnotator(),
        loop("", "v, u").replace("direction=LT", "direction=NE"),
        expect_change=False,
    )


def copies(module) -> int:
    return sum(
        node.opcode is Opcode.COPY and node.shape.byte_size > 1000
        for computation in module.computations
        if computation is not module.entry
        for node in computation.instructions
    )


def compile_and_compare(text: str):
    module = parse_module(text)
    arguments = [np.nan_to_num(a, posinf=1, neginf=-1) for a in random_arguments(module)]
    expected = evaluate(module, arguments)
    build_pipeline(CompileOptions(verify=True)).run(module)
    got = ArenaInterpreter(module, assign_buffers(module), arguments).run()
    for e, g in zip(expected, got):
        np.testing.assert_allclose(g, e, rtol=2e-4, atol=2e-5)
    return module


STENCIL = (
    HALF + "  r1 = f32[8,64] reverse(u), dimensions={1}\n  m = f32[8,64] multiply(r1, hb)\n"
    "  s = f32[8,64] subtract(m, v)\n"
)
# name: body, new u and v, copies left per body with a known count
BUFFERED = {
    "wave": (STENCIL, "s, u", 0),
    "swap": ("", "v, u", 0),
    "stencil": (HALF + "  s = f32[8,64] reverse(u), dimensions={1}\n", "s, v", 0),
    "matrix product": (f"  d = f32[8,64] dot(u, w), {DOT}\n  s = f32[8,64] tanh(d)\n", "s, v", 0),
    "in place already": (HALF + "  s = f32[8,64] multiply(u, hb)\n", "s, v", 0),
}


@pytest.mark.parametrize("trips", [9, 10, 11])
@pytest.mark.parametrize("name", BUFFERED)
def test_known_counts_need_no_copies(name, trips):
    body, following, left = BUFFERED[name]
    assert copies(compile_and_compare(loop(body, following, trips))) == left


def test_nested_control_flow_is_doubled_with_the_body():
    inner = """
icond {
  t = (s32[], f32[8,64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(11)
  ROOT c = pred[] compare(i, n), direction=LT
}

ibody {
  t = (s32[], f32[8,64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  u = f32[8,64] get-tuple-element(t), index=1
  s = f32[8,64] reverse(u), dimensions={0}
  k = f32[8,64] sine(s)
  ROOT r = (s32[], f32[8,64]) tuple(next, k)
}

body {"""
    body = (
        "  z = s32[] constant(0)\n  it = (s32[], f32[8,64]) tuple(z, v)\n"
        "  il = (s32[], f32[8,64]) while(it), condition=icond, body=ibody\n"
        "  s = f32[8,64] get-tuple-element(il), index=1\n"
    )
    text = loop(body, "s, u", 13).replace("\nbody {", inner)
    compile_and_compare(text)


def test_an_unknown_count_takes_two_copies_for_a_rotation():
    text = loop(STENCIL, "s, u").replace("direction=LT", "direction=NE")
    assert copies(compile_and_compare(text)) == 2


# A scan that stacks an output, and reads rows of xs; %ROW% is written.
STACK = """
HloModule m

cond {
  t = (s32[], f32[10,40], f32[10,40], f32[40,50]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(%LIMIT%)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[10,40], f32[10,40], f32[40,50]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  zero = s32[] constant(0)
  one = s32[] constant(1)
  nine = s32[] constant(9)
  next = s32[] add(i, one)
  back = s32[] subtract(nine, i)
  ys = f32[10,40] get-tuple-element(t), index=1
  xs = f32[10,40] get-tuple-element(t), index=2
  acc = f32[40,50] get-tuple-element(t), index=3
  x = f32[1,40] dynamic-slice(xs, back, zero), dynamic_slice_sizes={1,40}
  y = f32[1,40] sine(x)
  new = f32[10,40] dynamic-update-slice(ys, y, %ROW%, zero)
  g = f32[1,50] slice(x), slice={[0:1], [0:40]}
  ROOT r = (s32[], f32[10,40], f32[10,40], f32[40,50]) tuple(next, new, xs, acc)
}

ENTRY main {
  xs = f32[10,40] parameter(0)
  start = s32[] constant(%START%)
  z = f32[] constant(0)
  ys = f32[10,40] broadcast(z), dimensions={}
  acc = f32[40,50] parameter(1)
  t = (s32[], f32[10,40], f32[10,40], f32[40,50]) tuple(start, ys, xs, acc)
  l = (s32[], f32[10,40], f32[10,40], f32[40,50]) while(t), condition=cond, body=body
  ROOT r = f32[10,40] get-tuple-element(l), index=1
}
"""


def stack(row: str, start: int = 0, limit: int = 10) -> str:
    text = STACK.replace("%ROW%", row).replace("%START%", str(start))
    text = text.replace("  g = f32[1,50] slice(x), slice={[0:1], [0:40]}\n", "")
    return text.replace("%LIMIT%", str(limit))


@pytest.mark.parametrize("row", ["i", "back"])
def test_zeros_that_a_loop_overwrites_are_not_written(row):
    text = stack(row) + "// CHECK: AllocateBuffer\n"
    check_pass(WhileDeadInitialValue(), text)
    module = compile_and_compare(text)
    assert any(n.opcode is Opcode.CUSTOM_CALL for n in module.entry.instructions)


@pytest.mark.parametrize(
    "text",
    [
        stack("i", limit=9),  # the last row stays
        stack("i", start=1),  # the first row stays
        stack("zero"),
        stack("next"),  # clamped: row 0 is never written
        stack("i").replace("sine(x)", "dynamic-slice(ys, i, zero), dynamic_slice_sizes={1,40}"),
    ],
)
def test_zeros_that_show_are_written(text):
    check_pass(WhileDeadInitialValue(), text, expect_change=False)


# acc += x_i^T g_i, where x_i is row 9 - i of xs and g_i is computed.
SUM = """  x1 = f32[1,40] reshape(x)
  g1 = f32[1,25] slice(y), slice={[0:1], [0:25]}
  g = f32[1,50] concatenate(g1, g1), dimensions={1}
  d = f32[40,50] dot(%LHS%, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  sum = f32[40,50] add(%SUM%)
  ROOT r = (s32[], f32[10,40], f32[10,40], f32[40,50]) tuple(next, new, xs, sum)
"""
TYPES = "(s32[], f32[10,40], f32[10,40], f32[40,50])"


def accumulation(lhs: str = "x1", total: str = "acc, d", row: str = "i") -> str:
    text = stack(row)
    root = f"  ROOT r = {TYPES} tuple(next, new, xs, acc)\n"
    assert root in text
    text = text.replace(root, SUM.replace("%LHS%", lhs).replace("%SUM%", total))
    return text.replace(
        "  ROOT r = f32[10,40] get-tuple-element(l), index=1",
        "  o = f32[10,40] get-tuple-element(l), index=1\n"
        "  s = f32[40,50] get-tuple-element(l), index=3\n"
        "  ROOT r = (f32[10,40], f32[40,50]) tuple(o, s)",
    )


def entry_dots(module) -> list:
    return [n for n in module.entry.instructions if n.opcode is Opcode.DOT]


# y is row i of the stack too, which is not used: a stack of the right order is added.
@pytest.mark.parametrize("total", ["acc, d", "d, acc"])
@pytest.mark.parametrize("lhs", ["x1", "y"])
def test_summed_products_become_one(lhs, total):
    text = accumulation(lhs, total).replace("xs = f32[10,40] parameter(0)", XS)
    module = check_pass(WhileDotAccumulation(1), text, exact=False, rtol=1e-4)
    (dot,) = entry_dots(module)
    assert dot.attributes.lhs_contracting == dot.attributes.rhs_contracting == (0, 1)
    bodies = [c for c in module.computations if c is not module.entry]
    assert not any(n.opcode is Opcode.DOT for c in bodies for n in c.instructions)
    assert not WhileDotAccumulation(1).run(module)


def test_small_sums_stay_in_the_loop():
    assert not WhileDotAccumulation().run(parse_module(accumulation()))


XS = "raw = f32[10,40] parameter(0)\n  xs = f32[10,40] sine(raw)"


@pytest.mark.parametrize(
    "text",
    [
        accumulation(total="d, d"),  # no sum
        accumulation().replace("tuple(next, new, xs, sum)", "tuple(next, new, xs, d)"),
        # The sum is needed in each iteration.
        accumulation().replace(
            "y = f32[1,40] sine(x)", "y = f32[1,40] slice(acc), slice={[0:1], [0:40]}"
        ),
        accumulation().replace("direction=LT", "direction=NE"),
    ],
)
def test_other_sums_stay(text):
    check_pass(WhileDotAccumulation(1), text, expect_change=False, exact=False)
