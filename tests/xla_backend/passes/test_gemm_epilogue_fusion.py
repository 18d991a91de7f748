"""GEMM epilogue fusion: what joins a product, what stays outside, what becomes a result."""

import pytest
from pass_checks import check_pass

from xla_backend.hlo.parser import parse_module
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.fusion_records import epilogue_record
from xla_backend.passes.gemm_epilogue_fusion import GemmEpilogueFusion
from xla_backend.passes.output_fusion import is_output_fusion


def fuse_epilogues() -> GemmEpilogueFusion:
    return GemmEpilogueFusion(lambda dot: True)


RELU = """
%relu {
  %d = f32[4,6] parameter(0)
  %bias = f32[6] parameter(1)
  %b = f32[4,6] broadcast(%bias), dimensions={1}
  %sum = f32[4,6] add(%d, %b)
  %zero = f32[] constant(0)
  %zeros = f32[4,6] broadcast(%zero), dimensions={}
  ROOT %max = f32[4,6] maximum(%sum, %zeros)
}
"""
DOT = """
  %x = f32[4,5] parameter(0)
  %w = f32[5,6] parameter(1)
  %bias = f32[6] parameter(2)
  %dot = f32[4,6] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def test_bias_and_activation_join_the_product():
    check_pass(
        fuse_epilogues(),
        f"""
        HloModule m
        // CHECK:      %fused_dot
        // CHECK:        [[D:%[^ ]+]] = f32[4,6] dot(
        // CHECK:        add([[D]],
        // CHECK:        ROOT {{{{.*}}}} maximum(
        // CHECK:      ENTRY
        // CHECK-NOT:    dot(
        // CHECK:        ROOT {{{{.*}}}} fusion(%x, %w, {{{{.*}}}}), kind=kOutput, calls=%fused_dot
        {RELU}
        ENTRY %main {{ {DOT}
          ROOT %f = f32[4,6] fusion(%dot, %bias), kind=kLoop, calls=%relu
        }}""",
        exact=False,
    )


def test_a_product_that_others_read_is_the_last_result():
    check_pass(
        fuse_epilogues(),
        f"""
        HloModule m
        // CHECK: [[F:%[^ ]+]] = (f32[4,6], f32[4,6]) fusion(%x, %w, {{{{.*}}}}), kind=kOutput
        // CHECK: ROOT {{{{.*}}}} tuple(
        {RELU}
        ENTRY %main {{ {DOT}
          %f = f32[4,6] fusion(%dot, %bias), kind=kLoop, calls=%relu
          ROOT %t = (f32[4,6], f32[4,6]) tuple(%f, %dot)
        }}""",
        exact=False,
    )


def test_through_a_reshape_and_with_several_results():
    check_pass(
        fuse_epilogues(),
        """
        HloModule m
        // CHECK: ENTRY
        // CHECK-NOT: dot(
        // CHECK: (f32[2,2,6], pred[2,2,6]) fusion({{.*}}), kind=kOutput
        %two {
          %d = f32[2,2,6] parameter(0)
          %s = f32[] parameter(1)
          %b = f32[2,2,6] broadcast(%s), dimensions={}
          %scaled = f32[2,2,6] multiply(%d, %b)
          %mask = pred[2,2,6] compare(%d, %b), direction=GT
          ROOT %t = (f32[2,2,6], pred[2,2,6]) tuple(%scaled, %mask)
        }
        ENTRY %main {
          %x = f32[4,5] parameter(0)
          %w = f32[5,6] parameter(1)
          %s = f32[] parameter(2)
          %dot = f32[4,6] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          %r = f32[2,2,6] reshape(%dot)
          %f = (f32[2,2,6], pred[2,2,6]) fusion(%r, %s), kind=kLoop, calls=%two
          %a = f32[2,2,6] get-tuple-element(%f), index=0
          %b = pred[2,2,6] get-tuple-element(%f), index=1
          ROOT %t = (f32[2,2,6], pred[2,2,6]) tuple(%a, %b)
        }""",
        exact=False,
    )


LEFT_ALONE = {
    "reads the transposed product": (
        "%d = f32[4,6] parameter(0)\nROOT %t = f32[6,4] transpose(%d), dimensions={1,0}",
        "f32[6,4]",
        "",
    ),
    "reads another array across its rows": (
        """%d = f32[4,6] parameter(0)
        %y = f32[6,4] parameter(1)
        %t = f32[4,6] transpose(%y), dimensions={1,0}
        ROOT %s = f32[4,6] add(%d, %t)""",
        "f32[4,6]",
        ", %y",
    ),
    "needs a part of the product only": (
        """%d = f32[4,6] parameter(0)
        ROOT %s = f32[2,6] slice(%d), slice={[1:3], [0:6]}""",
        "f32[2,6]",
        "",
    ),
}


@pytest.mark.parametrize("body, shape, more", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone(body: str, shape: str, more: str):
    check_pass(
        fuse_epilogues(),
        f"""
        HloModule m
        %f {{ {body} }}
        ENTRY %main {{
          %x = f32[4,5] parameter(0)
          %w = f32[5,6] parameter(1)
          %y = f32[6,4] parameter(2)
          %dot = f32[4,6] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          ROOT %r = {shape} fusion(%dot{more}), kind=kLoop, calls=%f
        }}""",
        expect_change=False,
    )


def test_a_dot_that_is_no_library_product_is_left_alone():
    check_pass(
        GemmEpilogueFusion(lambda dot: False),
        f"""
        HloModule m
        {RELU}
        ENTRY %main {{ {DOT}
          ROOT %f = f32[4,6] fusion(%dot, %bias), kind=kLoop, calls=%relu
        }}""",
        expect_change=False,
    )


def test_no_cycle_where_the_first_reader_feeds_the_second():
    # The softmax-like reduce reads the product, and the fusion needs the reduce.
    module = check_pass(
        fuse_epilogues(),
        f"""
        HloModule m
        %sub {{
          %d = f32[4,6] parameter(0)
          %m = f32[4] parameter(1)
          %b = f32[4,6] broadcast(%m), dimensions={{0}}
          ROOT %s = f32[4,6] subtract(%d, %b)
        }}
        %add {{
          %a = f32[] parameter(0)
          %b = f32[] parameter(1)
          ROOT %s = f32[] add(%a, %b)
        }}
        ENTRY %main {{ {DOT}
          %zero = f32[] constant(0)
          %m = f32[4] reduce(%dot, %zero), dimensions={{1}}, to_apply=%add
          ROOT %f = f32[4,6] fusion(%dot, %m), kind=kLoop, calls=%sub
        }}""",
        expect_change=False,
    )
    assert not any(is_output_fusion(n) for n in module.entry.instructions)


@pytest.mark.parametrize(
    "root, expected",
    [("add(%dot, %y)", 2), ("add(%y, %dot)", 2), ("subtract(%y, %dot)", None)],
)
def test_accumulated_parameter(root: str, expected: int | None):
    module = parse_module(f"""
        HloModule m
        ENTRY %main {{
          %x = f32[4,5] parameter(0)
          %w = f32[5,6] parameter(1)
          %y = f32[4,6] parameter(2)
          %dot = f32[4,6] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
          ROOT %r = f32[4,6] {root}
        }}""")
    LoopFusion().run(module)
    assert fuse_epilogues().run(module)
    fusion = module.entry.root
    assert epilogue_record(fusion).adds_to == expected
    assert epilogue_record(fusion).shape == (1, 4, 6)
