"""Convolutions whose window is one point run as products, where pixels follow each other evenly."""

import pytest

from tests.xla_backend.targets.cpu.native_checks import check_native, module_of
from xla_backend.program.ir import Library

ONE = "window={size=1x1}"


def routine_of(executable):
    (step,) = (s for s in executable.program.steps if isinstance(s, Library))
    return step.routine


def check(x, k, out, labels, rest=ONE, type="f32"):
    executable = check_native(
        module_of(
            f"""x = {type}[{x}] parameter(0)
            k = {type}[{k}] parameter(1)
            ROOT r = {type}[{out}] convolution(x, k), {rest}, dim_labels={labels}"""
        ),
        scale=30,
    )
    return routine_of(executable)


@pytest.mark.parametrize("type", ["f32", "f64", "bf16", "s32"])
def test_channels_last_is_one_product(type):
    routine = check("2,5,7,12", "1,1,12,9", "2,5,7,9", "b01f_01io->b01f", type=type)
    assert routine.startswith("gemm_") and "batched" not in routine


def test_channels_first_is_a_product_for_each_image():
    assert check("3,12,5,7", "9,12,1,1", "3,9,5,7", "bf01_oi01->bf01") == "gemm_batched_f32"
    assert check("1,12,5,7", "9,12,1,1", "1,9,5,7", "bf01_oi01->bf01") == "gemm_f32"


def test_other_numbers_of_dimensions():
    assert check("2,35,12", "1,12,9", "2,35,9", "b0f_0io->b0f", "window={size=1}") == "gemm_f32"
    labels, window = "b012f_012io->b012f", "window={size=1x1x1}"
    assert check("2,3,5,7,12", "1,1,1,12,9", "2,3,5,7,9", labels, window) == "gemm_f32"


def test_one_channel():
    check("2,16,16,11", "1,1,11,1", "2,16,16,1", "b01f_01io->b01f")
    check("2,1,40,16", "1,1,1,9", "2,9,40,16", "bf01_01io->bf01")


def test_few_channels_to_one_are_sums_in_lanes():
    executable = check_native(
        module_of(
            f"""x = f32[2,16,16,8] parameter(0)
            k = f32[1,1,8,1] parameter(1)
            ROOT r = f32[2,16,16,1] convolution(x, k), {ONE}, dim_labels=b01f_01io->b01f"""
        ),
        scale=30,
    )
    assert not any(isinstance(step, Library) for step in executable.program.steps)


def test_mixed_orders():
    """Images first in the result, pixels in the operand."""
    labels = "01bf_01io->b01f"
    assert check("5,7,2,12", "1,1,12,9", "2,5,7,9", labels) == "gemm_batched_f32"
    check("12,5,2,7", "1,1,12,9", "2,5,7,9", "f0b1_01io->b01f")


@pytest.mark.parametrize(
    "out, rest",
    [
        ("2,3,4,9", "window={size=1x1 stride=2x2}"),
        ("2,7,9,9", "window={size=1x1 pad=1_1x1_1}"),
        ("2,4,6,9", "window={size=1x1 pad=-1_0x0_-1}"),
        ("2,9,13,9", "window={size=1x1 lhs_dilate=2x2}"),
    ],
)
def test_what_is_none(out, rest):
    assert check("2,5,7,12", "1,1,12,9", out, "b01f_01io->b01f", rest) == "conv_f32"


def test_groups():
    rest = f"{ONE}, feature_group_count=3"
    assert check("2,9,7,12", "1,1,4,9", "2,9,7,9", "b01f_01io->b01f", rest) == "conv_f32"
