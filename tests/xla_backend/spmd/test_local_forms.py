"""What devices do for each kind of operation, as text: local shapes, and what they exchange."""

import pytest
from pass_checks import STYLE, match_checks
from spmd_checks import check_text, partitioned, program

from xla_backend.hlo.printer import module_to_text

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
    "slice of rows that not every device gets": (
        "// CHECK-NOT: all-gather\n// CHECK-NOT: collective-permute\n"
        "// CHECK: ROOT %{{.*}} = f32[2,6] all-reduce",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\n"
        "ROOT r = f32[2,6] slice(x), slice={[3:5], [0:6]}",
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
    "rotation": (
        "// CHECK-NOT: {{all-|reduce-scatter}}\n"
        "// CHECK: f32[3,6] slice(%x), slice={[1:4], [0:6]}\n"
        "// CHECK: f32[3,6] collective-permute({{.*}}pairs={{.*}}3,0},{0,1},{1,2},{2,3\n"
        "// CHECK-NOT: collective-permute(\n// CHECK: ROOT %{{.*}} = f32[4,6] concatenate",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\n"
        "a = f32[3,6] slice(x), slice={[13:16], [0:6]}\n"
        "b = f32[13,6] slice(x), slice={[0:13], [0:6]}\n"
        "ROOT r = f32[16,6] concatenate(a, b), dimensions={0}",
        ROWS,
    ),
    "rotation of a row on each": (
        "// CHECK-NOT: {{all-|reduce-scatter}}\n"
        "// CHECK: ROOT %{{.*}} = f32[1,6] collective-permute(%x{{.*}}1,0},{2,1},{3,2},{0,3",
        f"x = f32[4,6] parameter(0), sharding={ROWS}\n"
        "a = f32[3,6] slice(x), slice={[1:4], [0:6]}\n"
        "b = f32[1,6] slice(x), slice={[0:1], [0:6]}\n"
        "ROOT r = f32[4,6] concatenate(a, b), dimensions={0}",
        ROWS,
    ),
    "rows that move on by one": (
        "// CHECK-NOT: {{all-|reduce-scatter}}\n"
        "// CHECK: f32[1,6] collective-permute(%x{{.*}}pairs={{.*}}0,1},{1,2},{2,3\n"
        "// CHECK-NOT: collective-permute(",
        f"x = f32[4,6] parameter(0), sharding={ROWS}\ny = f32[1,6] parameter(1), sharding={WHOLE}\n"
        "a = f32[3,6] slice(x), slice={[0:3], [0:6]}\n"
        "ROOT r = f32[4,6] concatenate(y, a), dimensions={0}",
        ROWS,
    ),
    "concatenation": (
        "// CHECK-NOT: all-gather\n// CHECK: collective-permute\n// CHECK: ROOT {{.*}} select",
        f"x = f32[8,6] parameter(0), sharding={ROWS}\ny = f32[8,6] parameter(1), sharding={ROWS}\n"
        "ROOT r = f32[16,6] concatenate(x, y), dimensions={0}",
        ROWS,
    ),
    "largest place": (
        "// CHECK-NOT: all-to-all\n// CHECK: (f32[6], s32[6]) reduce(%x\n"
        "// CHECK: f32[4,6] all-gather\n// CHECK: s32[4,6] all-gather\n"
        "// CHECK: (f32[6], s32[6]) reduce({{.*}}dimensions={0}",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\ni = s32[16,6] iota(), iota_dimension=0\n"
        "z = f32[] constant(-inf)\no = s32[] constant(0)\n"
        "b = (f32[6], s32[6]) reduce(x, i, z, o), dimensions={0}, to_apply=largest\n"
        "ROOT r = s32[6] get-tuple-element(b), index=1",
        ALL,
    ),
    "gather of short slices": (
        "// CHECK-NOT: all-gather\n// CHECK: f32[10,6] pad(%x\n"
        "// CHECK: f32[2,3,6] gather({{.*}}slice_sizes={3,6}\n"
        "// CHECK: ROOT %{{.*}} = f32[2,3,6] all-reduce",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\ni = s32[2] parameter(1), sharding={ALL}\n"
        "ROOT r = f32[2,3,6] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={3,6}",
        f"{{{A}, [{{}}, {{}}, {{}}]}}",
    ),
    "scatter of short slices": (
        NOTHING + "// CHECK: f32[10,6] pad(%x\n// CHECK: f32[10,6] scatter(\n"
        "// CHECK: ROOT %{{.*}} = f32[4,6] slice({{.*}}slice={[3:7], [0:6]}",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\ni = s32[2] parameter(1), sharding={ALL}\n"
        f"u = f32[2,3,6] parameter(2), sharding={{{A}, [{{}}, {{}}, {{}}]}}\n"
        "ROOT r = f32[16,6] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
        ROWS,
    ),
    "scatter of less than the array": (
        "// CHECK-NOT: all-reduce\n// CHECK-NOT: reduce-scatter\n// CHECK: f32[8,6] all-gather(%u\n"
        "// CHECK: ROOT %{{.*}} = f32[4,6] scatter(%x",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\ni = s32[8] parameter(1), sharding={ROW}\n"
        f"u = f32[8,6] parameter(2), sharding={ROWS}\n"
        "ROOT r = f32[16,6] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
        ROWS,
    ),
    "dynamic-update-slice of many rows": (
        NOTHING + "// CHECK: f32[18,6] pad(%u\n// CHECK: f32[4,6] dynamic-slice\n"
        "// CHECK-NOT: f32[{{[1-9][0-9]}},6]\n// CHECK: ROOT %{{.*}} = f32[4,6] ",
        f"x = f32[16,6] parameter(0), sharding={ROWS}\n"
        f"u = f32[10,6] parameter(1), sharding={WHOLE}\ni = s32[] parameter(2)\n"
        "z = s32[] constant(0)\nROOT r = f32[16,6] dynamic-update-slice(x, u, i, z)",
        ROWS,
    ),
    "right-hand sides of a system": (
        NOTHING + "// CHECK: ROOT %{{.*}} = f32[3,2] triangular-solve(%{{.*}}, %x)",
        f"a = f32[3,3] parameter(0), sharding={WHOLE}\n"
        f"x = f32[3,8] parameter(1), sharding={COLUMNS}\n"
        "ROOT r = f32[3,8] triangular-solve(a, x), left_side=true, lower=true, "
        "unit_diagonal=true, transpose_a=NO_TRANSPOSE",
        COLUMNS,
    ),
    # -- the dimension must be whole: another one is cut for a while -------------------------------
    "transform of both dimensions": (
        "// CHECK-NOT: all-gather\n// CHECK: c64[2,8] fft(%x), fft_type=FFT, fft_length={8}\n"
        "// CHECK: all-to-all({{.*}}\n// CHECK-NOT: {{[]] all-}}\n"
        "// CHECK: c64[2,8] fft({{.*}}, fft_type=FFT, fft_length={8}\n// CHECK-NOT: all-",
        f"x = c64[8,8] parameter(0), sharding={ROWS}\n"
        "ROOT r = c64[8,8] fft(x), fft_type=FFT, fft_length={8,8}",
        COLUMNS,
    ),
    "a part of what is sorted": (
        "// CHECK-NOT: all-gather\n// CHECK: all-to-all\n// CHECK: f32[8,2] sort\n"
        "// CHECK-NOT: all-gather\n// CHECK: f32[2,2] negate\n"
        "// CHECK: ROOT %{{.*}} = f32[2,8] all-gather",
        f"x = f32[8,8] parameter(0), sharding={ROWS}\n"
        "s = f32[8,8] sort(x), dimensions={0}, to_apply=before\n"
        "t = f32[2,8] slice(s), slice={[0:2], [0:8]}\nROOT n = f32[2,8] negate(t)",
        WHOLE,
    ),
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
largest { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GE
  m = f32[] select(c, a, b)
  n = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(m, n) }
"""


# Custom calls of linear algebra, which the evaluator does not know: text only.
FACTORISATIONS = {
    "syevd": ("(f32[8,4,4], f32[8,4], s32[8])", "(f32[2,4,4], f32[2,4], s32[2])"),
    "gesdd": (
        "(f32[8,4,4], f32[8,4], f32[8,4,4], f32[8,4,4], s32[8])",
        "(f32[2,4,4], f32[2,4], f32[2,4,4], f32[2,4,4], s32[2])",
    ),
    "geqrf": ("(f32[8,4,4], f32[8,4])", "(f32[2,4,4], f32[2,4])"),
    "getrf": ("(f32[8,4,4], s32[8,4], s32[8])", "(f32[2,4,4], s32[2,4], s32[2])"),
}


@pytest.mark.parametrize("name", FACTORISATIONS)
def test_batches_of_factorisations_stay_cut(name):
    whole, part = FACTORISATIONS[name]
    batch = f"{{{A}, [{{'a'}}, {{}}, {{}}]}}"
    module = partitioned(
        program(
            f"x = f32[8,4,4] parameter(0), sharding={batch}\n"
            f'f = {whole} custom-call(x), custom_call_target="lapack.{name}"\n'
            f"ROOT r = f32[8,4,4] get-tuple-element(f), index=0, sharding={batch}",
            4,
        )
    )
    match_checks(NOTHING + f"// CHECK: {part} custom-call(%x)", module_to_text(module, STYLE))


@pytest.mark.parametrize("name", FORMS)
def test_form(name):
    checks, body, root = FORMS[name]
    check_text(f"{checks}\n{body}, sharding={root}", 4, CALLED)
