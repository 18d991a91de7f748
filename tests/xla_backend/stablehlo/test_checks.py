"""Programs that carry expected values: each check is reported, on every platform."""

from __future__ import annotations

import numpy as np
import pytest

from xla_backend import library
from xla_backend.check_runner import run_checks
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.stablehlo import parse_stablehlo

PROGRAM = """module @cosine {
  func.func public @main() -> (tensor<3xf32>, tensor<2xbf16>) {
    %0:2 = call @inputs() : () -> (tensor<3xf32>, tensor<2xbf16>)
    %1 = call @expected() : () -> tensor<3xf32>
    %2 = stablehlo.cosine %0#0 : tensor<3xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
    stablehlo.custom_call @check.expect_eq(%1, %0#0) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
    stablehlo.custom_call @check.expect_almost_eq(%0#1, %0#1) {has_side_effect = true} : (tensor<2xbf16>, tensor<2xbf16>) -> ()
    return %2, %0#1 : tensor<3xf32>, tensor<2xbf16>
  }
  func.func private @inputs() -> (tensor<3xf32>, tensor<2xbf16>) {
    %c = stablehlo.constant dense<[1.0, 1.0, 2.0]> : tensor<3xf32>
    %d = stablehlo.constant dense<[0.0, 0x7FC0]> : tensor<2xbf16>
    return %c, %d : tensor<3xf32>, tensor<2xbf16>
  }
  func.func private @expected() -> tensor<3xf32> {
    %c = stablehlo.constant dense<[0.540302396, 0.540302396, -0.416146845]> : tensor<3xf32>
    return %c : tensor<3xf32>
  }
}"""  # noqa: E501


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_custom_calls_report_every_check(platform: str) -> None:
    close, equal, almost = run_checks(PROGRAM, platform)
    assert close.passed and almost.passed and not equal.passed
    assert (close.line, equal.line, almost.line) == (6, 7, 8)
    assert (equal.position, float(equal.expected)) == ((0,), 1.0)
    assert str(equal).startswith("check.expect_eq (line 7): FAIL: element [0] is 0.54030")
    assert str(close) == "check.expect_close (line 6): pass"


def test_a_failing_check_raises_outside() -> None:
    module = parse_stablehlo(PROGRAM)
    with pytest.raises(RuntimeFailure, match=r"check.expect_eq \(line 7\): FAIL: element \[0\]"):
        library.evaluate(module, [])
    with pytest.raises(RuntimeFailure, match="FAIL"):
        library.compile(module).execute([])


# Type, value, expected, then whether eq, almost_eq and close (3 ulps) hold.
COMPARISONS = [
    ("f32", "1.0", "1.0", True, True, True),
    ("f32", "1.0", "1.0000001", False, True, True),
    ("f32", "1.0", "1.00005", False, True, False),
    ("f32", "1.0", "1.001", False, False, False),
    ("f32", "0x7FC00000", "0x7FC00000", True, True, True),
    ("f32", "0x7F800000", "0xFF800000", False, False, False),
    ("f32", "0.0", "-0.0", True, True, True),
    ("f32", "1.0e-45", "-1.0e-45", False, True, True),
    ("f16", "1.0", "1.001", False, True, True),
    ("i32", "7", "8", False, False, False),
    ("i1", "true", "true", True, True, True),
    ("f8E4M3FN", "1.0", "1.125", False, True, True),
    ("complex<f32>", "(1.0, 2.0)", "(1.0, 2.0000002)", False, True, True),
]


@pytest.mark.parametrize(("kind", "got", "expected", "eq", "almost", "close"), COMPARISONS)
def test_comparisons(
    kind: str, got: str, expected: str, eq: bool, almost: bool, close: bool
) -> None:
    results = run_checks(
        f"""func.func @main() {{
          %0 = stablehlo.constant dense<{got}> : tensor<{kind}>
          %1 = stablehlo.constant dense<{expected}> : tensor<{kind}>
          check.expect_eq_const %0, dense<{expected}> : tensor<{kind}>
          check.expect_almost_eq %0, %1 : tensor<{kind}>, tensor<{kind}>
          check.expect_close %0, %1, max_ulp_difference = 3 : tensor<{kind}>, tensor<{kind}>
          func.return }}""",
        "interpreter",
    )
    assert [r.passed for r in results] == [eq, almost, close]


def test_parts_and_functions_without_main() -> None:
    part = """func.func @{}() {{
  %0 = stablehlo.constant dense<[1, {}]> : tensor<2xi4>
  check.expect_eq_const %0, dense<[1, 3]> : tensor<2xi4>
  func.return
}}
"""
    text = part.format("a", 2) + part.format("b", 3) + "// -----\n" + part.format("c", 3)
    results = run_checks(text, "interpreter")
    assert [(r.line, r.passed) for r in results] == [(3, False), (8, True), (14, True)]
    assert results[0].position == (1,) and int(results[0].got) == 2
    with pytest.raises(ValueError, match="@f takes arguments"):
        run_checks("func.func @f(%x: tensor<f32>) { return }")


def test_ulp_bounds() -> None:
    text = """func.func @main() {{
      %0 = stablehlo.constant dense<1.0> : tensor<f64>
      %1 = stablehlo.constant dense<{}> : tensor<f64>
      check.expect_close %0, %1 {{min_ulp_difference = 2 : i64, max_ulp_difference = 4 : i64}} : tensor<f64>, tensor<f64>
      func.return }}"""  # noqa: E501
    far = 1.0
    passed = []
    for _ in range(6):
        (result,) = run_checks(text.format(repr(far)), "interpreter")
        passed.append(result.passed)
        far = float(np.nextafter(far, 2))
    assert passed == [False, False, True, True, True, False]
