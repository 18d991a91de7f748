"""Sizes that are known at compile time, and an error for those that are not."""

import pytest
from pass_checks import check_pass

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.dynamic_dimension_simplifier import DynamicDimensionSimplifier
from xla_backend.targets.cpu.compiler import compile_module


def test_known_sizes():
    check_pass(
        DynamicDimensionSimplifier(),
        """HloModule m

        ENTRY main {
          x = f32[5,7] parameter(0)
          n = s32[] parameter(1)
          // CHECK:     [[N:%[^ ]+]] = s32[] parameter(1)
          s = f32[<=5,7] set-dimension-size(x, n), dimensions={0}
          a = s32[] get-dimension-size(s), dimensions={0}
          b = s32[] get-dimension-size(s), dimensions={1}
          // CHECK-NOT: get-dimension-size
          // CHECK:     [[C:%[^ ]+]] = s32[] constant(7)
          // CHECK:     ROOT {{.*}} = (s32[], s32[]) tuple([[N]], [[C]])
          ROOT t = (s32[], s32[]) tuple(a, b)
        }
        """,
    )


def test_reshape_to_a_known_shape():
    check_pass(
        DynamicDimensionSimplifier(),
        """HloModule m

        ENTRY main {
          x = f32[6] parameter(0)
          two = s32[] constant(2)
          three = s32[] constant(3)
          // CHECK: ROOT {{.*}} = f32[2,3] reshape(
          ROOT r = f32[2,3] dynamic-reshape(x, two, three)
        }
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[<=3] parameter(0)\nROOT r = f32[<=3] negate(x)",
        "x = f32[3] parameter(0)\nn = s32[] parameter(1)\n"
        "ROOT s = f32[<=3] set-dimension-size(x, n), dimensions={0}",
    ],
)
def test_sizes_known_at_run_time_are_refused(body):
    module = parse_module(f"HloModule m\n\nENTRY main {{\n{body}\n}}\n")
    with pytest.raises(UnimplementedError, match="its size is known at run time only"):
        compile_module(module, CompileOptions())
