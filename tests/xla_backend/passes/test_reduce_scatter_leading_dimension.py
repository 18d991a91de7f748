"""Reduce-scatter along other dimensions than the first."""

from pass_checks import check_pass

from xla_backend.passes.reduce_scatter_leading_dimension import ReduceScatterLeadingDimension

SUM = """HloModule m, replica_count=2
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


def test_the_dimension_becomes_the_first():
    check_pass(
        ReduceScatterLeadingDimension(),
        SUM
        + """ENTRY e {
          x = f32[3,5,4] parameter(0)
          // CHECK: [[T:%[^ ]+]] = f32[4,5,3] transpose(%x), dimensions={2,1,0}
          // CHECK-NEXT: [[R:%[^ ]+]] = f32[2,5,3] reduce-scatter([[T]]), {{.*}}dimensions={0}
          // CHECK-NEXT: ROOT {{.*}} = f32[3,5,2] transpose([[R]]), dimensions={2,1,0}
          ROOT r = f32[3,5,2] reduce-scatter(x), replica_groups={}, dimensions={2}, to_apply=sum
        }""",
    )


def test_several_operands_stay_together():
    check_pass(
        ReduceScatterLeadingDimension(),
        SUM
        + """ENTRY e {
          x = f32[3,4] parameter(0)
          y = f32[1,2] parameter(1)
          // CHECK: [[R:%[^ ]+]] = (f32[2,3], f32[1,1]) reduce-scatter({{.*}}), {{.*}}dimensions={0}
          // CHECK-COUNT-2: get-tuple-element([[R]])
          // CHECK: ROOT {{.*}} = (f32[3,2], f32[1,1]) tuple
          ROOT r = (f32[3,2], f32[1,1]) reduce-scatter(x, y), replica_groups={}, dimensions={1},
            to_apply=sum
        }""",
    )


def test_the_first_dimension_stays():
    check_pass(
        ReduceScatterLeadingDimension(),
        SUM
        + """ENTRY e {
          x = f32[4,3] parameter(0)
          ROOT r = f32[2,3] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=sum
        }""",
        expect_change=False,
    )
