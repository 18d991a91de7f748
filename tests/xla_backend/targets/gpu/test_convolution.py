"""Convolutions of GPUs: products of patches, against the evaluator."""

from __future__ import annotations

import pytest
from product_checks import check, planned

from xla_backend.kernels.ir import BufferRole, MatrixTile, walk
from xla_backend.program.ir import Launch


def convolution(x: str, kernel: str, result: str, window: str, labels: str, more: str = "") -> str:
    return (
        f"ENTRY e {{ x = {x} parameter(0)  w = {kernel} parameter(1)\n"
        f"ROOT r = {result} convolution(x, w), window={{{window}}}, dim_labels={labels}{more} }}"
    )


NHWC, NCHW = "b01f_01io->b01f", "bf01_oi01->bf01"
SAME = "size=3x3 pad=1_1x1_1"
CASES = {
    "nhwc": ("f32[1,6,7,8]", "f32[3,3,8,16]", "f32[1,6,7,16]", SAME, NHWC),
    "nchw": ("f32[1,8,6,7]", "f32[16,8,3,3]", "f32[1,16,6,7]", SAME, NCHW),
    "bf16": ("bf16[2,6,6,8]", "bf16[3,3,8,24]", "bf16[2,6,6,24]", SAME, NHWC),
    "strides": (
        "bf16[1,9,9,8]", "bf16[3,3,8,16]", "bf16[1,5,5,16]",
        "size=3x3 stride=2x2 pad=1_1x1_1", NHWC,
    ),
    "dilated kernel": (
        "bf16[1,9,9,8]", "bf16[3,3,8,16]", "bf16[1,5,5,16]", "size=3x3 rhs_dilate=2x2", NHWC,
    ),
    "dilated input": (
        "bf16[1,4,4,8]", "bf16[3,3,8,16]", "bf16[1,7,7,16]",
        "size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1", NHWC,
    ),
    "negative padding": (
        "bf16[1,9,9,8]", "bf16[3,3,8,16]", "bf16[1,6,5,16]", "size=3x3 pad=-1_0x0_-2", NHWC,
    ),
    "feature groups": (
        "bf16[1,5,5,32]", "bf16[3,3,16,32]", "bf16[1,5,5,32]", SAME, NHWC,
        ", feature_group_count=2",
    ),
    "batch groups": (
        "bf16[4,5,5,8]", "bf16[3,3,8,32]", "bf16[2,5,5,32]", SAME, NHWC, ", batch_group_count=2",
    ),
    "gradient of the kernel": (
        "f32[2,6,6,8]", "f32[2,4,4,16]", "f32[3,3,8,16]", "size=4x4", "f01b_i01o->01bf",
    ),
    "one dimension": ("f32[2,20,8]", "f32[5,8,16]", "f32[2,16,16]", "size=5", "b0f_0io->b0f"),
    "three dimensions": (
        "bf16[1,4,4,4,8]", "bf16[2,2,2,8,16]", "bf16[1,3,3,3,16]", "size=2x2x2",
        "b012f_012io->b012f",
    ),
    "few features": ("f32[1,8,8,16]", "f32[3,3,16,3]", "f32[1,8,8,3]", SAME, NHWC),
    "f64": ("f64[1,4,5,8]", "f64[3,3,8,16]", "f64[1,4,5,16]", SAME, NHWC),
    "s32": ("s32[1,4,5,8]", "s32[3,3,8,16]", "s32[1,4,5,16]", SAME, NHWC),
    "c64": ("c64[1,4,5,2]", "c64[3,3,2,3]", "c64[1,4,5,3]", SAME, NHWC),
    "depthwise": (
        "f32[1,6,6,16]", "f32[3,3,1,16]", "f32[1,6,6,16]", SAME, NHWC, ", feature_group_count=16",
    ),
    "no pixels": ("f32[0,6,7,8]", "f32[3,3,8,16]", "f32[0,6,7,16]", SAME, NHWC),
}  # fmt: skip
ERRORS = {"bf16": 1e-2, "f64": 1e-14, "s32": 0.0}


@pytest.mark.parametrize("case", CASES)
def test_convolutions(case):
    words = CASES[case]
    check(convolution(*words), rtol=ERRORS.get(words[0].split("[")[0], 1e-5))


def test_tensor_cores_and_tf32():
    """A large one is rounded as a product is, and padding costs no memory."""
    words = ("f32[2,16,16,8]", "f32[3,3,8,16]", "f32[2,16,16,16]", SAME, NHWC)
    (kernel,) = check(convolution(*words), rtol=1e-3).values()
    assert any(isinstance(s, MatrixTile) for s in walk(kernel.stages))
    assert not any(b.role is BufferRole.SCRATCH for b in kernel.buffers)
    exact = convolution(*words, ", operand_precision={highest,highest}")
    (kernel,) = (planned(exact).program.kernels).values()
    assert not any(isinstance(s, MatrixTile) for s in walk(kernel.stages))


@pytest.mark.parametrize("last", [True, False])
def test_epilogue_in_the_same_kernel(last):
    shape, labels = ("2,5,5,24", NHWC) if last else ("2,24,5,5", NCHW)
    x, w = ("2,5,5,8", "3,3,8,24") if last else ("2,8,5,5", "24,8,3,3")
    text = f"""
    ENTRY e {{
      x = bf16[{x}] parameter(0)  w = bf16[{w}] parameter(1)  bias = f32[24] parameter(2)
      c = f32[{shape}] convolution(x, w), window={{{SAME}}}, dim_labels={labels}
      all = f32[{shape}] broadcast(bias), dimensions={{{3 if last else 1}}}
      sum = f32[{shape}] add(c, all)
      zero = f32[] constant(0)
      zeros = f32[{shape}] broadcast(zero), dimensions={{}}
      ROOT r = f32[{shape}] maximum(sum, zeros)
    }}"""
    check(text, rtol=1e-5)
    assert [type(s) for s in planned(text).program.steps] == [Launch]
