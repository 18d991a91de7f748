"""Damaged programs are refused with an error that shows the place; texts that once raised something
else, and a short run of the fuzzer that found them."""

import random

import numpy as np
import pytest

from xla_backend.hlo.errors import HloError, ParseError, RuntimeFailure
from xla_backend.runtime.host_libraries.lapack_arguments import check_arguments, check_options
from xla_backend.stablehlo import parse_stablehlo
from xla_backend.tools.fuzz.__main__ import main
from xla_backend.tools.fuzz.text_checks import check_sample, damage_check, samples_in
from xla_backend.tools.fuzz.text_mutations import MUTATIONS, mutated, mutated_bytes


@pytest.mark.parametrize("seed", range(150))
def test_damaged_program(seed):
    assert damage_check([], seed) is None


def test_damage_is_reproducible_and_happens():
    text = 'HloModule m\nENTRY e { ROOT p = f32[2]{0} parameter(0), metadata={op_name="a"} }\n'
    for seed in range(30):
        first = mutated(random.Random(seed), text)
        assert first == mutated(random.Random(seed), text)
    for _, mutation in MUTATIONS:
        assert any(mutation(random.Random(seed), text) != text for seed in range(20))
    assert any(mutated_bytes(random.Random(seed), b"abc" * 9) != b"abc" * 9 for seed in range(5))


def test_a_foreign_exception_is_a_failure(monkeypatch):
    def broken(text):
        raise KeyError("x")

    monkeypatch.setattr("xla_backend.tools.fuzz.text_checks.parse_module", broken)
    assert "KeyError: 'x'" in str(check_sample(("hlo", "HloModule m"), 1))
    monkeypatch.setattr(
        "xla_backend.tools.fuzz.text_checks.parse_module",
        lambda text: (_ for _ in ()).throw(ParseError("somewhere")),
    )
    assert "no place in 'somewhere'" in str(check_sample(("hlo", "HloModule m"), 1))


def test_command_line(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.hlo").write_text("ENTRY e { ROOT p = f32[2] parameter(0) }", encoding="utf-8")
    assert [form for form, _ in samples_in(tmp_path)] == ["hlo"]
    assert main(["--texts", str(tmp_path), "--count", "20", "--jobs", "1"]) == 0
    assert "20 programs of seeds 0..19" in capsys.readouterr().out


# -- texts that raised other exceptions ------------------------------------------------------------

A = "%a: tensor<2x3xf32>"
DOT = "%a, %b, contracting_dims = [1] x [0]"
STABLEHLO = {
    "precision": (
        f"func.func @main({A}, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {{\n"
        '  %0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<'
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, "
        "precision_config = [#stablehlo<precision DEFALT>]} : "
        "(tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>\n"
        "  return %0 : tensor<2x2xf32>\n}",
        "there is no precision DEFALT",
    ),
    "algorithm": (
        f"func.func @main({A}, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {{\n"
        '  %0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<'
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, "
        "algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f32>} : "
        "(tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>\n"
        "  return %0 : tensor<2x2xf32>\n}",
        "'rhs_precision_type' of algorithm is missing, expected a word",
    ),
    "a number for a list": (
        f"func.func @main({A}, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {{\n"
        '  %0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<'
        "lhs_contracting_dimensions = 1, rhs_contracting_dimensions = [0]>} : "
        "(tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>\n"
        "  return %0 : tensor<2x2xf32>\n}",
        "expected a list of integers",
    ),
    "labels": (
        "func.func @main(%a: tensor<1x4x1xf32>, %b: tensor<2x1x1xf32>) -> tensor<1x3x1xf32> {\n"
        "  %0 = stablehlo.convolution(%a, %b) dim_numbers = [f, 0, f]x[0, i, o]->[b, 0, f], "
        "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>\n"
        "  return %0 : tensor<1x3x1xf32>\n}",
        "should be 0, b, f",
    ),
    "size of a dimension that is not there": (
        f"func.func @main({A}) -> tensor<2x3xf32> {{\n"
        "  %n = stablehlo.constant dense<2> : tensor<i32>\n"
        "  %0 = stablehlo.set_dimension_size %a, %n, dim = 7 : "
        "(tensor<2x3xf32>, tensor<i32>) -> tensor<2x3xf32>\n"
        "  return %0 : tensor<2x3xf32>\n}",
        "has no dimension 7",
    ),
    "storage": (
        "func.func @main(%a: tensor<2x!quant.uniform<i0:f32, 2.0>>) { return }",
        "stored as integers",
    ),
    "splat": (
        "func.func @main() -> tensor<1x4294967296xi64> {\n"
        "  %0 = stablehlo.constant dense<0> : tensor<1x4294967296xi64>\n"
        "  return %0 : tensor<1x4294967296xi64>\n}",
        "broadcast a scalar instead",
    ),
    "direction": (
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xi1> {\n"
        '  %0 = "chlo.broadcast_compare"(%a, %a) {} : '
        "(tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>\n"
        "  return %0 : tensor<2xi1>\n}",
        "comparison_direction",
    ),
}


@pytest.mark.parametrize("name", STABLEHLO)
def test_stablehlo_is_refused(name):
    text, message = STABLEHLO[name]
    with pytest.raises(HloError, match=message):
        parse_stablehlo(text)


# -- arguments of LAPACK's custom calls ------------------------------------------------------------


def arrays(*shapes, dtype=np.float32):
    return [np.zeros(shape, dtype) for shape in shapes]


def test_lapack_arguments_that_fit():
    assert check_arguments("potrf", {}, arrays((3, 4, 4)), arrays((3, 4, 4), (3,))) == (3,)
    assert check_arguments("getrf", {}, arrays((2, 5)), arrays((2, 5), (2,), ())) == ()
    square, vector = (3, 3), (3,)
    assert (
        check_arguments("geev", {}, arrays(square), arrays(vector, vector, square, square, ()))
        == ()
    )
    assert check_arguments("trsm", {"side": ord("R")}, arrays((2, 2), (5, 2)), arrays((5, 2))) == ()


@pytest.mark.parametrize(
    ("routine", "operands", "results", "message"),
    [
        ("potrf", [], [(2, 2), ()], "0 operands, expected 1"),
        ("potrf", [(2, 2)], [(2, 2)], "1 results, expected 2"),
        ("potrf", [(2,)], [(2,), ()], "at least 2"),
        ("potrf", [(2, 3)], [(2, 3), ()], "operand 0 has shape"),
        ("getrf", [(2, 5)], [(2, 5), (5,), ()], r"result 1 has shape \[5\]"),
        ("potrf", [(4, 2, 2)], [(4, 2, 2), (3,)], r"result 1 has shape \[3\]"),
        ("trsm", [(2, 2), (3, 2)], [(3, 2)], "triangle does not fit"),
        ("ormqr", [(4, 2), (2,), (3, 3)], [(3, 3)], "reflectors do not fit"),
        ("orgqr", [(2, 3), (1,)], [(2, 3)], "columns than rows"),
    ],
)
def test_lapack_arguments_that_do_not_fit(routine, operands, results, message):
    with pytest.raises(RuntimeFailure, match=message):
        check_arguments(routine, {}, arrays(*operands), arrays(*results))


def test_lapack_types_and_options_that_do_not_fit():
    with pytest.raises(RuntimeFailure, match="operand 0 is int32"):
        check_arguments("potrf", {}, arrays((2, 2), dtype=np.int32), arrays((2, 2), ()))
    with pytest.raises(RuntimeFailure, match="option uplo is 1114112; it is one of"):
        check_options("potrf", {"uplo": 1114112})
    with pytest.raises(RuntimeFailure, match="numbers of 32 bits"):
        check_options("gehrd", {"low": 10**12})
