"""Reductions over short rows and other dimensions, in two steps."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.reduction_splitter import ReductionSplitter


def reduction(
    opcode: str = "add",
    type: str = "f32",
    sizes: str = "3,4,5,2,6",
    dims: str = "1,2,4",
    result: str = "3,2",
    start: str = "0",
    checks: str = "",
) -> str:
    return f"""HloModule m
    combine {{
      x = {type}[] parameter(0)
      y = {type}[] parameter(1)
      ROOT s = {type}[] {opcode}(x, y)
    }}
    ENTRY main {{
      p = {type}[{sizes}] parameter(0)
      start = {type}[] constant({start})
      // CHECK: ENTRY
      {checks}
      ROOT r = {type}[{result}] reduce(p, start), dimensions={{{dims}}}, to_apply=combine
    }}"""


TWO = """// CHECK: [[R:%[^ ]+]] = {type}[3,2,6] reduce({{{{.*}}}}), dimensions={{1,2}}
      // CHECK: ROOT {{{{.*}}}} = {type}[3,2] reduce([[R]], {{{{.*}}}}), dimensions={{2}}"""


@pytest.mark.parametrize(
    "opcode, type, start",
    [
        ("add", "f32", "0"),
        ("add", "s32", "0"),
        ("maximum", "f64", "-inf"),
        ("minimum", "f32", "1"),
        ("or", "pred", "false"),
    ],
)
def test_short_rows_come_last(opcode: str, type: str, start: str) -> None:
    checks = TWO.format(type=type)
    check_pass(
        ReductionSplitter(), reduction(opcode, type, start=start, checks=checks), exact=False
    )


@pytest.mark.parametrize(
    ("sizes", "dims", "result", "first", "between", "last"),
    [
        ("130,131,132", "0,2", "131", "2", "130,131", "0"),
        ("38,39,40,41", "0,2", "39,41", "2", "38,39,41", "0"),
        ("38,39,40,41", "0,2,3", "39", "2,3", "38,39", "0"),
        ("38,1,39,1,40,41", "0,1,3,4", "39,41", "4", "38,1,39,1,41", "0,1,3"),
        ("18,9,20,11,72", "0,2,4", "9,11", "4", "18,9,20,11", "0,2"),
    ],
)
def test_memory_is_read_in_its_order(
    sizes: str, dims: str, result: str, first: str, between: str, last: str
) -> None:
    """What follows each other is reduced first, of whatever the last cache does not hold."""
    checks = f"""// CHECK: [[R:%[^ ]+]] = f64[{between}] reduce({{{{.*}}}}), dimensions={{{first}}}
      // CHECK: ROOT {{{{.*}}}} = f64[{result}] reduce([[R]], {{{{.*}}}}), dimensions={{{last}}}"""
    check_pass(
        ReductionSplitter(),
        reduction(type="f64", sizes=sizes, dims=dims, result=result, checks=checks),
        exact=False,
    )


@pytest.mark.parametrize(
    "text",
    [
        reduction(sizes="100,101,102", dims="0,2", result="101"),
        reduction(sizes="160,161,165", dims="1,2", result="160"),
        reduction(sizes="160,161,165", dims="0,1", result="165"),
        reduction(sizes="45,46,47,48", dims="1,2", result="45,48"),
        reduction(sizes="10,4,330,330", dims="0,2,3", result="4"),
        reduction(sizes="400,400,6,7", dims="0,2", result="400,7"),
        reduction(type="bf16", sizes="210,211,212", dims="0,2", result="211"),
        reduction(start="1"),
        reduction("multiply", start="1"),
        reduction(type="bf16"),
        reduction(dims="2,3,4", result="3,4"),
        reduction(dims="1,2", result="3,2,6"),
        reduction(sizes="3,4,5,2,64"),
        reduction(sizes="3,2,2,2,6"),
    ],
    ids=[
        "in caches",
        "last dimensions",
        "first dimensions",
        "middle dimensions",
        "long stretches",
        "few elements",
        "large and rounded",
        "begins with 1",
        "product",
        "rounded",
        "together",
        "not the last",
        "long",
        "few others",
    ],
)
def test_others_stay(text: str) -> None:
    check_pass(ReductionSplitter(), text, expect_change=False)
