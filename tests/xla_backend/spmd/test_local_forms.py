"""What devices do for each kind of operation, as text: local shapes, and what they exchange."""

import pytest
from spmd_checks import check_text

A = "mesh['a'=4]"
ROWS, COLUMNS, WHOLE = (
    f"{{{A}, [{{'a'}}, {{}}]}}",
    f"{{{A}, [{{}}, {{'a'}}]}}",
    f"{{{A}, [{{}}, {{}}]}}",
)
ROW, ALL = f"{{{A}, [{{'a'}}]}}", f"{{{A}, [{{}}]}}"
IMAGE = f"{{{A}, [{{}}, {{'a'}}, {{}}, {{}}]}}"
KERNEL = f"{{{A}, [{{}}, {{}}, {{}}, {{}}]}}"
NOTHING = "// CHECK-NOT: = {{.*}} {{(all-|reduce-scatter|collective-).*[(]}}\n"

# name -> (CHECK lines, instructions, the root's sharding)
FORMS = {
    # -- nothing is exchanged ----------------------------------------------------------------------
    "elementwise": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[2,8] add(%x, %y)",
        f"x = f32[8,8] parameter(0), sharding={ROWS}\ny = f32[8,8] parameter(1), sharding={ROWS}\n"
        "ROOT r = f32[8,8] add(x, y)",
        ROWS,
    ),
    "broadcast": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[2,6] broadcast(%x), dimensions={0}",
        f"x = f32[8] parameter(0), sharding={ROW}\n"
        "ROOT r = f32[8,6] broadcast(x), dimensions={0}",
        ROWS,
    ),
    "transpose": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[6,2] transpose(%x)",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\n"
        "ROOT r = f32[6,8] transpose(x), dimensions={1,0}",
        COLUMNS,
    ),
    "reshape": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[12] reshape(%x)",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\nROOT r = f32[48] reshape(x)",
        ROW,
    ),
    "sort": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[2,6] sort(%x), dimensions={1}",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\n"
        "ROOT r = f32[8,6] sort(x), dimensions={1}, to_apply=before",
        ROWS,
    ),
    "iota": (
        NOTHING
        + "// CHECK: s32[2,6] iota(), iota_dimension=0\n// CHECK: add(\n"
        + "// CHECK: ROOT {{.*}} f32[2,6] convert(",
        "ROOT r = f32[8,6] iota(), iota_dimension=0",
        ROWS,
    ),
    "dynamic-update-slice of a row": (
        NOTHING
        + "// CHECK: f32[1,6] select\n// CHECK: ROOT %{{.*}} = f32[2,6] dynamic-update-slice",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\nu = f32[1,6] parameter(1), sharding={WHOLE}\n"
        "i = s32[] parameter(2)\nz = s32[] constant(0)\n"
        "ROOT r = f32[8,6] dynamic-update-slice(x, u, i, z)",
        ROWS,
    ),
    "scatter": (
        NOTHING + "// CHECK: s32[5] subtract\n// CHECK: ROOT %{{.*}} = f32[2,6] scatter(%x",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\ni = s32[5] parameter(1), sharding={ALL}\n"
        f"u = f32[5,6] parameter(2), sharding={WHOLE}\n"
        "ROOT r = f32[8,6] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
        ROWS,
    ),
    "pooling side by side": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[2,6] reduce-window(%x",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "ROOT r = f32[8,6] reduce-window(x, z), window={size=2x1 stride=2x1}, to_apply=sum",
        ROWS,
    ),
    # -- parts of sums -----------------------------------------------------------------------------
    "reduce": (
        "// CHECK: %[[P:.*]] = f32[6] reduce(%x\n"
        "// CHECK-NEXT: ROOT %{{.*}} = f32[6] all-reduce(%[[P]])",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "ROOT r = f32[6] reduce(x, z), dimensions={0}, to_apply=sum",
        ALL,
    ),
    "dynamic-slice of a row": (
        "// CHECK: f32[1,6] dynamic-slice(%x\n// CHECK: f32[1,6] select\n"
        "// CHECK-NEXT: ROOT %{{.*}} = f32[1,6] all-reduce",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\ni = s32[] parameter(1)\n"
        "z = s32[] constant(0)\n"
        "ROOT r = f32[1,6] dynamic-slice(x, i, z), dynamic_slice_sizes={1,6}",
        WHOLE,
    ),
    "slice of a row": (
        "// CHECK-NOT: all-gather\n// CHECK: = f32[1,6] all-reduce",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\n"
        "ROOT r = f32[1,6] slice(x), slice={[5:6], [0:6]}",
        WHOLE,
    ),
    "gradient of a kernel": (
        "// CHECK: f32[2,3,3,3] convolution\n// CHECK-NEXT: ROOT %{{.*}} = f32[2,3,3,3] all-reduce",
        f"x = f32[2,8,8,4] parameter(0), sharding={IMAGE}\n"
        f"g = f32[8,8,4,3] parameter(1), sharding={{{A}, [{{'a'}}, {{}}, {{}}, {{}}]}}\n"
        "ROOT r = f32[2,3,3,3] convolution(x, g), window={size=8x8 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
        KERNEL,
    ),
    # -- borders -----------------------------------------------------------------------------------
    "convolution": (
        "// CHECK-NOT: all-gather\n"
        "// CHECK: f32[2,1,8,4] collective-permute({{.*}}pairs={{.*}}0,1},{1,2},{2,3\n"
        "// CHECK: f32[2,1,8,4] collective-permute({{.*}}pairs={{.*}}1,0},{2,1},{3,2\n"
        "// CHECK: f32[2,6,8,4] concatenate\n"
        "// CHECK: ROOT %{{.*}} = f32[2,4,8,3] convolution({{.*}}window={size=3x3 pad=0_0x1_1}",
        f"x = f32[2,16,8,4] parameter(0), sharding={IMAGE}\n"
        f"k = f32[3,3,4,3] parameter(1), sharding={KERNEL}\n"
        "ROOT r = f32[2,16,8,3] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
        IMAGE,
    ),
    "strided convolution": (
        "// CHECK-NOT: all-gather\n// CHECK: f32[2,1,8,4] collective-permute\n"
        "// CHECK-NOT: collective-permute(\n// CHECK: ROOT %{{.*}} = f32[2,2,8,3] convolution",
        f"x = f32[2,16,8,4] parameter(0), sharding={IMAGE}\n"
        f"k = f32[3,3,4,3] parameter(1), sharding={KERNEL}\n"
        "ROOT r = f32[2,8,8,3] convolution(x, k), window={size=3x3 stride=2x1 pad=0_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
        IMAGE,
    ),
    "transposed convolution": (
        "// CHECK-NOT: all-gather\n// CHECK: f32[2,1,8,4] collective-permute\n"
        "// CHECK: convolution({{.*}}lhs_dilate=2x1",
        f"x = f32[2,8,8,4] parameter(0), sharding={IMAGE}\n"
        f"k = f32[3,3,4,3] parameter(1), sharding={KERNEL}\n"
        "ROOT r = f32[2,16,8,3] convolution(x, k), window={size=3x3 pad=1_2x1_1 lhs_dilate=2x1}, "
        "dim_labels=b01f_01io->b01f",
        IMAGE,
    ),
    "window": (
        "// CHECK-NOT: all-gather\n// CHECK: f32[2,6] collective-permute\n"
        "// CHECK: ROOT %{{.*}} = f32[4,6] reduce-window",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "ROOT r = f32[16,6] reduce-window(x, z), window={size=3x1 pad=2_0x0_0}, to_apply=sum",
        ROWS,
    ),
    "pad": (
        "// CHECK-NOT: all-gather\n// CHECK: f32[1,6] collective-permute\n// CHECK: select",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "ROOT r = f32[16,6] pad(x, z), padding=1_-1x0_0",
        ROWS,
    ),
    "shift": (
        "// CHECK-NOT: all-\n// CHECK: f32[1,6] collective-permute\n// CHECK: ROOT",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "h = f32[15,6] slice(x), slice={[1:16], [0:6]}\n"
        "ROOT r = f32[16,6] pad(h, z), padding=0_1x0_0",
        ROWS,
    ),
    "reverse": (
        "// CHECK-NOT: all-\n// CHECK: f32[4,6] collective-permute\n"
        "// CHECK: ROOT %{{.*}} = f32[4,6] reverse",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\n"
        "ROOT r = f32[16,6] reverse(x), dimensions={0}",
        ROWS,
    ),
    "stencil": (
        "// CHECK-NOT: all-\n// CHECK: collective-permute\n// CHECK: f32[4,6] subtract",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "a = f32[14,6] slice(x), slice={[2:16], [0:6]}\n"
        "b = f32[14,6] slice(x), slice={[0:14], [0:6]}\n"
        "d = f32[14,6] subtract(a, b)\nROOT r = f32[16,6] pad(d, z), padding=1_1x0_0",
        ROWS,
    ),
    "running sum": (
        "// CHECK: f32[4,6] reduce-window({{.*}}window={size=4x1 pad=3_0x0_0}\n"
        "// CHECK: f32[4,6] all-gather\n// CHECK: f32[6] reduce\n"
        "// CHECK: ROOT {{.*}} f32[4,6] add",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\nz = f32[] constant(0)\n"
        "ROOT r = f32[16,6] reduce-window(x, z), window={size=16x1 pad=15_0x0_0}, to_apply=sum",
        ROWS,
    ),
    "concatenation": (
        "// CHECK-NOT: all-gather\n// CHECK: collective-permute\n// CHECK: ROOT {{.*}} select",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\ny = f32[8,6] parameter(1), sharding={ROWS}\n"
        "ROOT r = f32[16,6] concatenate(x, y), dimensions={0}",
        ROWS,
    ),
    # -- the dimension must be whole: another one is cut for a while -------------------------------
    "sort along the cut dimension": (
        "// CHECK-NOT: all-gather\n// CHECK: all-to-all\n// CHECK: f32[8,2] sort\n"
        "// CHECK: all-to-all",
        f"x = f32[8,8] parameter(0), sharding={ROWS}\n"
        "ROOT r = f32[8,8] sort(x), dimensions={0}, to_apply=before",
        ROWS,
    ),
}  # fmt: skip
CALLED = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
before { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""


@pytest.mark.parametrize("name", FORMS)
def test_form(name):
    checks, body, root = FORMS[name]
    check_text(f"{checks}\n{body}, sharding={root}", 4, CALLED)
