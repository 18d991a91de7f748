"""Programs optimised elsewhere: layouts that are not row-major, bitcasts that depend on them, and
fusions."""

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.defuser import Defuser
from xla_backend.passes.layout_normalization import LayoutNormalization


def test_bitcast_to_another_layout_is_a_transpose():
    check_pass(
        LayoutNormalization(),
        """HloModule m

        ENTRY main {
          // CHECK:      [[X:%[^ ]+]] = f32[3,5] parameter(0)
          %x = f32[3,5]{1,0} parameter(0)
          // CHECK-NEXT: ROOT {{.*}} = f32[5,3] transpose([[X]]), dimensions={1,0}
          ROOT %r = f32[5,3]{0,1} bitcast(%x)
        }
        """,
    )


def test_bitcast_of_a_column_major_array():
    check_pass(
        LayoutNormalization(),
        """HloModule m

        ENTRY main {
          // CHECK:      [[X:%[^ ]+]] = f32[4,6] parameter(0)
          %x = f32[4,6]{0,1} parameter(0)
          // CHECK-NEXT: [[T:%[^ ]+]] = f32[6,4] transpose([[X]]), dimensions={1,0}
          // CHECK-NEXT: ROOT {{.*}} = f32[3,8] reshape([[T]])
          ROOT %r = f32[3,8]{1,0} bitcast(%x)
        }
        """,
    )


def test_bitcast_of_equal_layouts_is_a_reshape():
    check_pass(
        LayoutNormalization(),
        """HloModule m

        ENTRY main {
          %x = f32[4,6] parameter(0)
          // CHECK:      ROOT {{.*}} = f32[24] reshape({{.*}})
          ROOT %r = f32[24] bitcast(%x)
        }
        """,
    )


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("f32[3,4]{0,1}", "s32[12]{0}"),
        ("f32[2,3,4]{0,2,1}", "u32[4,6]{0,1}"),
        ("f32[6]{0}", "u16[3,4]{0,1}"),
        ("u8[4,6]{0,1}", "u32[6]{0}"),
        ("f64[2,3]{0,1}", "f32[3,4]{1,0}"),
    ],
)
def test_bitcast_means_the_bytes(source, result):
    """Against the evaluator, which keeps the layouts."""
    check_pass(
        LayoutNormalization(),
        f"""HloModule m

        ENTRY main {{
          %x = {source} parameter(0)
          ROOT %r = {result} bitcast(%x)
        }}
        """,
    )


def test_layouts_are_dropped_everywhere():
    module = check_pass(
        LayoutNormalization(),
        """HloModule m

        body {
          p = (f32[3,5]{0,1}, s32[]) parameter(0)
          x = f32[3,5]{0,1} get-tuple-element(p), index=0
          y = f32[3,5]{1,0} copy(x)
          n = s32[] get-tuple-element(p), index=1
          z = f32[3,5]{0,1} add(y, y)
          ROOT t = (f32[3,5]{0,1}, s32[]) tuple(z, n)
        }

        ENTRY main {
          x = f32[3,5]{0,1} parameter(0)
          n = s32[] parameter(1)
          t = (f32[3,5]{0,1}, s32[]) tuple(x, n)
          ROOT r = (f32[3,5]{0,1}, s32[]) call(t), to_apply=body
        }
        """,
    )
    for computation in module.computations:
        for node in computation:
            assert all(leaf.layout is None for leaf in node.shape.flatten())


def test_default_layouts_are_left_alone():
    check_pass(
        LayoutNormalization(),
        """HloModule m

        ENTRY main {
          %x = f32[3,5]{1,0} parameter(0)
          ROOT %r = f32[15]{0} reshape(%x)
        }
        """,
        expect_change=False,
    )


def test_a_physical_order_can_be_read_off():
    """Column-major bytes of [[0, 1, 2], [3, 4, 5]] are 0 3 1 4 2 5."""
    module = parse_module(
        """HloModule m

        ENTRY main {
          %x = f32[2,3]{0,1} parameter(0)
          ROOT %r = f32[6]{0} bitcast(%x)
        }
        """
    )
    LayoutNormalization().run(module)
    (result,) = evaluate(module, [np.arange(6, dtype=np.float32).reshape(2, 3)])
    assert result.tolist() == [0, 3, 1, 4, 2, 5]


FUSED = """HloModule m

inner {
  a = f32[4] parameter(0)
  ROOT n = f32[4] negate(a)
}

outer {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  f = f32[4] fusion(a), kind=kLoop, calls=inner
  d = f32[] dot(f, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT t = (f32[], f32[4]) tuple(d, f)
}

ENTRY main {
  x = f32[4] parameter(0)
  ROOT r = (f32[], f32[4]) fusion(x, x), kind=kCustom, calls=outer,
    backend_config={"fusion_config":{"kind":"__library"}}
}
"""


def test_defuser():
    module = check_pass(Defuser(), FUSED)
    assert len(module.computations) == 1
    assert Opcode.DOT in {node.opcode for node in module.entry}


def test_defuser_without_fusions():
    check_pass(
        Defuser(),
        "HloModule m\nENTRY e { x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }",
        expect_change=False,
    )
