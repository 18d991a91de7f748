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
    "text",
    [
        reduction(start="1"),
        reduction("multiply", start="1"),
        reduction(type="bf16"),
        reduction(dims="2,3,4", result="3,4"),
        reduction(dims="1,2", result="3,2,6"),
        reduction(sizes="3,4,5,2,64"),
        reduction(sizes="3,2,2,2,6"),
    ],
    ids=["begins with 1", "product", "rounded", "together", "not the last", "long", "few others"],
)
def test_others_stay(text: str) -> None:
    check_pass(ReductionSplitter(), text, expect_change=False)
