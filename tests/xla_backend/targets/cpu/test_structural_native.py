"""Shape, indexing, reduction and contraction opcodes: native code against the evaluator, on awkward
shapes."""

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.targets.cpu.compiler import compile_module

ADD = """
add {
  x = TYPE[] parameter(0)
  y = TYPE[] parameter(1)
  ROOT r = TYPE[] add(x, y)
}
"""
MAXIMUM = ADD.replace("add", "maximum")
ARGMAX = """
argmax {
  v0 = f32[] parameter(0)
  i0 = s32[] parameter(1)
  v1 = f32[] parameter(2)
  i1 = s32[] parameter(3)
  gt = pred[] compare(v0, v1), direction=GT
  nan = pred[] compare(v0, v0), direction=NE
  first = pred[] or(gt, nan)
  eq = pred[] compare(v0, v1), direction=EQ
  lt = pred[] compare(i0, i1), direction=LT
  tie = pred[] and(eq, lt)
  take = pred[] or(first, tie)
  v = f32[] select(first, v0, v1)
  i = s32[] select(take, i0, i1)
  ROOT t = (f32[], s32[]) tuple(v, i)
}
"""

SHAPE_PROGRAMS = {
    "broadcast": "x = f32[5] parameter(0)\nROOT r = f32[3,5,7] broadcast(x), dimensions={1}",
    "transpose": (
        "x = f32[3,17,33] parameter(0)\nROOT r = f32[33,3,17] transpose(x), dimensions={2,0,1}"
    ),
    "transpose_large": (
        "x = f32[130,70] parameter(0)\nROOT r = f32[70,130] transpose(x), dimensions={1,0}"
    ),
    "reshape": (
        "x = f32[6,35] parameter(0)\ny = f32[6,35] negate(x)\nROOT r = f32[7,5,6] reshape(y)"
    ),
    "reshape_transpose": """x = f32[12,10] parameter(0)
        t = f32[10,12] transpose(x), dimensions={1,0}
        ROOT r = f32[5,24] reshape(t)""",
    "slice": "x = f32[9,40] parameter(0)\nROOT r = f32[3,19] slice(x), slice={[1:9:3], [1:39:2]}",
    "slice_stride_3": "x = f32[100] parameter(0)\nROOT r = f32[33] slice(x), slice={[1:100:3]}",
    "reverse": "x = f32[4,50] parameter(0)\nROOT r = f32[4,50] reverse(x), dimensions={0,1}",
    "pad": """x = f32[3,10] parameter(0)
        z = f32[] constant(7)
        ROOT r = f32[6,26] pad(x, z), padding=1_2x3_4_1""",
    "pad_negative": """x = f32[8,10] parameter(0)
        z = f32[] constant(7)
        ROOT r = f32[5,12] pad(x, z), padding=-1_-2x3_-1""",
    "concatenate": """a = f32[3,5] parameter(0)
        b = f32[3,30] parameter(1)
        c = f32[3,1] parameter(2)
        ROOT r = f32[3,36] concatenate(a, b, c), dimensions={1}""",
    "concatenate_used": """a = f32[3,5] parameter(0)
        b = f32[4,5] parameter(1)
        c = f32[7,5] concatenate(a, b), dimensions={0}
        ROOT r = f32[7,5] tanh(c)""",
    "roll_in_a_stencil": """x = f32[20,200] parameter(0)
        a = f32[20,1] slice(x), slice={[0:20], [199:200]}
        b = f32[20,199] slice(x), slice={[0:20], [0:199]}
        left = f32[20,200] concatenate(a, b), dimensions={1}
        c = f32[20,150] slice(x), slice={[0:20], [50:200]}
        d = f32[20,50] slice(x), slice={[0:20], [0:50]}
        right = f32[20,200] concatenate(c, d), dimensions={1}
        s = f32[20,200] add(left, right)
        ROOT r = f32[20,200] multiply(s, x)""",
    "pad_long": """x = f32[3,333] parameter(0)
        z = f32[] constant(7)
        p = f32[3,500] pad(x, z), padding=0_0x67_100
        q = f32[3,500] pad(x, z), padding=0_0x100_67
        m = f32[3,500] maximum(p, q)
        ROOT r = f32[3,500] negate(m)""",
    "pad_bf16": """x = bf16[3,130] parameter(0)
        z = bf16[] constant(7)
        p = bf16[3,161] pad(x, z), padding=0_0x1_30
        ROOT r = bf16[3,161] negate(p)""",
    "iota": "ROOT r = s32[4,21] iota(), iota_dimension=1",
    "iota_types": """a = f32[21,3] iota(), iota_dimension=0
        b = u8[40] iota(), iota_dimension=0
        c = c64[5] iota(), iota_dimension=0
        d = bf16[40] iota(), iota_dimension=0
        ROOT t = (f32[21,3], u8[40], c64[5], bf16[40]) tuple(a, b, c, d)""",
    "complex_moves": """x = c64[5,18] parameter(0)
        t = c64[18,5] transpose(x), dimensions={1,0}
        n = c64[18,5] negate(t)
        ROOT r = c64[18,5] reverse(n), dimensions={1}""",
    "zero_sized": "x = f32[0,4] parameter(0)\nROOT r = f32[0,4] tanh(x)",
    "literal": """c = f32[2,20] constant({{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20},
          {0,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,-1}})
        x = f32[2,20] parameter(0)
        ROOT r = f32[2,20] multiply(x, c)""",
    "dynamic_slice": """x = f32[9,20] parameter(0)
        i = s32[] constant(7)
        j = s32[] constant(-3)
        ROOT r = f32[4,20] dynamic-slice(x, i, j), dynamic_slice_sizes={4,20}""",
    "dynamic_update_slice": """x = f32[9,20] parameter(0)
        u = f32[3,11] parameter(1)
        i = s32[] constant(8)
        j = s32[] constant(2)
        ROOT r = f32[9,20] dynamic-update-slice(x, u, i, j)""",
    "matvec": """a = f32[13,40] parameter(0)
        b = f32[40] parameter(1)
        ROOT r = f32[13] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "batch_dot": """a = f32[4,7,9] parameter(0)
        b = f32[4,9,6] parameter(1)
        ROOT r = f32[4,7,6] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
          lhs_contracting_dims={2}, rhs_contracting_dims={1}""",
    "dot_odd_order": """a = f32[5,4,7,3] parameter(0)
        b = f32[3,6,4,7] parameter(1)
        ROOT r = f32[4,5,6] dot(a, b), lhs_batch_dims={1}, rhs_batch_dims={2},
          lhs_contracting_dims={3,2}, rhs_contracting_dims={0,3}""",
    "outer": """a = f32[5] parameter(0)
        b = f32[33] parameter(1)
        ROOT r = f32[5,33] dot(a, b), lhs_contracting_dims={}, rhs_contracting_dims={}""",
    "dot_empty_contraction": """a = f32[5,0] parameter(0)
        b = f32[0,4] parameter(1)
        ROOT r = f32[5,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "convolution": """x = f32[2,9,8,3] parameter(0)
        k = f32[3,2,3,5] parameter(1)
        ROOT r = f32[2,5,8,5] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x0_1},
          dim_labels=b01f_01io->b01f""",
    "convolution_dilated": """x = f32[1,4,7] parameter(0)
        k = f32[6,2,3] parameter(1)
        ROOT r = f32[1,6,11] convolution(x, k), window={size=3 pad=1_1 lhs_dilate=2 rhs_dilate=2
          rhs_reversal=1},
          dim_labels=bf0_oi0->bf0, feature_group_count=2""",
}


@pytest.mark.parametrize("name", SHAPE_PROGRAMS)
def test_shape_program(name):
    check_native(module_of(SHAPE_PROGRAMS[name]), scale=4)


@pytest.mark.parametrize("type", ["f64", "bf16", "s32", "c64", "f16", "s8"])
def test_dot_types(type):
    check_native(
        module_of(
            f"""a = {type}[6,19] parameter(0)
            b = {type}[19,35] parameter(1)
            ROOT r = {type}[6,35] dot(a, b), lhs_contracting_dims={{1}},
              rhs_contracting_dims={{0}}"""
        ),
        scale=20,
    )


REDUCED = [((0,), (5,)), ((1,), (3,)), ((0, 1), ())]


@pytest.mark.parametrize("dims", ["0", "1", "2", "0,2", "0,1", "1,2", "0,1,2"])
@pytest.mark.parametrize("shape", [(3, 17, 40), (2, 3, 5), (70, 9, 3)])
@pytest.mark.parametrize("type", ["f32", "s32", "bf16", "c64"])
def test_reduce_add(dims, shape, type):
    gone = {int(d) for d in dims.split(",")}
    kept = ",".join(str(s) for i, s in enumerate(shape) if i not in gone)
    check_native(
        module_of(
            f"""x = {type}[{",".join(map(str, shape))}] parameter(0)
            z = {type}[] constant({"(0,0)" if type == "c64" else 0})
            ROOT r = {type}[{kept}] reduce(x, z), dimensions={{{dims}}}, to_apply=add""",
            ADD.replace("TYPE", type),
        ),
        scale=40,
    )


@pytest.mark.parametrize("dims,kept", [("0,1", ""), ("0", "700"), ("1", "300")])
def test_reduce_large_is_blocked(dims, kept):
    """Large enough for blocks on several threads; the initial value counts once."""
    executable = check_native(
        module_of(
            f"""x = f32[300,700] parameter(0)
            e = f32[300,700] exponential(x)
            z = f32[] constant(10)
            ROOT r = f32[{kept}] reduce(e, z), dimensions={{{dims}}}, to_apply=add""",
            ADD.replace("TYPE", "f32"),
        ),
        scale=50,
    )
    if dims == "0,1":
        assert "partial0" in next(iter(executable.loop_ir.values()))


@pytest.mark.parametrize("axis,kept", [(0, "17,40"), (1, "3,40"), (2, "3,17")])
def test_argmax(axis, kept):
    check_native(
        module_of(
            f"""x = f32[3,17,40] parameter(0)
            i = s32[3,17,40] iota(), iota_dimension={axis}
            low = f32[] constant(-inf)
            zero = s32[] constant(0)
            r = (f32[{kept}], s32[{kept}]) reduce(x, i, low, zero), dimensions={{{axis}}},
              to_apply=argmax
            ROOT o = s32[{kept}] get-tuple-element(r), index=1""",
            ARGMAX,
        )
    )


LAST = """
last {
  f0 = pred[] parameter(0)
  v0 = s32[] parameter(1)
  f1 = pred[] parameter(2)
  v1 = s32[] parameter(3)
  f = pred[] or(f0, f1)
  v = s32[] select(f1, v1, v0)
  ROOT t = (pred[], s32[]) tuple(f, v)
}
"""


@pytest.mark.parametrize(("dims", "axis", "kept"), [("3,700", 1, "3"), ("700,3", 0, "3")])
def test_what_selects_by_place_keeps_the_order(dims, axis, kept):
    """The last element whose flag is set: lanes of neighbours would mix up which is the last."""
    module = module_of(
        f"""p = pred[{dims}] parameter(0)
        x = s32[{dims}] parameter(1)
        no = pred[] constant(false)
        none = s32[] constant(-1)
        ROOT r = (pred[{kept}], s32[{kept}]) reduce(p, x, no, none), dimensions={{{axis}}},
          to_apply=last""",
        LAST,
    )
    rng = np.random.default_rng(0)
    shape = tuple(map(int, dims.split(",")))
    values = np.arange(2100, dtype=np.int32).reshape(shape)
    check_native(module, [rng.random(shape) < 0.05, values])


def test_reduce_maximum_with_nan():
    x = np.random.default_rng(0).standard_normal((7, 100)).astype(np.float32)
    x[2, 50] = np.nan
    x[3] = -np.inf
    check_native(
        module_of(
            """x = f32[7,100] parameter(0)
            z = f32[] constant(-inf)
            ROOT r = f32[7] reduce(x, z), dimensions={1}, to_apply=maximum""",
            MAXIMUM.replace("TYPE", "f32"),
        ),
        [x],
    )


WINDOWS = [
    ("1x4x6x3", "size=1x2x2x1 stride=1x2x2x1", "1x2x3x3"),
    ("2x9x9x1", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", "2x5x5x1"),
    ("1x8x1x1", "size=1x3x1x1 rhs_dilate=1x2x1x1", "1x4x1x1"),
]


@pytest.mark.parametrize("dims,window,out", WINDOWS)
@pytest.mark.parametrize("computation", [ADD, MAXIMUM])
def test_reduce_window(dims, window, out, computation):
    name = "add" if computation is ADD else "maximum"
    check_native(
        module_of(
            f"""x = f32[{dims.replace("x", ",")}] parameter(0)
            z = f32[] constant({0 if name == "add" else "-inf"})
            ROOT r = f32[{out.replace("x", ",")}] reduce-window(x, z), window={{{window}}},
              to_apply={name}""",
            computation.replace("TYPE", "f32"),
        ),
        scale=4,
    )


@pytest.mark.parametrize("pad", ["39_0", "0_39"])
def test_cumulative_sum(pad):
    check_native(
        module_of(
            f"""x = f32[5,40,3] parameter(0)
            z = f32[] constant(0)
            ROOT r = f32[5,40,3] reduce-window(x, z), window={{size=1x40x1 pad=0_0x{pad}x0_0}},
              to_apply=add""",
            ADD.replace("TYPE", "f32"),
        ),
        scale=20,
    )


def test_select_and_scatter():
    check_native(
        module_of(
            """x = f32[2,7,8,20] parameter(0)
            s = f32[2,3,4,20] parameter(1)
            z = f32[] constant(0)
            ROOT r = f32[2,7,8,20] select-and-scatter(x, s, z), window={size=1x3x2x1
              stride=1x2x2x1},
              select=ge, scatter=add""",
            ADD.replace("TYPE", "f32") + "ge {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
            " ROOT r = pred[] compare(x, y), direction=GE\n}",
        ),
        scale=4,
    )


def _index_module(text):
    module = module_of(text, ADD.replace("TYPE", "f32"))
    arguments = arguments_of(module)
    return module, arguments


def test_gather_clamps():
    module, (x, _) = _index_module(
        """x = f32[10,33] parameter(0)
        i = s32[6,1] parameter(1)
        ROOT r = f32[6,33] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0},
          index_vector_dim=1, slice_sizes={1,33}"""
    )
    check_native(module, [x, np.array([[0], [9], [-5], [100], [2**31 - 1], [-(2**31)]], np.int32)])


def test_gather_batch_and_window():
    module, (x, _) = _index_module(
        """x = f32[4,10,12] parameter(0)
        i = s32[4,5,2] parameter(1)
        ROOT r = f32[4,5,3,4] gather(x, i), offset_dims={2,3}, collapsed_slice_dims={},
          start_index_map={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0},
          index_vector_dim=2, slice_sizes={1,3,4}"""
    )
    indices = np.random.default_rng(0).integers(-3, 14, (4, 5, 2)).astype(np.int32)
    check_native(module, [x, indices])


def test_scatter_add_drops_out_of_range():
    module, (x, _, u) = _index_module(
        """x = f32[10,33] parameter(0)
        i = s32[6,1] parameter(1)
        u = f32[6,33] parameter(2)
        ROOT r = f32[10,33] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""
    )
    check_native(module, [x, np.array([[3], [3], [-1], [10], [9], [0]], np.int32), u], scale=4)


@pytest.mark.parametrize("level", [0, 2])
def test_scatter_of_one_number(level):
    """No dimension counts updates, and none is of a window."""
    module = module_of(
        """x = f32[11] parameter(0)
        i = s32[1] parameter(1)
        u = f32[] parameter(2)
        ROOT r = f32[11] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add""",
        ADD.replace("TYPE", "f32"),
    )
    executable = compile_module(module, CompileOptions(optimization_level=level))
    x, i, u = np.arange(11, dtype=np.float32), np.array([4], np.int32), np.float32(5)
    (got,) = executable.run_arrays([x, i, u])
    np.testing.assert_array_equal(got, x + np.where(np.arange(11) == 4, u, 0))


def test_scatter_of_scalars():
    module, (x, _, u) = _index_module(
        """x = f32[11] parameter(0)
        i = s32[50,1] parameter(1)
        u = f32[50] parameter(2)
        ROOT r = f32[11] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""
    )
    indices = np.random.default_rng(0).integers(-2, 14, (50, 1)).astype(np.int32)
    check_native(module, [x, indices, u], scale=10)


@pytest.mark.parametrize("pads", ["39_0", "0_39"])
def test_prefixes_of_what_does_not_commute(pads):
    """(a, b) followed by (c, d) is x -> c * (a x + b) + d."""
    called = """c { a = s32[] parameter(0)  b = s32[] parameter(1)
      c = s32[] parameter(2)  d = s32[] parameter(3)
      ac = s32[] multiply(a, c)  bc = s32[] multiply(b, c)  e = s32[] add(bc, d)
      ROOT r = (s32[], s32[]) tuple(ac, e) }"""
    check_native(
        module_of(
            f"""a = s32[2,40] parameter(0)
            b = s32[2,40] parameter(1)
            one = s32[] constant(1)
            zero = s32[] constant(0)
            ROOT r = (s32[2,40], s32[2,40]) reduce-window(a, b, one, zero),
              window={{size=1x40 pad=0_0x{pads}}}, to_apply=c""",
            called,
        )
    )
