"""Selects between an array and updates of it."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.update_predication import UpdatePredication

REGIONS = """
        take {
          old = f32[] parameter(0)
          ROOT new = f32[] parameter(1)
        }
        sum {
          old = f32[] parameter(0)
          new = f32[] parameter(1)
          ROOT s = f32[] add(old, new)
        }
"""
BY_LANE = (
    "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
    "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1"
)
TAKE_BY_LANE = (
    "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
    "start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}"
)


def lanes(body: str, index: str = "s32") -> str:
    """Three lanes of ten elements, an index and a new element for each."""
    return f"""{REGIONS}
        ENTRY main {{
          x = f32[3,10] parameter(0)
          p = pred[3] parameter(1)
          i = {index}[3,1] parameter(2)
          u = f32[3] parameter(3)
          j = s32[] parameter(4)
          mask = pred[3,10] broadcast(p), dimensions={{0}}
          {body}
        }}"""


CHANGED = {
    "a scatter sends dead lanes out of bounds": lanes(f"""
          // CHECK: [[LIVE:%[^ ]+]] = s32[3,1] select({{{{.*}}}}, %i, {{{{.*}}}})
          // CHECK: ROOT {{{{.*}}}} scatter(%x, [[LIVE]], %u)
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(mask, t, x)"""),
    "whatever it combines with": lanes(f"""
          // CHECK-NOT: f32[3,10] select(
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          ROOT r = f32[3,10] select(mask, t, x)"""),
    "where the old array comes first": lanes(f"""
          // CHECK: s32[3,1] select({{{{.*}}}}, {{{{.*}}}}, %i)
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          ROOT r = f32[3,10] select(mask, x, t)"""),
    "unsigned indices lie beyond the end": lanes(
        f"""
          // CHECK-NOT: f32[3,10] select(
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(mask, t, x)""",
        "u8",
    ),
    "a slice keeps its old elements in dead lanes": lanes("""
          // CHECK: [[OLD:%[^ ]+]] = f32[3,1] dynamic-slice(%x, %z, %j)
          // CHECK: [[NEW:%[^ ]+]] = f32[3,1] select({{.*}}, %v, [[OLD]])
          // CHECK: ROOT {{.*}} dynamic-update-slice(%x, [[NEW]], %z, %j)
          v = f32[3,1] reshape(u)
          z = s32[] constant(0)
          t = f32[3,10] dynamic-update-slice(x, v, z, j)
          ROOT r = f32[3,10] select(mask, t, x)"""),
    "a window that cuts through the lanes": lanes("""
          // CHECK: pred[2,1] dynamic-slice(%mask
          // CHECK-NOT: f32[3,10] select(
          v = f32[2,1] constant({{1}, {2}})
          t = f32[3,10] dynamic-update-slice(x, v, j, j)
          ROOT r = f32[3,10] select(mask, t, x)"""),
    "any mask": lanes("""
          // CHECK-NOT: f32[3,10] select(
          v = f32[2,1] constant({{1}, {2}})
          t = f32[3,10] dynamic-update-slice(x, v, j, j)
          m = pred[3,10] is-finite(x)
          ROOT r = f32[3,10] select(m, t, x)"""),
    "a scalar predicate": lanes("""
          // CHECK-NOT: f32[3,10] select(
          v = f32[2,1] constant({{1}, {2}})
          t = f32[3,10] dynamic-update-slice(x, v, j, j)
          q = pred[] is-finite(f)
          f = f32[] constant(inf)
          ROOT r = f32[3,10] select(q, t, x)""").replace(
        "q = pred[] is-finite(f)\n          f = f32[] constant(inf)",
        "f = f32[] constant(inf)\n          q = pred[] is-finite(f)",
    ),
    "several in a row, with reads in between": lanes(f"""
          // CHECK-NOT: f32[3,10] select(
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          g = f32[3] gather(t, i), {TAKE_BY_LANE}
          w = f32[3] exponential(g)
          k = s32[3,1] add(i, i)
          s = f32[3,10] scatter(t, k, w), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(mask, s, x)"""),
    "another carry that reads the new array": lanes(f"""
          // CHECK-NOT: f32[3,10] select(
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          r = f32[3,10] select(mask, t, x)
          g = f32[3] gather(t, i), {TAKE_BY_LANE}
          c = f32[3] select(p, g, u)
          ROOT both = (f32[3,10], f32[3]) tuple(r, c)"""),
    "both branches are updates": lanes(f"""
          // CHECK-NOT: f32[3,10] select(
          a = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          k = s32[3,1] add(i, i)
          g = f32[3] gather(x, i), {TAKE_BY_LANE}
          b = f32[3,10] scatter(x, k, g), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(mask, a, b)"""),
    "a branch within a branch": lanes(f"""
          // CHECK-NOT: f32[3,10] select(
          a = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          q = pred[3] is-finite(u)
          inner = pred[3,10] broadcast(q), dimensions={{0}}
          b = f32[3,10] select(inner, a, x)
          ROOT r = f32[3,10] select(mask, b, x)"""),
}
KEPT = {
    "not updates of one array": lanes(f"""
          y = f32[3,10] negate(x)
          t = f32[3,10] scatter(y, i, u), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(mask, t, x)"""),
    "the update is wanted as it is": lanes(f"""
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          r = f32[3,10] select(mask, t, x)
          ROOT both = (f32[3,10], f32[3,10]) tuple(r, t)"""),
    "lanes meet": lanes(f"""
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          zero = f32[] constant(0)
          total = f32[10] reduce(t, zero), dimensions={{0}}, to_apply=sum
          wide = f32[3,10] broadcast(total), dimensions={{1}}
          moved = f32[3,10] select(mask, wide, x)
          r = f32[3,10] select(mask, t, x)
          ROOT both = (f32[3,10], f32[3,10]) tuple(r, moved)"""),
    "a reader picks by the opposite condition": lanes(f"""
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          r = f32[3,10] select(mask, t, x)
          g = f32[3] gather(t, i), {TAKE_BY_LANE}
          c = f32[3] select(p, u, g)
          ROOT both = (f32[3,10], f32[3]) tuple(r, c)"""),
    "the predicate depends on the update": lanes(f"""
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          g = f32[3] gather(t, i), {TAKE_BY_LANE}
          q = pred[3] is-finite(g)
          own = pred[3,10] broadcast(q), dimensions={{0}}
          r = f32[3,10] select(own, t, x)
          ROOT s = f32[3,10] select(own, r, x)"""),
    "one branch depends on the other": lanes(f"""
          a = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          g = f32[3] gather(a, i), {TAKE_BY_LANE}
          b = f32[3,10] scatter(x, i, g), {BY_LANE}, to_apply=sum
          y = f32[3,10] negate(x)
          one = f32[3,10] select(mask, b, a)
          other = f32[3,10] select(mask, a, b)
          both = f32[3,10] add(one, other)
          ROOT r = f32[3,10] select(mask, y, both)"""),
    "one branch depends on live lanes of the other": lanes(f"""
          b = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          g = f32[3] gather(b, i), {TAKE_BY_LANE}
          c = f32[3] select(p, u, g)
          a = f32[3,10] scatter(x, i, c), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(mask, a, b)"""),
    "most of the array is written": lanes("""
          v = f32[3,6] constant({{1,2,3,4,5,6},{1,2,3,4,5,6},{1,2,3,4,5,6}})
          z = s32[] constant(0)
          t = f32[3,10] dynamic-update-slice(x, v, z, j)
          ROOT r = f32[3,10] select(mask, t, x)"""),
    "a mask along what one index decides": lanes(f"""
          m = pred[3,10] is-finite(x)
          t = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=take
          ROOT r = f32[3,10] select(m, t, x)"""),
    "no index lies outside": f"""{REGIONS}
        ENTRY main {{
          x = f32[3,300] parameter(0)
          p = pred[3] parameter(1)
          i = u8[3,1] parameter(2)
          u = f32[3] parameter(3)
          mask = pred[3,300] broadcast(p), dimensions={{0}}
          t = f32[3,300] scatter(x, i, u), {BY_LANE}, to_apply=take
          ROOT r = f32[3,300] select(mask, t, x)
        }}""",
}


@pytest.mark.parametrize("text", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("seed", range(3))
def test_updates_happen_where_the_predicate_holds(text: str, seed: int) -> None:
    check_pass(UpdatePredication(), text, seed=seed)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_selects_stay(text: str) -> None:
    check_pass(UpdatePredication(), text, expect_change=False)


def loop(body: str, state: str = "(pred[3], s32[3,1], f32[3,10], f32[3])", rest: str = "") -> str:
    """A loop that starts with x, whose step `body` names the new state q, j, y, c."""
    return f"""{REGIONS}
        or {{
          a = pred[] parameter(0)
          b = pred[] parameter(1)
          ROOT o = pred[] or(a, b)
        }}
        any {{
          s = {state} parameter(0)
          q = pred[3] get-tuple-element(s), index=0
          f = pred[] constant(false)
          ROOT any = pred[] reduce(q, f), dimensions={{0}}, to_apply=or
        }}
        step {{
          s = {state} parameter(0)
          q0 = pred[3] get-tuple-element(s), index=0
          j0 = s32[3,1] get-tuple-element(s), index=1
          y0 = f32[3,10] get-tuple-element(s), index=2
          c0 = f32[3] get-tuple-element(s), index=3
          wide = pred[3,10] broadcast(q0), dimensions={{0}}
          thin = pred[3,1] broadcast(q0), dimensions={{0}}
          one = s32[] constant(1)
          ones = s32[3,1] broadcast(one), dimensions={{}}
          four = s32[] constant(4)
          fours = s32[3,1] broadcast(four), dimensions={{}}
          k = s32[3,1] add(j0, ones)
          below = pred[3,1] compare(k, fours), direction=LT
          goes = pred[3] reshape(below)
          {body}
          ROOT t = {state} tuple(q, j, y, c)
        }}
        ENTRY main {{
          x = f32[3,10] parameter(0)
          p = pred[3] parameter(1)
          i = s32[3,1] parameter(2)
          u = f32[3] parameter(3)
          mask = pred[3,10] broadcast(p), dimensions={{0}}
          four = s32[] constant(4)
          fours = s32[3,1] broadcast(four), dimensions={{}}
          below = pred[3,1] compare(i, fours), direction=LT
          start = pred[3] reshape(below)
          init = {state} tuple(start, i, x, u)
          loop = {state} while(init), condition=any, body=step
          out = f32[3,10] get-tuple-element(loop), index=2
          ROOT r = f32[3,10] select(mask, out, x)
        }}"""


BY_FLAG = f"""
          q = pred[3] and(q0, goes)
          j = s32[3,1] select(thin, k, j0)
          z = f32[3,10] scatter(y0, j0, c0), {BY_LANE}, to_apply=sum
          y = f32[3,10] select(wide, z, y0)
          g = f32[3] gather(y0, j0), {TAKE_BY_LANE}
          c = f32[3] select(q0, g, c0)"""
LOOPS = {
    "a loop that stops lane by lane does not start in dead lanes": f"""
          // CHECK: pred[3] and(%start, %p)
          // CHECK-NOT: f32[3,10] select(
          {loop(BY_FLAG)}""",
    "though a lane that was stopped reads elsewhere": f"""
          // CHECK-NOT: f32[3,10] select(
          {loop(BY_FLAG.replace("gather(y0, j0)", "gather(z, k)"))}""",
}
LOOPS_KEPT = {
    "lanes meet in the loop": f"""
          q = pred[3] and(q0, goes)
          j = s32[3,1] select(thin, k, j0)
          zero = f32[] constant(0)
          total = f32[] reduce(y0, zero), dimensions={{0,1}}, to_apply=sum
          new = f32[3] broadcast(total), dimensions={{}}
          z = f32[3,10] scatter(y0, j0, new), {BY_LANE}, to_apply=take
          y = f32[3,10] select(wide, z, y0)
          c = f32[3] copy(c0)""",
    "a stopped lane goes on changing": BY_FLAG.replace("select(q0, g, c0)", "copy(g)"),
    "a stopped lane may start again": BY_FLAG.replace("and(q0, goes)", "or(goes, goes)"),
}


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("seed", range(3))
def test_loops_are_kept_out_of_dead_lanes(text: str, seed: int) -> None:
    check_pass(UpdatePredication(), text, seed=seed)


@pytest.mark.parametrize("body", LOOPS_KEPT.values(), ids=LOOPS_KEPT)
def test_a_select_behind_a_loop_stays(body: str) -> None:
    module = check_pass(UpdatePredication(), loop(body), expect_change="select(wide" in body)
    assert module.entry.root.opcode.value == "select"


COUNTED = f"""{REGIONS}
        less {{
          s = (s32[], f32[3,10], f32[3]) parameter(0)
          n = s32[] get-tuple-element(s), index=0
          four = s32[] constant(4)
          ROOT go = pred[] compare(n, four), direction=LT
        }}
        step {{
          s = (s32[], f32[3,10], f32[3]) parameter(0)
          n = s32[] get-tuple-element(s), index=0
          y = f32[3,10] get-tuple-element(s), index=1
          c = f32[3] get-tuple-element(s), index=2
          one = s32[] constant(1)
          m = s32[] add(n, one)
          at = s32[3,1] broadcast(n), dimensions={{}}
          z = f32[3,10] scatter(y, at, c), {BY_LANE}, to_apply=sum
          g = f32[3] gather(z, at), {TAKE_BY_LANE}
          ROOT t = (s32[], f32[3,10], f32[3]) tuple(m, z, g)
        }}
        ENTRY main {{
          x = f32[3,10] parameter(0)
          p = pred[3] parameter(1)
          u = f32[3] parameter(2)
          zero = s32[] constant(0)
          mask = pred[3,10] broadcast(p), dimensions={{0}}
          // CHECK-LABEL: step
          // CHECK: s32[3,1] select(
          // CHECK-LABEL: ENTRY
          // CHECK-NOT: f32[3,10] select(
          init = (s32[], f32[3,10], f32[3]) tuple(zero, x, u)
          loop = (s32[], f32[3,10], f32[3]) while(init), condition=less, body=step
          out = f32[3,10] get-tuple-element(loop), index=1
          last = f32[3] get-tuple-element(loop), index=2
          c = f32[3] select(p, last, u)
          r = f32[3,10] select(mask, out, x)
          ROOT both = (f32[3,10], f32[3]) tuple(r, c)
        }}"""


@pytest.mark.parametrize("seed", range(3))
def test_updates_in_a_counted_loop_are_masked(seed: int) -> None:
    check_pass(UpdatePredication(), COUNTED, seed=seed)


def test_a_counted_loop_whose_lanes_are_wanted_stays() -> None:
    wanted = COUNTED.replace("select(p, last, u)", "copy(last)")
    text = "\n".join(line for line in wanted.splitlines() if "CHECK" not in line)
    check_pass(UpdatePredication(), text, expect_change=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_that_starts_with_the_state_of_another_sees_what_it_saw(seed: int) -> None:
    text = "\n".join(line for line in COUNTED.splitlines() if "CHECK" not in line)
    helpers, main = text.split("ENTRY")
    loops = helpers[helpers.index("less {") :]
    others = loops.replace("less {", "other_less {").replace("step {", "other_step {")
    state = "(s32[], f32[3,10], f32[3])"
    main = main.replace("tuple(zero, x, u)", "tuple(zero, before, u)")
    main = main.replace(
        "init =",
        f"""i = s32[3,1] constant({{{{4}}, {{5}}, {{6}}}})
          before = f32[3,10] scatter(x, i, u), {BY_LANE}, to_apply=sum
          init =""",
    )
    main = main.replace(
        "ROOT both = (f32[3,10], f32[3]) tuple(r, c)",
        f"""other = {state} while(init), condition=other_less, body=other_step
          y = f32[3,10] get-tuple-element(other), index=1
          ROOT all = (f32[3,10], f32[3], f32[3,10]) tuple(r, c, y)""",
    )
    check_pass(UpdatePredication(), f"{helpers}{others}ENTRY{main}", seed=seed, expect_change=False)


@pytest.mark.parametrize("seed", range(3))
def test_lanes_of_a_transposed_mask_are_not_kept_out_by_the_mask_as_it_is(seed: int) -> None:
    state = "(pred[3,3], s32[3,3], f32[3,3,10])"
    text = f"""
        or {{
          a = pred[] parameter(0)
          b = pred[] parameter(1)
          ROOT o = pred[] or(a, b)
        }}
        any {{
          s = {state} parameter(0)
          q = pred[3,3] get-tuple-element(s), index=0
          f = pred[] constant(false)
          ROOT any = pred[] reduce(q, f), dimensions={{0,1}}, to_apply=or
        }}
        step {{
          s = {state} parameter(0)
          q0 = pred[3,3] get-tuple-element(s), index=0
          k0 = s32[3,3] get-tuple-element(s), index=1
          y0 = f32[3,3,10] get-tuple-element(s), index=2
          one = s32[] constant(1)
          ones = s32[3,3] broadcast(one), dimensions={{}}
          four = s32[] constant(4)
          fours = s32[3,3] broadcast(four), dimensions={{}}
          next = s32[3,3] add(k0, ones)
          goes = pred[3,3] compare(next, fours), direction=LT
          q = pred[3,3] and(q0, goes)
          k = s32[3,3] select(q0, next, k0)
          wide = pred[3,3,10] broadcast(q0), dimensions={{0,1}}
          z = f32[3,3,10] add(y0, y0)
          y = f32[3,3,10] select(wide, z, y0)
          ROOT t = {state} tuple(q, k, y)
        }}
        ENTRY main {{
          x = f32[3,3,10] parameter(0)
          p = pred[3,3] parameter(1)
          s = pred[3,3] parameter(2)
          k = s32[3,3] parameter(3)
          start = pred[3,3] and(s, p)
          mask = pred[3,3,10] broadcast(p), dimensions={{1,0}}
          init = {state} tuple(start, k, x)
          loop = {state} while(init), condition=any, body=step
          out = f32[3,3,10] get-tuple-element(loop), index=2
          ROOT r = f32[3,3,10] select(mask, out, x)
        }}"""
    check_pass(UpdatePredication(), text, seed=seed)


def test_a_loop_is_not_given_a_predicate_that_comes_from_its_result() -> None:
    own = COUNTED.replace(f"gather(z, at), {TAKE_BY_LANE}", "negate(c)")
    own = own.replace("p = pred[3] parameter(1)", "").replace("parameter(2)", "parameter(1)")
    own = own.replace("c = f32[3] select(p, last, u)", "c = f32[3] copy(last)")
    own = own.replace("mask = pred[3,10] broadcast(p), dimensions={0}", "")
    own = own.replace(
        "r = f32[3,10] select(mask",
        """p = pred[3] compare(last, u), direction=GE
          mask = pred[3,10] broadcast(p), dimensions={0}
          r = f32[3,10] select(mask""",
    )
    text = "\n".join(line for line in own.splitlines() if "CHECK" not in line)
    check_pass(UpdatePredication(), text, expect_change=False)


def test_a_loop_does_not_start_with_what_comes_from_its_result() -> None:
    text = "\n".join(line for line in COUNTED.splitlines() if "CHECK" not in line)
    text = text.replace(f"gather(z, at), {TAKE_BY_LANE}", "negate(c)")
    text = text.replace(
        "r = f32[3,10] select(mask, out, x)",
        f"""i = s32[3,1] constant({{{{4}}, {{5}}, {{6}}}})
          there = f32[3,10] scatter(x, i, last), {BY_LANE}, to_apply=sum
          r = f32[3,10] select(mask, there, out)""",
    ).replace("select(p, last, u)", "copy(last)")
    check_pass(UpdatePredication(), text, expect_change=False)
