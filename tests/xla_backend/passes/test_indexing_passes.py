"""Gathers, scatters, sorts and windows that are simpler operations."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.algebraic_window import AlgebraicWindowSimplifier
from xla_backend.passes.gather_simplifier import GatherSimplifier
from xla_backend.passes.scatter_simplifier import ScatterSimplifier
from xla_backend.passes.sort_simplifier import SortSimplifier

ROWS = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,4}"
)

GATHERS = {
    "a range of rows is a slice": f"""
        ENTRY main {{
          p = f32[9,4] parameter(0)
          i = s32[3,1] constant({{ {{1}}, {{3}}, {{5}} }})
          // CHECK: ROOT {{{{.*}}}} slice({{{{.*}}}}), slice={{[1:6:2], [0:4:1]}}
          ROOT r = f32[3,4] gather(p, i), {ROWS}
        }}""",
    "downwards its reverse": f"""
        ENTRY main {{
          p = f32[9,4] parameter(0)
          i = s32[3,1] constant({{ {{4}}, {{3}}, {{2}} }})
          // CHECK: slice({{{{.*}}}}), slice={{[2:5], [0:4]}}
          // CHECK: ROOT {{{{.*}}}} reverse(
          ROOT r = f32[3,4] gather(p, i), {ROWS}
        }}""",
    "from one value": f"""
        ENTRY main {{
          c = f32[] constant(3)
          p = f32[9,4] broadcast(c), dimensions={{}}
          i = s32[3,1] parameter(0)
          // CHECK-NOT: gather
          ROOT r = f32[3,4] gather(p, i), {ROWS}
        }}""",
}
GATHERS_KEPT = {
    "no range": f"""
        ENTRY main {{
          p = f32[9,4] parameter(0)
          i = s32[3,1] constant({{ {{1}}, {{3}}, {{4}} }})
          ROOT r = f32[3,4] gather(p, i), {ROWS}
        }}""",
    "clamped, so no range any more": f"""
        ENTRY main {{
          p = f32[9,4] parameter(0)
          i = s32[3,1] constant({{ {{7}}, {{8}}, {{9}} }})
          ROOT r = f32[3,4] gather(p, i), {ROWS}
        }}""",
    "the same row": f"""
        ENTRY main {{
          p = f32[9,4] parameter(0)
          i = s32[2,1] constant({{ {{7}}, {{7}} }})
          ROOT r = f32[2,4] gather(p, i), {ROWS}
        }}""",
    "unknown indices": f"""
        ENTRY main {{
          p = f32[9,4] parameter(0)
          i = s32[3,1] parameter(1)
          ROOT r = f32[3,4] gather(p, i), {ROWS}
        }}""",
}


@pytest.mark.parametrize("text", GATHERS.values(), ids=GATHERS)
def test_gathers_become_slices(text: str) -> None:
    check_pass(GatherSimplifier(), text)


@pytest.mark.parametrize("text", GATHERS_KEPT.values(), ids=GATHERS_KEPT)
def test_gathers_stay(text: str) -> None:
    check_pass(GatherSimplifier(), text, expect_change=False)


COMBINERS = {
    "add": "ROOT c = f32[] add(a, b)",
    "maximum": "ROOT c = f32[] maximum(b, a)",
    "subtract": "ROOT c = f32[] subtract(a, b)",
    "two operations": "m = f32[] multiply(a, b)  ROOT c = f32[] add(a, m)",
}


def scatter(combiner: str, start: str, *, row: bool = True) -> str:
    body = "ROOT b = f32[] parameter(1)" if combiner == "set" else "b = f32[] parameter(1)"
    rest = "" if combiner == "set" else COMBINERS[combiner]
    dims = (
        "update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=0"
        if row
        else "update_window_dims={0,1}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=0"
    )
    updates = "f32[4]" if row else "f32[2,3]"
    count = 1 if row else 2
    return f"""
        combine {{
          a = f32[] parameter(0)
          {body}
          {rest}
        }}
        ENTRY main {{
          p = f32[5,4] parameter(0)
          i = s32[{count}] constant({start})
          u = {updates} parameter(1)
          ROOT r = f32[5,4] scatter(p, i, u), {dims}, to_apply=combine
        }}"""


@pytest.mark.parametrize("start", ["{3}", "{0}", "{4}", "{5}", "{-1}"])
@pytest.mark.parametrize("combiner", ["set", "add", "maximum", "subtract"])
def test_a_scatter_of_one_row_updates_a_slice(combiner: str, start: str) -> None:
    module = check_pass(ScatterSimplifier(), scatter(combiner, start))
    assert module.entry.root.opcode.value == "dynamic-update-slice"


@pytest.mark.parametrize("start", ["{1,1}", "{3,1}", "{4,1}", "{0,2}", "{-1,0}"])
def test_a_scatter_of_one_block_updates_a_slice_if_all_of_it_is_inside(start: str) -> None:
    check_pass(ScatterSimplifier(), scatter("add", start, row=False))


@pytest.mark.parametrize("kind", ["s8", "u8", "s32"])
@pytest.mark.parametrize("start", [0, 5, 99, 127])
def test_a_scatter_with_indices_too_narrow_for_the_array(kind: str, start: int) -> None:
    text = f"""
        combine {{
          a = f32[] parameter(0)
          ROOT b = f32[] parameter(1)
        }}
        ENTRY main {{
          p = f32[300] parameter(0)
          i = {kind}[1] constant({{{start}}})
          u = f32[2] parameter(1)
          ROOT r = f32[300] scatter(p, i, u), update_window_dims={{0}}, inserted_window_dims={{}},
            scatter_dims_to_operand_dims={{0}}, index_vector_dim=0, to_apply=combine
        }}"""
    check_pass(ScatterSimplifier(), text)


def test_scatters_stay() -> None:
    check_pass(ScatterSimplifier(), scatter("two operations", "{3}"), expect_change=False)
    several = """
        combine {
          a = f32[] parameter(0)
          ROOT b = f32[] parameter(1)
        }
        ENTRY main {
          p = f32[5] parameter(0)
          i = s32[2,1] parameter(1)
          u = f32[2] parameter(2)
          ROOT r = f32[5] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine
        }"""
    check_pass(ScatterSimplifier(), several, expect_change=False)


COMPARE_KEYS = """
        less {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          i = s32[] parameter(2)
          j = s32[] parameter(3)
          ROOT l = pred[] compare(a, b), direction=LT
        }"""
PAIR_SORT = """
          k = f32[SIZE] parameter(0)
          v = s32[SIZE] iota(), iota_dimension=0
          s = (f32[SIZE], s32[SIZE]) sort(k, v), dimensions={0}, is_stable=true, to_apply=less
"""


def pair_sort(size: int, rest: str) -> str:
    return f"{COMPARE_KEYS} ENTRY main {{ {PAIR_SORT.replace('SIZE', str(size))} {rest} }}"


SORTS = {
    "values nobody reads": pair_sort(
        9,
        """
          // CHECK: f32[9] sort(
          ROOT r = f32[9] get-tuple-element(s), index=0
        """,
    ),
    "one element": pair_sort(
        1,
        """
          // CHECK-NOT: sort(
          ROOT r = s32[1] get-tuple-element(s), index=1
        """,
    ),
}
SORTS_KEPT = {
    "keys are compared, though only the values are read": pair_sort(
        9, "ROOT r = s32[9] get-tuple-element(s), index=1"
    ),
    "the whole tuple is the result": pair_sort(9, "").replace("s = (", "ROOT s = ("),
}


@pytest.mark.parametrize("text", SORTS.values(), ids=SORTS)
def test_sorts_get_simpler(text: str) -> None:
    check_pass(SortSimplifier(), text)


@pytest.mark.parametrize("text", SORTS_KEPT.values(), ids=SORTS_KEPT)
def test_sorts_stay(text: str) -> None:
    check_pass(SortSimplifier(), text, expect_change=False)


ADD = """
        add {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b)
        }"""


MAXIMUM = ADD.replace("= f32[] add", "= f32[] maximum")


def pooled(window: str, result: str, pad: str = "", reducer: str = ADD, start: str = "zero") -> str:
    return f"""{reducer}
        ENTRY main {{
          p = f32[2,6,6] parameter(0)
          zero = f32[] constant(0)
          one = f32[] constant(1)
          {pad}
          ROOT r = f32[{result}] reduce-window({"q" if pad else "p"}, {start}), window={{{window}}},
            to_apply=add
        }}"""


WINDOWS = {
    "over whole dimensions": (pooled("size=1x6x6", "2,1,1"), "reshape"),
    "over one whole dimension": (pooled("size=1x1x6", "2,6,1"), "reshape"),
    "padding": (
        pooled("size=1x3x3", "2,6,6", "q = f32[2,8,8] pad(p, zero), padding=0_0x1_1x1_1"),
        "reduce-window",
    ),
    "padding of which it does not matter how much there is": (
        pooled(
            "size=1x3x3", "2,6,6", "q = f32[2,8,8] pad(p, one), padding=0_0x1_1x1_1", MAXIMUM, "one"
        ),
        "reduce-window",
    ),
    "interior padding": (
        pooled("size=1x3x3", "2,4,11", "q = f32[2,6,13] pad(p, zero), padding=0_0x0_0x2_0_1"),
        "reduce-window",
    ),
}
WINDOWS_KEPT = {
    "part of a dimension": pooled("size=1x5x6", "2,2,1"),
    "padded": pooled("size=1x6x6 pad=0_0x1_1x0_0", "2,3,1"),
    "padding by another value": pooled(
        "size=1x3x3", "2,6,6", "q = f32[2,8,8] pad(p, one), padding=0_0x1_1x1_1"
    ),
    "padding that counts": pooled(
        "size=1x3x3", "2,6,6", "q = f32[2,8,8] pad(p, one), padding=0_0x1_1x1_1", start="one"
    ),
    "unknown padding that counts": pooled(
        "size=1x3x3",
        "2,6,6",
        """corner = f32[1,1,1] slice(p), slice={[0:1],[0:1],[0:1]}
          v = f32[] reshape(corner)
          q = f32[2,8,8] pad(p, v), padding=0_0x1_1x1_1""",
        start="v",
    ),
    "padding that a reducer without a name meets": pooled(
        "size=1x3x3",
        "2,6,6",
        "q = f32[2,8,8] pad(p, zero), padding=0_0x1_1x1_1",
        ADD.replace("ROOT c = f32[] add(a, b)", "d = f32[] add(a, b)\n ROOT c = f32[] cosine(d)"),
    ),
    "prefixes of what is padded": pooled(
        "size=1x1x8 pad=0_0x0_0x7_0", "2,6,8", "q = f32[2,6,8] pad(p, zero), padding=0_0x0_0x2_0"
    ),
    "negative padding": pooled(
        "size=1x3x3", "2,4,2", "q = f32[2,6,4] pad(p, zero), padding=0_0x0_0x-1_-1"
    ),
}


@pytest.mark.parametrize("text, root", WINDOWS.values(), ids=WINDOWS)
def test_windows_get_simpler(text: str, root: str) -> None:
    module = check_pass(AlgebraicWindowSimplifier(), text, exact=False)
    assert module.entry.root.opcode.value == root
    assert not any(n.opcode.value == "pad" for n in module.entry)


@pytest.mark.parametrize("text", WINDOWS_KEPT.values(), ids=WINDOWS_KEPT)
def test_windows_stay(text: str) -> None:
    check_pass(AlgebraicWindowSimplifier(), text, expect_change=False)
