"""ProductPrologueFusion: light work on the operands of products becomes part of them."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.product_prologue_fusion import ProductPrologueFusion

SCALED = """
%scaled {
  %q = s8[5,6] parameter(0)
  %s = f32[6] parameter(1)
  %wide = f32[5,6] convert(%q)
  %all = f32[5,6] broadcast(%s), dimensions={1}
  ROOT %m = f32[5,6] multiply(%wide, %all)
}
"""
HEAVY = SCALED.replace("multiply(%wide, %all)", "power(%wide, %all)")
ENTRY = """
ENTRY %main {{
  %x = f32[4,5] parameter(0)
  %q = s8[5,6] parameter(1)
  %s = f32[6] parameter(2)
  %w = f32[5,6] fusion(%q, %s), kind=kLoop, calls=%scaled
  {root}%dot = f32[4,6] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {more}
}}"""
PLAIN = ENTRY.format(root="ROOT ", more="")


def test_conversion_and_scale_join_the_product():
    check_pass(
        ProductPrologueFusion(),
        f"""
        HloModule m
        // CHECK:      %fused_dot
        // CHECK:        [[W:%[^ ]+]] = f32[5,6] multiply(
        // CHECK:        ROOT {{{{.*}}}} dot({{{{[^,]*}}}}, [[W]])
        // CHECK:      ENTRY
        // CHECK-NOT:    dot(
        // CHECK:        ROOT {{{{.*}}}} fusion({{{{.*}}}}), kind=kOutput, calls=%fused_dot
        {SCALED}{PLAIN}""",
        exact=False,
    )


def test_a_lone_conversion_joins_a_product_with_an_epilogue():
    check_pass(
        ProductPrologueFusion(),
        """
        HloModule m
        // CHECK:      %fused_dot.1
        // CHECK:        convert(
        // CHECK:        dot(
        // CHECK:        ROOT {{.*}} negate(
        // CHECK:      ENTRY
        // CHECK-NOT:    convert(
        // CHECK:        ROOT {{.*}} kind=kOutput, calls=%fused_dot.1
        %fused_dot {
          %a = f32[4,5] parameter(0)
          %b = f32[5,6] parameter(1)
          %d = f32[4,6] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          ROOT %n = f32[4,6] negate(%d)
        }
        ENTRY %main {
          %x = f16[4,5] parameter(0)
          %b = f32[5,6] parameter(1)
          %a = f32[4,5] convert(%x)
          ROOT %f = f32[4,6] fusion(%a, %b), kind=kOutput, calls=%fused_dot
        }""",
        exact=False,
    )


SHARED = ENTRY.format(root="", more="ROOT %t = (f32[4,6], f32[5,6]) tuple(%dot, %w)")


@pytest.mark.parametrize(
    "text", [SCALED + SHARED, HEAVY + PLAIN], ids=["others read it", "it is work"]
)
def test_stays_outside(text):
    check_pass(ProductPrologueFusion(), f"HloModule m\n{text}", expect_change=False)


def test_only_where_code_generation_can():
    check_pass(
        ProductPrologueFusion(lambda node: False),
        f"HloModule m\n{SCALED}{PLAIN}",
        expect_change=False,
    )
