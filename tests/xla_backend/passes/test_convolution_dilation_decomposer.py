"""Base-dilated convolutions in phases: values over windows, paddings, layouts and groups."""

import pytest
from pass_checks import check_pass

from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.convolution_dilation_decomposer import ConvolutionDilationDecomposer


def program(out: str, window: str, labels: str, x: str, w: str, more: str = "") -> str:
    return f"""
    HloModule m
    ENTRY main {{
      x = s32[{x}] parameter(0)
      w = s32[{w}] parameter(1)
      ROOT r = s32[{out}] convolution(x, w), window={{{window}}}, dim_labels={labels}{more}
    }}"""


LAST, FIRST = "b01f_01io->b01f", "bf01_oi01->bf01"
CHANGES = {
    "gradient of 3x3 by stride 2": ("2,14,14,32", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", LAST,
                                    "2,7,7,32", "3,3,32,32"),
    "odd output": ("2,13,13,32", "size=3x3 pad=1_1x1_1 lhs_dilate=2x2", LAST,
                   "2,7,7,32", "3,3,32,32"),
    "reversed, padding the other way": ("2,14,13,32",
                                        "size=3x4 pad=2_1x0_3 lhs_dilate=2x2 rhs_reversal=1x1",
                                        LAST, "2,7,7,32", "3,4,32,32"),
    "cropped": ("2,9,9,32", "size=3x3 pad=-1_-1x-1_-1 lhs_dilate=2x2", LAST,
                "2,7,7,32", "3,3,32,32"),
    "window smaller than the step": ("2,19,13,32", "size=1x2 pad=0_0x0_1 lhs_dilate=3x2", LAST,
                                     "2,7,7,64", "1,2,64,32"),
    "one dimension, another strided, channels first": (
        "2,32,14,4", "size=3x3 stride=1x2 pad=1_2x1_1 lhs_dilate=2x1", FIRST,
        "2,64,7,7", "32,64,3,3"),
    "groups": ("4,14,14,64", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", LAST, "4,7,7,32",
               "3,3,8,64", ", feature_group_count=4"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_phases(name: str):
    module = check_pass(ConvolutionDilationDecomposer(), program(*CHANGES[name]))
    convolutions = [n for n in module.entry.instructions if n.opcode is Opcode.CONVOLUTION]
    assert len(convolutions) in (2, 4) or name == "window smaller than the step"
    for node in convolutions:
        assert all(w.base_dilation == 1 for w in node.attributes.window)


KEPT = {
    "no dilation": ("2,14,14,32", "size=3x3 pad=1_1x1_1", LAST, "2,14,14,32", "3,3,32,32"),
    "a small one": ("1,4,4,2", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2", LAST, "1,2,2,2", "3,3,2,2"),
    "a stride as well": ("2,7,7,64", "size=3x3 stride=2x2 pad=1_2x1_2 lhs_dilate=2x2", LAST,
                         "2,7,7,64", "3,3,64,64"),
    "many phases": ("2,28,28,32", "size=3x3 pad=1_4x1_4 lhs_dilate=4x4", LAST,
                    "2,7,7,32", "3,3,32,32"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_keeps(name: str):
    check_pass(ConvolutionDilationDecomposer(), program(*KEPT[name]), expect_change=False)
